"""Nodes in several processes that exchange bytes."""
