"""Default step sizes, and search for step sizes and for the fewest bits."""

from lessbits.tuning.grid import lattice
from lessbits.tuning.results import Candidate, Tuning
from lessbits.tuning.search import tune

__all__ = ["Candidate", "Tuning", "lattice", "tune"]
