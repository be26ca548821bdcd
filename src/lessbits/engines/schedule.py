"""The record schedule of a run, and the amount of work between two checks of the clock."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from lessbits.methods.base import Method
from lessbits.problems.base import Problem

MOST_RECORDS = 10_000  # per run, by default
SECONDS_PER_CHUNK = 0.25  # how often the progress bar moves and Ctrl-C is noticed
FASTEST_GROWTH = 4  # factor between two chunks, as the first ones may not be typical


def record_interval(method: Method, problem: Problem, iterations: int) -> int:
    """Return the default number of iterations between two records.

    It gives at most about 10 000 records per run, and ten per pass over the data. A record evaluates the loss of all
    samples, so recording more often would cost more than the run.
    """
    return whole_rounds(max(1, iterations // MOST_RECORDS, int(0.1 / method.passes(problem))), method)


def whole_rounds(every: int, method: Method) -> int:
    """Return the iterations between two records, rounded up to whole rounds: within a round some nodes are ahead."""
    return -(-every // method.round_length) * method.round_length


def end_of_record(iteration: Any, every: Any, iterations: Any) -> Any:
    """Return the iteration at which the record that begins at `iteration` ends, for integers or JAX arrays.

    >>> [end_of_record(iteration, 10, 25) for iteration in (0, 9, 10, 20)]
    [10, 10, 20, 25]
    """
    end = (iteration // every + 1) * every
    return min(end, iterations) if isinstance(end, int) else jnp.minimum(end, iterations)


def record_ends(last: int, count: int, every: int) -> np.ndarray:
    """Return the iterations at which the newest `count` records end; the last one ends at `last`.

    Records are `every` iterations apart, except for the last one of a run, which may be shorter.

    >>> record_ends(25, 3, 10).tolist(), record_ends(20, 2, 10).tolist()
    ([10, 20, 25], [10, 20])
    """
    return np.minimum((last - 1) // every * every + every * np.arange(2 - count, 2), last)


class Throttle:
    """Chooses the amount of work between two checks of the clock, so that it takes about a quarter of a second."""

    def __init__(self, most: int | None = None) -> None:
        self.amount, self.most = 1, most

    def update(self, seconds_per_unit: float) -> None:
        """Update the amount from the duration of one unit of the last work."""
        largest = FASTEST_GROWTH * self.amount if self.most is None else min(FASTEST_GROWTH * self.amount, self.most)
        self.amount = int(np.clip(SECONDS_PER_CHUNK / max(seconds_per_unit, 1e-9), 1, largest))
