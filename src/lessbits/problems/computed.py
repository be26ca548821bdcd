"""What the functions of a problem compute: by this a loss is known, wherever its numbers come from."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.problems.base import Problem

POINTS = 2
TOLERANCES = {"float64": 1e-9, "float32": 1e-4}


def functions_of(problem: Problem) -> dict[str, Callable[..., Any]]:
    """Return the functions in a problem's fields, by name."""
    names: list[str] = [entry.name for entry in fields(problem)] if is_dataclass(problem) else []
    return {name: getattr(problem, name) for name in names if callable(getattr(problem, name))}


def has_functions(problem: Problem) -> bool:
    """Return whether a problem holds functions, or is not of this package: then its data do not tell all."""
    return bool(functions_of(problem)) or type(problem).__module__.split(".")[0] != "lessbits"


def computed_values(problem: Problem) -> np.ndarray:
    """Return losses and gradients at two points that are always the same, float64 [nodes here, numbers].

    Of a gradient, its norm and its product with a vector are returned. Numbers that change from call to call, and those
    that cannot be computed there, are NaN. Problems of this package that hold no function are known by their data, and
    have a zero instead.
    """
    if not has_functions(problem):
        return np.zeros((problem.nodes, 1))
    draw = np.random.default_rng(0)
    points, direction = draw.normal(size=(POINTS, problem.dim)), draw.normal(size=problem.dim)
    values = [_at(problem, point, direction) for point in (*points, points[0])]
    same = nearly_same(values[0], values[-1], tolerance_of(problem))  # else it draws random numbers
    return np.where(np.tile(same, POINTS), np.concatenate(values[:POINTS], axis=1), np.nan)


def nearly_same(values: np.ndarray, others: np.ndarray, tolerance: float) -> np.ndarray:
    """Return which numbers differ by at most this part of the largest in their column; NaN is the same as NaN."""
    both = np.abs(np.concatenate([values, others]))
    scale = np.where(np.isfinite(both), both, 0).max(axis=0, initial=0)
    return np.isclose(values, others, rtol=0, atol=tolerance * scale, equal_nan=True)


def tolerance_of(problem: Problem) -> float:
    """Return how much engines, and numbers of ranks, may differ by: a few of the last digits."""
    return max(
        TOLERANCES.get(name, 1e-2) for name in (str(jnp.result_type(float)), getattr(problem, "dtype", "float64"))
    )


def loss_marks(problem: Problem) -> tuple[list[str], ...]:
    """Return what is added to a fingerprint of a problem in one process: what its functions compute, if it has any."""
    if not has_functions(problem):
        return ()
    return ([f"{number:.9g}" for number in computed_values(problem).ravel()],)


def _at(problem: Problem, point: np.ndarray, direction: np.ndarray) -> np.ndarray:
    x = jnp.broadcast_to(jnp.asarray(point, jnp.result_type(float)), (problem.nodes, problem.dim))
    columns = []
    for compute in (_losses, _gradient, _sample_gradient):
        try:
            found = np.asarray(compute(problem, x), float)
            problem.raise_failure()
        except Exception:  # the user's function may not be defined here
            found = np.full(x.shape[:1] if compute is _losses else x.shape, np.nan)
        with np.errstate(all="ignore"):
            columns += [found] if found.ndim == 1 else [np.linalg.norm(found, axis=1), found @ direction]
    return np.stack(columns, axis=1)


@jax.jit
def _losses(problem: Problem, x: jax.Array) -> jax.Array:
    return problem.losses(x)


@jax.jit
def _gradient(problem: Problem, x: jax.Array) -> jax.Array:
    return problem.gradient(x)


@jax.jit
def _sample_gradient(problem: Problem, x: jax.Array) -> jax.Array:
    return problem.first_sample_gradient(x)
