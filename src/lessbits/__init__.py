"""Decentralized optimization with compressed communication."""
