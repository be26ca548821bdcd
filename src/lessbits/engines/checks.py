"""What an engine refuses before it runs, each with a sentence."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from lessbits.engines.scoring import Target
from lessbits.errors import InputError, check_name
from lessbits.methods.base import Method, Start
from lessbits.networks import Network
from lessbits.problems.base import Problem

GOALS = ("error", "suboptimality", "consensus")


def check_start(start: Start | None, problem: Problem) -> Start:
    """Refuse starts that would be cut, repeated or pulled elsewhere without a word."""
    given = {name: np.asarray(value) for name, value in (start or Start())._asdict().items() if value is not None}
    shape = (problem.nodes, problem.dim)
    for name, value in given.items():
        if value.shape != shape:
            raise InputError(f"the start has {name} of shape {value.shape}, but it must be nodes × dim, {shape}")
        if not np.isfinite(value).all():
            raise InputError(f"the start has NaN or infinite entries in {name}: remove or replace them")
    if "z" in given:
        total, size = np.abs(given["z"].sum(0)).max(), np.abs(given["z"]).max()
        if total > 1e-5 * problem.nodes * size:
            raise InputError(f"the start has z that sums to {total:.2g}, but it must sum to zero: subtract its mean")
    return Start(**given)


def check_goal(goal: str, until: float | None, first: Mapping[str, Any], target: Target) -> None:
    """Refuse a goal that the run could not tell."""
    if goal != "suboptimality":
        return
    rounding = 4 * float(jnp.abs(target.optimum) * jnp.finfo(target.optimum.dtype).eps)
    if not np.isfinite(float(first[goal])):
        raise InputError("the suboptimality of this problem is not known: give it a loss, or take the goal error")
    if until is not None and until < rounding:
        raise InputError(
            f"until is {until:g}, but here a suboptimality below {rounding:.1g} is rounding: take the goal error"
        )


def record_interval(method: Method, problem: Problem, iterations: int) -> int:
    """Return how often to record: about 10 000 records a run at most, and ten a pass over the data.

    A record looks at all samples, so recording more often would cost more than the run.
    """
    return max(1, iterations // 10_000, int(0.1 / method.passes(problem)))


def check_run(
    problem: Problem,
    network: Network,
    method: Method,
    iterations: int,
    until: float | None,
    goal: str,
    record_every: int | None,
) -> int:
    """Refuse what cannot be run, and return how often to record."""
    if not isinstance(method, Method):
        raise InputError(f"the method is {method!r}, but it must be a Method: make one with lessbits.make_method")
    if problem.nodes != network.nodes:
        raise InputError(f"the problem has {problem.nodes} nodes and the network {network.nodes}: they must agree")
    if not 1 <= iterations < 2**31:
        raise InputError(f"iterations is {iterations}, but it must be from 1 to {2**31 - 1}")
    if until is not None and not until >= 0:
        raise InputError(f"until is {until:g}, but it must be a number from 0 on")
    check_name("goal", goal, GOALS)
    method.check(problem, network)
    for compressor in method.compressors:
        compressor.check(problem.dim)
    every = record_interval(method, problem, iterations) if record_every is None else record_every
    # Counters of one record are 32-bit integers.
    longest = (2**31 - 1) // max(network.links, 3 * problem.samples)
    if not 1 <= every <= longest:
        raise InputError(f"record_every is {every}, but it must be from 1 to {longest} for this problem and network")
    return every
