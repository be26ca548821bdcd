"""Checks of the start and the goal of a run."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from lessbits.engines.scoring import Target
from lessbits.errors import InputError
from lessbits.methods.base import Start
from lessbits.problems.base import Problem

GOALS = ("error", "suboptimality", "consensus")


def check_start(start: Start | None, problem: Problem) -> Start:
    """Return the start as NumPy arrays. Raise an `InputError` for wrong shapes, NaN, and z that does not sum to 0."""
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
    """Raise an `InputError` for a goal that cannot be computed, or not accurately enough."""
    if goal != "suboptimality":
        return
    rounding = 4 * float(jnp.abs(target.optimum) * jnp.finfo(target.optimum.dtype).eps)
    if not np.isfinite(float(first[goal])):
        raise InputError("the suboptimality of this problem is not known: give it a loss, or take the goal error")
    if until is not None and until < rounding:
        raise InputError(
            f"until is {until:g}, but here a suboptimality below {rounding:.1g} is rounding: take the goal error"
        )
