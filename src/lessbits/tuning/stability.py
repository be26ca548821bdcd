"""Trial runs that test whether step sizes are stable, by what nodes can measure.

Nodes do not know the solution. They know the size of their iterates and how far they are from their neighbours, and
can agree on the mean of such numbers. A stable run may approach a far solution at a steady speed. Then squared sizes
grow as the square of the iterations, by (4/3)² in the last quarter. An unstable run grows exponentially.
"""

import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.options import RunOptions
from lessbits.engines.run import run_where_held
from lessbits.faults import Faults
from lessbits.methods.base import Method
from lessbits.methods.choosing import ChosenWith
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.problems.solutions import remember_solution

STABILITY_ITERATIONS = 1000  # of a trial with full gradients
MOST_STABILITY_ITERATIONS = 10_000  # of one with stochastic gradients, which need a pass over the data
FEWEST_RECORDS = 8  # of a run that ended early: with fewer, it has diverged
GROWTH_IN_A_QUARTER = 2.0  # of the squared size: above (4/3)²
GROWTH_IN_A_HALF = 5.0  # of the squared size: above 2²
APART_IN_A_QUARTER = 16.0  # of the squared disagreement, which may rise while nodes leave a common start
ROUNDING = 1e-9  # of the squared size: disagreement below this is not judged


class Trial(NamedTuple):
    """A trial run: whether it was stable, its final iterates, and its cost."""

    stable: bool
    x: np.ndarray
    cost: ChosenWith


def try_step_sizes(
    problem: Problem, network: Network, method: Method, seed: int = 0, faults: Faults | None = None
) -> Trial:
    """Run a method for some iterations, without the solution, and return whether its step sizes are stable.

    Faults at random are there in a trial too. Nobody leaves or joins: the run would not be judged by its growth then.
    """
    # Stochastic options need a pass over the data to show whether they are stable.
    iterations = int(min(STABILITY_ITERATIONS / method.passes(problem), MOST_STABILITY_ITERATIONS))
    faults = None if faults is None else replace(faults, events=())
    options = RunOptions(iterations=iterations, seed=seed, record_every=max(10, iterations // 100), faults=faults)
    trace = run_where_held(scored_from_the_origin(problem), network, method, options)
    cost = ChosenWith(1, int(trace["iteration"][-1]), float(trace["wire_bits_per_link"][-1]))
    return Trial(not _unstable(trace["error"], trace["consensus"], trace.diverged), trace.x, cost)


def scored_from_the_origin(problem: Problem) -> Problem:
    """Return a copy of the problem whose runs are scored by their distance to the origin, not to the solution.

    It has the same program as the problem itself, so nothing is compiled twice.
    """
    origin, same = np.zeros(problem.dim), copy.copy(problem)
    if isinstance(same, PartitionedProblem):
        same.here = copy.copy(problem.here)  # type: ignore[attr-defined]  # x* is not declined for the copy
        same.__dict__["solution"] = origin
    else:
        remember_solution(same, origin)
    return same


def _unstable(sizes: np.ndarray, disagreements: np.ndarray, ended_early: bool) -> bool:
    """Return whether squared sizes or disagreements grow faster than those of a run that drifts steadily.

    >>> steady, exploding = np.arange(101.0) ** 2, 1.05 ** np.arange(101.0)
    >>> _unstable(steady, steady, False), _unstable(exploding, exploding, False)
    (False, True)
    """
    if not (np.isfinite(sizes).all() and np.isfinite(disagreements).all()):
        return True
    if ended_early and len(sizes) < FEWEST_RECORDS:
        return True
    if _growth(sizes, 0.75) > GROWTH_IN_A_QUARTER or _growth(sizes, 0.5) > GROWTH_IN_A_HALF:
        return True
    judged = disagreements.max() > ROUNDING * sizes.max()
    return bool(judged and _growth(disagreements, 0.75) > APART_IN_A_QUARTER)


def _growth(values: np.ndarray, share: float) -> float:
    """Return by which factor the largest value after a share of the records exceeds the largest before."""
    at = max(1, int(share * len(values)))
    before, after = float(values[:at].max()), float(values[at:].max(initial=0.0))
    return after / before if before > 0 else (np.inf if after > 0 else 0.0)
