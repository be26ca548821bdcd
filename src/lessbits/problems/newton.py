"""Newton's method: for reference solutions to machine precision, and for dual gradients without a closed form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits.errors import InputError

if TYPE_CHECKING:
    from lessbits.problems.base import Problem

Some = TypeVar("Some", bound="Problem")

MOST_STEPS = 100
SHORTEST_STEP = 2.0**-12  # of the full Newton step
SOLUTION_TOLERANCE = 1e-12  # gradient norm of a reference solution
LARGEST_DENSE = 3000  # dimension up to which a Hessian is formed


@contextmanager
def in_double(problem: Some) -> Iterator[Some]:
    """Give the problem, as it is held, in float64: a reference must be better than the runs scored against it."""
    solution = problem.__dict__.get("solution")
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda leaf: (
                jnp.asarray(leaf, jnp.float64) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf
            ),
            problem,
        )
        if solution is not None:
            wide.__dict__["solution"] = solution
        yield wide


class _Iterate(NamedTuple):
    """Where the dual solve is: points, residuals ∇f_i(x_i) - z_i and their norms, and factored Hessians."""

    x: jax.Array
    gap: jax.Array
    size: jax.Array
    factor: jax.Array
    stale: jax.Array  # whether the Hessians must be factored anew
    steps: jax.Array


def solve_dual(problem: Problem, z: jax.Array, guess: jax.Array) -> jax.Array:
    """Solve ∇f_i(x_i) = z_i at every node to rounding, by Newton's method with backtracking from `guess`.

    A factored Hessian is kept as long as it shrinks the residuals fourfold: from one iteration of a run to the next
    the solution moves little, and a factorisation costs as much as dozens of gradients.
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
    """Step along the direction, half as far again wherever the residual would not shrink; stay where nothing helps."""

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


def minimise(problem: Problem) -> np.ndarray:
    """Minimise (1/n) Σ f_i to a gradient norm of at most 1e-12, in float64."""
    with in_double(problem) as wide:
        x = _by_conjugate_gradients(wide) if problem.dim > LARGEST_DENSE else _by_newton(wide)
        norm = float(jnp.linalg.norm(_mean_gradient(wide, jnp.asarray(x))))
    if not norm <= SOLUTION_TOLERANCE:
        raise InputError(
            f"no solution was found: the gradient norm stops at {norm:.1e}, above {SOLUTION_TOLERANCE:g}; "
            "add regularization, scale the data, or give the solution"
        )
    return np.asarray(x)


@jax.jit
def _mean_gradient(problem: Problem, x: jax.Array) -> jax.Array:
    return problem.gradient(jnp.broadcast_to(x, (problem.nodes, problem.dim))).mean(0)


@jax.jit
def _mean_hessian(problem: Problem, x: jax.Array) -> jax.Array:
    # Node by node: all Hessians at once may not fit.
    def add(total: jax.Array, node: jax.Array) -> tuple[jax.Array, None]:
        return total + problem.restrict(node[None]).hessian(x[None])[0], None

    total, _ = lax.scan(add, jnp.zeros((problem.dim, problem.dim)), jnp.arange(problem.nodes))
    return total / problem.nodes


@jax.jit
def _mean_loss(problem: Problem, x: jax.Array) -> jax.Array:
    return problem.mean_loss(x)


def _by_newton(problem: Problem) -> np.ndarray:
    x = jnp.zeros(problem.dim)
    gradient = _mean_gradient(problem, x)
    for _ in range(MOST_STEPS):
        size, loss = float(jnp.linalg.norm(gradient)), float(_mean_loss(problem, x))
        if size == 0:
            break
        direction = np.linalg.lstsq(np.asarray(_mean_hessian(problem, x)), np.asarray(gradient), rcond=None)[0]
        length = 1.0
        while length > 2.0**-30:
            trial = x - length * direction
            trial_gradient = _mean_gradient(problem, trial)
            smaller = float(jnp.linalg.norm(trial_gradient)) < size
            # Far from the solution the loss decides; near it only the gradient still has digits.
            if smaller and (size < 1e-6 or float(_mean_loss(problem, trial)) < loss):
                break
            length /= 2
        else:
            break
        x, gradient = trial, trial_gradient
    return np.asarray(x)


def _by_conjugate_gradients(problem: Problem) -> np.ndarray:
    from scipy.sparse.linalg import LinearOperator, cg

    @jax.jit
    def product(problem: Problem, x: jax.Array, vector: jax.Array) -> jax.Array:
        return jax.jvp(lambda point: _mean_gradient(problem, point), (x,), (vector,))[1]

    x = jnp.zeros(problem.dim)
    for _ in range(MOST_STEPS):
        gradient = _mean_gradient(problem, x)
        size = float(jnp.linalg.norm(gradient))
        if size <= SOLUTION_TOLERANCE / 10:
            break
        point = x
        operator = LinearOperator(
            (problem.dim, problem.dim),
            lambda vector, point=point: np.asarray(product(problem, point, jnp.asarray(vector))),
            dtype=np.float64,
        )
        direction, _ = cg(operator, np.asarray(gradient), rtol=min(0.1, size), maxiter=10 * problem.dim)
        length = 1.0
        while length > 2.0**-30 and float(jnp.linalg.norm(_mean_gradient(problem, x - length * direction))) >= size:
            length /= 2
        if length <= 2.0**-30:
            break
        x = x - length * direction
    return np.asarray(x)
