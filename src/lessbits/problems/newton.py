"""Newton's method for dual gradients without a closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

if TYPE_CHECKING:
    from lessbits.problems.base import Problem

MOST_STEPS = 100
SHORTEST_STEP = 2.0**-12  # of the full Newton step


class _Iterate(NamedTuple):
    """State of the dual solver: points, residuals ∇f_i(x_i) - z_i and their norms, and factored Hessians."""

    x: jax.Array
    gap: jax.Array
    size: jax.Array
    factor: jax.Array
    stale: jax.Array  # whether the Hessians must be factored again
    steps: jax.Array


def solve_dual(problem: Problem, z: jax.Array, guess: jax.Array) -> jax.Array:
    """Solve ∇f_i(x_i) = z_i at every node to rounding, by Newton's method with backtracking from `guess`.

    A factored Hessian is kept as long as it reduces the residuals by a factor of four: the solution changes little from
    one iteration of a run to the next, and a factorisation costs as much as dozens of gradients.
    """
    gap = problem.gradient(guess) - z
    tolerance = 16 * jnp.finfo(z.dtype).eps * (jnp.linalg.norm(z, axis=-1) + jnp.linalg.norm(gap + z, axis=-1))

    def improve(now: _Iterate) -> _Iterate:
        factor = lax.cond(now.stale, lambda: jnp.linalg.cholesky(problem.hessian(now.x)), lambda: now.factor)
        solve = jax.vmap(lambda factor, side: jax.scipy.linalg.cho_solve((factor, True), side))
        x, gap, size = _backtrack(problem, z, now, solve(factor, now.gap), tolerance)
        slow = jnp.any((size > tolerance) & (size > now.size / 4))
        stuck = now.stale & ~jnp.any(size < now.size)
        return _Iterate(x, gap, size, factor, slow, jnp.where(stuck, MOST_STEPS, now.steps + 1))

    start = _Iterate(
        guess,
        gap,
        jnp.linalg.norm(gap, axis=-1),
        jnp.zeros((*guess.shape, guess.shape[-1]), guess.dtype),
        jnp.array(True),
        jnp.int32(0),
    )
    return lax.while_loop(lambda now: (now.steps < MOST_STEPS) & jnp.any(now.size > tolerance), improve, start).x


def _backtrack(
    problem: Problem, z: jax.Array, now: _Iterate, direction: jax.Array, tolerance: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Step along the direction, halving the step where the residual would not shrink; no step where none helps."""

    def attempt(length: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        x = now.x - length[:, None] * direction
        gap = problem.gradient(x) - z
        return length, x, gap, jnp.linalg.norm(gap, axis=-1)

    def worse(length: jax.Array, size: jax.Array) -> jax.Array:
        return ~(size < now.size) & (now.size > tolerance) & (length > SHORTEST_STEP)

    _, x, gap, size = lax.while_loop(
        lambda trial: jnp.any(worse(trial[0], trial[3])),
        lambda trial: attempt(jnp.where(worse(trial[0], trial[3]), trial[0] / 2, trial[0])),
        attempt(jnp.ones_like(now.size)),
    )
    better = size < now.size
    pick = better[:, None]
    return jnp.where(pick, x, now.x), jnp.where(pick, gap, now.gap), jnp.where(better, size, now.size)
