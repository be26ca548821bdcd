"""Newton's method: for reference solutions to machine precision, and for dual gradients without a closed form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits.errors import InputError

if TYPE_CHECKING:
    from lessbits.problems.base import Problem

MOST_STEPS = 100
SOLUTION_TOLERANCE = 1e-12  # gradient norm of a reference solution
LARGEST_DENSE = 3000  # dimension up to which a Hessian is formed


@contextmanager
def in_double(problem: Problem) -> Iterator[Problem]:
    """Give the problem, as it is held, in float64: a reference must be better than the runs scored against it."""
    solution = problem.__dict__.get("solution")
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.float64) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf,
            problem,
        )
        if solution is not None:
            wide.__dict__["solution"] = solution
        yield wide


def solve_dual(problem: Problem, z: jax.Array, guess: jax.Array) -> jax.Array:
    """Solve ∇f_i(x_i) = z_i at every node by Newton's method with backtracking, from `guess`.

    Stops when no node's residual shrinks any more, which is at rounding: options A's linear rate needs no less.
    """

    def residual(x: jax.Array) -> jax.Array:
        return problem.gradient(x) - z

    def improve(carry: tuple[jax.Array, jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
        x, gap, size, count = carry
        direction = jnp.linalg.solve(problem.hessian(x), gap[..., None])[..., 0]

        def halve(carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            length, _, _, _ = carry
            trial = x - length[:, None] * direction
            trial_gap = residual(trial)
            trial_size = jnp.linalg.norm(trial_gap, axis=-1)
            return jnp.where(trial_size < size, length, length / 2), trial, trial_gap, trial_size

        def worse(carry: tuple[jax.Array, ...]) -> jax.Array:
            length, _, _, trial_size = carry
            return jnp.any((trial_size >= size) & (size > 0) & (length > 2.0**-12))

        start = halve((jnp.ones_like(size), x, gap, size))
        _, trial, trial_gap, trial_size = lax.while_loop(worse, halve, start)
        better = trial_size < size
        pick = better[:, None]
        return jnp.where(pick, trial, x), jnp.where(pick, trial_gap, gap), jnp.where(better, trial_size, size), jnp.where(
            jnp.any(better), count + 1, MOST_STEPS
        )

    gap = residual(guess)
    start = (guess, gap, jnp.linalg.norm(gap, axis=-1), jnp.zeros((), jnp.int32))
    return lax.while_loop(lambda carry: carry[3] < MOST_STEPS, improve, start)[0]


def minimise(problem: Problem) -> np.ndarray:
    """Minimise (1/n) Σ f_i to a gradient norm of at most 1e-12, in float64."""
    with in_double(problem) as wide:
        if problem.dim > LARGEST_DENSE:
            x = _by_conjugate_gradients(wide)
        else:
            x = _by_newton(wide)
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
        direction = jnp.linalg.lstsq(_mean_hessian(problem, x), gradient)[0]
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
            (problem.dim, problem.dim), lambda vector, point=point: np.asarray(product(problem, point, jnp.asarray(vector)))
        )
        direction, _ = cg(operator, np.asarray(gradient), rtol=min(0.1, size), maxiter=10 * problem.dim)
        length = 1.0
        while length > 2.0**-30 and float(jnp.linalg.norm(_mean_gradient(problem, x - length * direction))) >= size:
            length /= 2
        if length <= 2.0**-30:
            break
        x = x - length * direction
    return np.asarray(x)
