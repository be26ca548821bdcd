"""The processes that together hold the nodes, as data and reference solutions see them."""

from collections.abc import Callable
from typing import Protocol

import numpy as np


class Team(Protocol):
    """Processes that hold some nodes each. All must call the same functions in the same order."""

    def all_gather(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of all nodes."""

    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Return the array of the first process, in every process."""

    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Return a sum to which each process adds its part, one after the other."""


class SingleProcessTeam:
    """A team of one process, which holds all nodes."""

    def all_gather(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows, which are those of all nodes already."""
        return rows

    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Return the array."""
        assert array is not None
        return array

    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Return the sum of this process."""
        return add(start)


SINGLE_PROCESS = SingleProcessTeam()
