"""Networks in time: links that are silent, fail or are slow, and nodes that leave, join and take part at random."""

from lessbits.faults.description import Event, Faults

__all__ = ["Event", "Faults"]
