"""When nodes exchange: after a constant number of local steps, or as a function of the step says."""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from lessbits.errors import check_number, check_whole
from lessbits.training.rule import Rule

COMPARED = 1000  # exchanges whose steps are compared between nodes, if a function gives intervals
MOST_STEPS = 10**9

Every = int | Callable[[int], int]


@dataclass(frozen=True)
class Shrinking:
    """Intervals that shrink with the square root of a learning rate, which falls along a cosine.

    For schedules that train to the end, with `Rule(alone=steps // 3)`. Late in training models differ less, and short
    intervals gain more.

    Attributes:
        longest: The interval at the largest learning rate.
        steps: Steps of the whole schedule; later intervals stay as they are then.
        last: The last learning rate, as a share of the largest.
    """

    longest: int
    steps: int
    last: float = 0.1

    def __post_init__(self) -> None:
        """Check every number."""
        check_whole("longest", self.longest, 1)
        check_whole("steps", self.steps, 1)
        check_number("last", self.last, 0.0, 1.0)

    def __call__(self, step: int) -> int:
        """Return the local steps from this step to the next exchange."""
        share = min(step / self.steps, 1.0)
        rate = self.last + (1 - self.last) * (1 + math.cos(math.pi * share)) / 2
        return max(1, round(self.longest * math.sqrt(rate)))


class Intervals:
    """The steps after which nodes exchange.

    With a function, the first exchange is after `every(0)` steps, or after `rule.alone` steps if it is not zero, and
    each next one `every(step)` steps later.
    """

    def __init__(self, every: Every, rule: Rule) -> None:
        self.every, self.rule = every, rule
        self.points: list[int] = []
        if not callable(every):
            check_whole("every", every, 1)

    def due(self, step: int) -> bool:
        """Return whether an exchange follows this step."""
        if not callable(self.every):
            return self.rule.due(step, self.every)
        return self._number(step) < len(self.points) and self.points[self._number(step)] == step

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
        """Return what is compared between nodes."""
        if not callable(self.every):
            return f"every={self.every}"
        self.between(0, COMPARED)
        digest = hashlib.sha256(repr(self.points[:COMPARED]).encode()).hexdigest()[:16]
        return f"every={digest}"

    def _number(self, step: int) -> int:
        while not self.points or self.points[-1] < step:
            self._extend()
        return bisect_left(self.points, step)

    def _extend(self) -> None:
        assert callable(self.every)
        if not self.points and self.rule.alone:
            self.points.append(self.rule.alone)
            return
        last = self.points[-1] if self.points else 0
        self.points.append(last + check_whole(f"every({last})", self.every(last), 1, MOST_STEPS))
