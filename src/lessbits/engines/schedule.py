"""When a run is recorded, and how much it does between two looks at the clock."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from lessbits.methods.base import Method
from lessbits.problems.base import Problem

MOST_RECORDS = 10_000  # of a run, unless it is told otherwise
SECONDS_PER_CHUNK = 0.25  # how often the progress bar moves and Ctrl-C is noticed
FASTEST_GROWTH = 4  # of a chunk: the first may be slow for other reasons


def record_interval(method: Method, problem: Problem, iterations: int) -> int:
    """Return how often to record: at most about 10 000 records per run, and ten per pass over the data.

    A record looks at all samples, so recording more often would cost more than the run.
    """
    return max(1, iterations // MOST_RECORDS, int(0.1 / method.passes(problem)))


def end_of_record(iteration: Any, every: Any, iterations: Any) -> Any:
    """Return the iteration at which the record that begins at `iteration` ends: for numbers and for JAX arrays.

    >>> [end_of_record(iteration, 10, 25) for iteration in (0, 9, 10, 20)]
    [10, 10, 20, 25]
    """
    end = (iteration // every + 1) * every
    return min(end, iterations) if isinstance(end, int) else jnp.minimum(end, iterations)


def record_ends(last: int, count: int, every: int) -> np.ndarray:
    """Return the iterations of the newest `count` records, of which the last ends at `last`.

    All records are `every` iterations apart, but for the last of a run, which may be closer.

    >>> record_ends(25, 3, 10).tolist(), record_ends(20, 2, 10).tolist()
    ([10, 20, 25], [10, 20])
    """
    return np.minimum((last - 1) // every * every + every * np.arange(2 - count, 2), last)


class Throttle:
    """Chooses how much is done between two looks at the clock: about a quarter second's worth."""

    def __init__(self, most: int | None = None) -> None:
        self.amount, self.most = 1, most

    def update(self, seconds_per_unit: float) -> None:
        """Take note of how long a unit of work took last."""
        largest = FASTEST_GROWTH * self.amount if self.most is None else min(FASTEST_GROWTH * self.amount, self.most)
        self.amount = int(np.clip(SECONDS_PER_CHUNK / max(seconds_per_unit, 1e-9), 1, largest))
