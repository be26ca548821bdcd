"""Solutions that have been found, kept as long as their problems are.

Problems are frozen. So a solution stands beside them, and can be given to a copy of a problem, or to the part of one
whose whole was solved by several processes, without writing into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

if TYPE_CHECKING:
    from lessbits.problems.base import Problem

# By the object itself: problems are compared by identity, as `pytree` makes them.
_solutions: WeakKeyDictionary[Problem, np.ndarray] = WeakKeyDictionary()


def known_solution(problem: Problem) -> np.ndarray | None:
    """Return x* of the problem if it was found before."""
    return _solutions.get(problem)


def remember_solution(problem: Problem, solution: np.ndarray) -> np.ndarray:
    """Keep x* of the problem, and return it."""
    _solutions[problem] = solution
    return solution
