"""Step sizes found by search."""

from lessbits.tuning.grid import lattice
from lessbits.tuning.search import Candidate, Tuning, tune

__all__ = ["Candidate", "Tuning", "lattice", "tune"]
