"""Solutions that have been found, given or declined, kept as long as their problems are.

Problems are frozen. So a solution stands beside them, and can be given to a copy of a problem, or to the part of one
whose whole was solved by several processes, without writing into it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from lessbits._internal.precision import in_this_precision
from lessbits.datasets.arrays import as_rows
from lessbits.errors import InputError

if TYPE_CHECKING:
    from lessbits.problems.base import Problem

Some = TypeVar("Some", bound="Problem")
# What can be said of x* when a problem is made: an array gives it, None declines it.
SolutionChoice = np.ndarray | Literal["compute"] | None

# By the object itself: problems are compared by identity, as `pytree` makes them.
_solutions: WeakKeyDictionary[Problem, np.ndarray] = WeakKeyDictionary()
_declined: WeakSet[Problem] = WeakSet()
_ahead: WeakKeyDictionary[Problem, threading.Thread] = WeakKeyDictionary()
SMALL = 1_000_000  # numbers in the data up to which a problem is solved ahead: nobody waits long for the thread


def known_solution(problem: Problem) -> np.ndarray | None:
    """Return x* of the problem if it was found or given before, or is being found by `solve_ahead`."""
    thread = _ahead.get(problem)
    if thread is not None and thread is not threading.current_thread():
        thread.join()
    return _solutions.get(problem)


def solve_ahead(problem: Problem) -> None:
    """Begin to solve a small problem in a thread, while the caller does something else, such as choosing step sizes."""
    if problem.samples * problem.dim > SMALL or not problem.has_solution or known_solution(problem) is not None:
        return

    @in_this_precision
    def solve() -> None:
        with suppress(Exception):  # whoever asks for the solution solves again, and gets the error
            _ = problem.solution

    _ahead[problem] = threading.Thread(target=solve, name="solve ahead")
    _ahead[problem].start()


def remember_solution(problem: Problem, solution: np.ndarray) -> np.ndarray:
    """Keep x* of the problem, and return it."""
    _solutions[problem] = solution
    return solution


def is_declined(problem: Problem) -> bool:
    """Return whether x* of the problem was declined."""
    return problem in _declined


def decline_solution(problem: Some) -> Some:
    """Mark that x* of the problem is never computed, and return the problem."""
    _declined.add(problem)
    return problem


def same_choice(problem: Problem, copy: Some) -> Some:
    """Decline x* of a copy, or of a part, if it was declined for the problem; return the copy."""
    return decline_solution(copy) if is_declined(problem) else copy


def choose_solution(problem: Some, solution: SolutionChoice) -> Some:
    """Keep x* that the user gave, decline it for None, or leave it to be computed; return the problem."""
    if solution is None:
        return decline_solution(problem)
    if isinstance(solution, str):
        if solution != "compute":
            raise InputError(f"solution is {solution!r}, but it must be 'compute', an array, or None to do without x*")
        return problem
    given = as_rows(solution, "the coordinates of the solution")
    if given.shape != (problem.dim,) or not np.isfinite(given).all():
        raise InputError(
            f"the solution has shape {given.shape}, but it must be {problem.dim} finite numbers, ({problem.dim},); "
            "None does without x*"
        )
    remember_solution(problem, given)
    return problem
