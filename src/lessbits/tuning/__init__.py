"""Default step sizes, and search for step sizes and for the fewest bits."""

from lessbits.tuning.grid import lattice
from lessbits.tuning.search import Candidate, Tuning, tune

__all__ = ["Candidate", "Tuning", "lattice", "tune"]
