"""When nodes exchange: after a constant number of local steps, or as a function of the step says."""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from lessbits.errors import InputError, check_number, check_whole
from lessbits.training.rule import due

COMPARED = 1000  # exchanges at most whose steps are compared between nodes, if a function gives intervals
MOST_STEPS = 10**9

Every = int | Callable[[int], int]


@dataclass(frozen=True)
class Shrinking:
    """Intervals that shrink with a power of a learning rate, which falls along a cosine.

    For schedules that train to the end, with `Rule(alone=steps // 3)`. Late in training models differ less, and short
    intervals gain more.

    Attributes:
        longest: The interval at the largest learning rate.
        steps: Steps of the whole schedule; later intervals stay as they are then.
        last: The last learning rate, as a share of the largest.
        power: The power: 0.5 for the square root, 0 for intervals that stay as they are.
    """

    longest: int
    steps: int
    last: float = 0.1
    power: float = 0.5

    def __post_init__(self) -> None:
        """Check every number."""
        check_whole("longest", self.longest, 1)
        check_whole("steps", self.steps, 1)
        check_number("last", self.last, 0.0, 1.0)
        check_number("power", self.power, 0.0, 10.0)

    def __call__(self, step: int) -> int:
        """Return the local steps from this step to the next exchange."""
        share = min(step / self.steps, 1.0)
        rate = self.last + (1 - self.last) * (1 + math.cos(math.pi * share)) / 2
        return max(1, round(self.longest * rate**self.power))


class Intervals:
    """The steps after which nodes exchange.

    With a function, the first exchange is after `every(0)` steps, or after `alone` steps if it is not zero, and each
    next one `every(step)` steps later. A wrong interval is an `InputError` when it begins, and not before: a schedule
    need not go on after the end of the run.

    Args:
        every: Local steps between exchanges, or the function.
        alone: Local steps before the first exchange.
    """

    def __init__(self, every: Every, alone: int = 0) -> None:
        self.every, self.alone = every, alone
        self.points: list[int] = []
        if not callable(every):
            check_whole("every", every, 1)

    def due(self, step: int) -> bool:
        """Return whether an exchange follows this step."""
        if not callable(self.every):
            return due(step, self.every, self.alone)
        return self.points[self._number(step)] == step

    def length(self, step: int) -> int:
        """Return the length of the interval in which a step is, counted from 1."""
        if not callable(self.every):
            return self.every
        number = self._number(step)
        return self.points[number] - (self.points[number - 1] if number else 0)

    def between(self, first: int, second: int) -> int:
        """Return the local steps between two exchanges, which are counted from 0."""
        if not callable(self.every):
            return (second - first) * self.every
        while len(self.points) <= second:
            self._extend()
        return self.points[second] - self.points[first]

    def words(self) -> str:
        """Return what is compared between nodes: the steps of exchanges, as far as the function gives them."""
        if not callable(self.every):
            return f"every={self.every}"
        try:
            self.between(0, COMPARED)
        except InputError:
            if not self.points:  # not even the first one
                raise
        digest = hashlib.sha256(repr(self.points[:COMPARED]).encode()).hexdigest()[:16]
        return f"every={digest}"

    def _number(self, step: int) -> int:
        while not self.points or self.points[-1] < step:
            self._extend()
        return bisect_left(self.points, step)

    def _extend(self) -> None:
        assert callable(self.every)
        if not self.points and self.alone:
            self.points.append(self.alone)
            return
        last = self.points[-1] if self.points else 0
        try:
            given = self.every(last)
        except Exception as error:
            raise InputError(
                f"every({last}), the local steps after step {last}, raises {type(error).__name__}: {error}"
            ) from error
        self.points.append(last + check_whole(f"every({last})", given, 1, MOST_STEPS))
