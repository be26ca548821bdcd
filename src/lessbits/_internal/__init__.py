"""Helpers that every package may use; not part of the public interface."""
