"""The processes that hold the nodes of a problem together, as far as data and reference solutions need them."""

from collections.abc import Callable
from typing import Protocol

import numpy as np


class Team(Protocol):
    """Processes that hold some nodes each; every one of them must call the same functions in the same order."""

    def all_gather(self, rows: np.ndarray) -> np.ndarray:
        """Join the rows of all nodes."""

    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Return the first process's array everywhere."""

    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Let one process after the other add to a sum."""


class SingleProcessTeam:
    """This process alone, which holds all nodes."""

    def all_gather(self, rows: np.ndarray) -> np.ndarray:
        """Nothing to join."""
        return rows

    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Nobody to tell."""
        assert array is not None
        return array

    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Nobody before or after."""
        return add(start)


SINGLE_PROCESS = SingleProcessTeam()
