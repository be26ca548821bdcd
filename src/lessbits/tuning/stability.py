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
from lessbits.errors import InputError
from lessbits.faults import Faults
from lessbits.methods.base import Method
from lessbits.methods.choosing import ChosenWith
from lessbits.methods.request import MethodRequest
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.problems.solutions import remember_solution

MOST_TRIALS = 12
STABILITY_ITERATIONS = 1000  # of a trial with full gradients
MOST_STABILITY_ITERATIONS = 10_000  # of one with stochastic gradients, which need a pass over the data
FEWEST_RECORDS = 8  # of a run that ended early: with fewer, it has diverged
GROWTH_IN_A_QUARTER = 2.0  # of the squared size: above (4/3)²
GROWTH_IN_A_HALF = 5.0  # of the squared size: above 2²
APART_IN_A_QUARTER = 16.0  # of the squared disagreement, which may rise while nodes leave a common start
ROUNDING = 1e-9  # of the squared size: disagreement below this is not judged


class Trial(NamedTuple):
    """A trial run: whether it was stable, its final iterates, its cost, and what was recorded."""

    stable: bool
    x: np.ndarray
    cost: ChosenWith
    losses: np.ndarray = np.zeros(1)  # f(x̄), less that at the origin
    disagreements: np.ndarray = np.zeros(1)


def try_step_sizes(
    problem: Problem,
    network: Network,
    method: Method,
    seed: int = 0,
    faults: Faults | None = None,
    most: int = STABILITY_ITERATIONS,
) -> Trial:
    """Run a method for some iterations (`most` of full gradients), without the solution, to see if it is stable.

    Faults at random are there in a trial too. Nobody leaves or joins: the run would not be judged by its growth then.
    """
    # Stochastic options need a pass over the data to show whether they are stable.
    iterations = int(min(most / method.passes(problem), MOST_STABILITY_ITERATIONS))
    faults = None if faults is None else replace(faults, events=())
    options = RunOptions(iterations=iterations, seed=seed, record_every=max(10, iterations // 100), faults=faults)
    trace = run_where_held(scored_from_the_origin(problem), network, method, options)
    cost = ChosenWith(1, int(trace["iteration"][-1]), float(trace["wire_bits_per_link"][-1]))
    stable = not _unstable(trace["error"], trace["consensus"], trace.diverged)
    return Trial(stable, trace.x, cost, trace["suboptimality"], trace["consensus"])


class Stable(NamedTuple):
    """Step sizes that were stable in a trial run, that run, and the cost of all so far."""

    method: Method
    trial: Trial
    spent: ChosenWith


def halve_until_stable(
    kind: type[Method],
    request: MethodRequest,
    method: Method,
    seed: int,
    spent: ChosenWith,
    most: int = STABILITY_ITERATIONS,
) -> Stable:
    """Test the step sizes in trial runs, and halve those not given until a run is stable."""
    free = kind.undecided(request)
    for _ in range(MOST_TRIALS):
        trial = try_step_sizes(request.problem, request.network, method, seed, request.faults, most)
        spent = spent.plus(trial.cost)
        if trial.stable:
            return Stable(method, trial, spent)
        sizes = {name: float(getattr(method, name)) for name in kind.step_size_names}
        likely = {kind.step_size_names[0], method.suspect(request.problem)}
        halved = {name: sizes[name] / 2 for name in likely & free or free}
        method = replace(method, **halved)  # type: ignore[type-var]
    tried = " and ".join(f"{name} = {sizes[name]:g}" for name in kind.step_size_names if sizes[name])
    raise InputError(f"no stable step sizes were found down to {tried}: give smaller ones, or take theory's")


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
