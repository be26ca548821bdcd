"""Reference solutions to machine precision, of problems whose nodes may be spread over several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.logging import SlowStep
from lessbits._internal.quick_programs import quick_jit
from lessbits._internal.summation import add_slices
from lessbits._internal.team import SINGLE_PROCESS, Team
from lessbits.errors import InputError
from lessbits.problems.solutions import SMALL, known_solution, remember_solution, same_choice

if TYPE_CHECKING:
    from lessbits.problems.base import Problem

Some = TypeVar("Some", bound="Problem")

MOST_STEPS = 100
STALLED_AFTER = 10  # steps in which the gradient norm must halve
MOST_PRODUCTS = 100_000  # of the Hessian with a vector
POWER_STEPS = 100
GIVE_SOLUTION = "give solution=… if you know it, or do without it (solution=None, problem.without_solution())"
SOLUTION_TOLERANCE = 1e-12  # gradient norm of a reference solution, or its ratio to that at zero, if that is above 1
LARGEST_DENSE = 3000  # dimension up to which a Hessian is formed


@contextmanager
def in_double(problem: Some) -> Iterator[Some]:
    """Give the problem, as it is held, in float64: a reference must be better than the runs scored against it."""
    solution = known_solution(problem)
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda leaf: (
                jnp.asarray(leaf, jnp.float64) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf
            ),
            problem,
        )
        if solution is not None:
            remember_solution(wide, solution)
        yield same_choice(problem, wide)


class MeanLoss:
    """(1/n) Σ f_i of all nodes, whoever holds them, with the same bits however they are spread over processes."""

    def __init__(self, here: Problem, team: Team) -> None:
        self.here, self.team = here, team
        self.counts = team.all_gather(np.asarray(here.counts))
        # All processes decide by the whole problem, so that they get the same bits as one process.
        self.programs = QUICK_PROGRAMS if self.counts.sum() * here.dim <= SMALL else FAST_PROGRAMS
        self.products = 0
        self.slow = SlowStep(f"finding the solution x* in {here.dim} dimensions; to do without it: solution=None")

    def loss(self, x: np.ndarray) -> float:
        """f(x)."""
        return self.agreed(mean_rows(self.team.all_gather(np.asarray(self.programs.losses(self.here, x))[:, None]))[0])

    def agreed(self, number: float | np.floating | jax.Array) -> float:
        """Return the first process's number: processors may round differently, but all must go the same way."""
        return float(self.team.broadcast(np.array([float(number)]))[0])

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """∇f(x)."""
        return np.asarray(mean_rows(self.team.all_gather(np.asarray(self.programs.gradients(self.here, x)))))

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """∇²f(x), added up node by node: all Hessians at once may not fit."""
        empty = np.zeros((self.here.dim, self.here.dim))
        total = self.team.chain(
            lambda sum_before: np.asarray(self.programs.add_hessians(self.here, x, sum_before)), empty
        )
        return total / len(self.counts)

    def product(self, x: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """∇²f(x) times a vector. Raise an `InputError` if it shows that f is not convex, or was asked too often."""
        self.products += 1
        self.slow.say(f"{self.products} products of the Hessian and a vector")
        product = np.asarray(mean_rows(self.team.all_gather(np.asarray(self.programs.products(self.here, x, vector)))))
        curvature, size = vector @ product, np.linalg.norm(vector) * np.linalg.norm(product)
        if self.agreed(curvature) == 0 or self.agreed(curvature) < -1e-6 * self.agreed(size):
            raise InputError(f"no solution was computed, as the mean loss is flat or not convex: {GIVE_SOLUTION}")
        if self.products > MOST_PRODUCTS:
            raise InputError(
                f"no solution was found with {MOST_PRODUCTS} products of the Hessian and a vector: {GIVE_SOLUTION}"
            )
        return product


@jax.jit
def mean_rows(rows: jax.Array) -> jax.Array:
    """Mean of all nodes' rows, added up in one order."""
    return add_slices(jnp.asarray(rows)) / rows.shape[0]


def _everywhere(problem: Problem, x: jax.Array) -> jax.Array:
    return jnp.broadcast_to(x, (problem.nodes, problem.dim))


def _losses(problem: Problem, x: jax.Array) -> jax.Array:
    return problem.losses(_everywhere(problem, x))


def _gradients(problem: Problem, x: jax.Array) -> jax.Array:
    return problem.gradient(_everywhere(problem, x))


def _products(problem: Problem, x: jax.Array, vector: jax.Array) -> jax.Array:
    return jax.jvp(lambda point: problem.gradient(_everywhere(problem, point)), (x,), (vector,))[1]


def _add_hessians(problem: Problem, x: jax.Array, total: jax.Array) -> jax.Array:
    def add(total: jax.Array, node: jax.Array) -> tuple[jax.Array, None]:
        return total + problem.restrict(node[None]).hessian(x[None])[0], None

    return lax.scan(add, total, jnp.arange(problem.nodes))[0]


class _Programs(NamedTuple):
    """The compiled functions of a problem, at a point that all nodes share."""

    losses: Callable[..., jax.Array]
    gradients: Callable[..., jax.Array]
    products: Callable[..., jax.Array]
    add_hessians: Callable[..., jax.Array]


_FUNCTIONS: tuple[Callable[..., jax.Array], ...] = (_losses, _gradients, _products, _add_hessians)
FAST_PROGRAMS = _Programs(*(jax.jit(function) for function in _FUNCTIONS))
# For small problems, which take longer to compile than to run.
QUICK_PROGRAMS = _Programs(*(quick_jit(function) for function in _FUNCTIONS))


def minimise(problem: Problem, team: Team = SINGLE_PROCESS) -> np.ndarray:
    """Minimise (1/n) Σ f_i to a gradient norm of at most 1e-12, in float64; a team holds the nodes together.

    Where data are so large that this is less than rounding, it is 1e-12 of the gradient norm at zero.
    """
    with in_double(problem) as wide:
        mean = MeanLoss(wide, team)
        least = SOLUTION_TOLERANCE * max(1.0, mean.agreed(np.linalg.norm(mean.gradient(np.zeros(problem.dim)))))
        dense = problem.dim <= min(LARGEST_DENSE, problem.largest_dense)
        x = _by_newton(mean, least) if dense else _by_conjugate_gradients(mean, least / 10)
        norm = float(np.linalg.norm(mean.gradient(x)))
    if not norm <= least:
        raise InputError(
            f"no solution was found: the gradient norm stops at {norm:.1e}, above {least:.2g}; "
            f"add regularization, scale the data, or {GIVE_SOLUTION}"
        )
    return x


def check_minimum(problem: Problem, solution: np.ndarray, team: Team = SINGLE_PROCESS) -> None:
    """Raise an `InputError` if the mean loss has a direction of negative curvature where its gradient is zero."""
    with in_double(problem) as wide:
        mean = MeanLoss(wide, team)
        if problem.dim > min(LARGEST_DENSE, problem.largest_dense):
            # One direction: the solver has seen many more, unless it ended where it started.
            mean.product(solution, np.random.default_rng(0).normal(size=problem.dim))
            return
        values = np.linalg.eigvalsh(mean.hessian(solution))
        if mean.agreed(values[0]) < -1e-6 * mean.agreed(np.abs(values).max()):
            raise InputError(
                f"no solution was found, as the mean loss is not convex: where its gradient vanishes, it is no "
                f"minimum; {GIVE_SOLUTION}"
            )


class _Descent:
    """Watches the steps of a solver, and tells when it gets no further."""

    def __init__(self, mean: MeanLoss, least: float) -> None:
        self.least, self.slow = least, mean.slow
        self.sizes: list[float] = []

    def stalled(self, size: float) -> bool:
        """Take the gradient norm of a step; return whether it has not halved in the last ten steps, or is NaN."""
        self.sizes.append(size)
        self.slow.say(f"gradient norm {size:.1e} after {len(self.sizes) - 1} steps")
        before = self.sizes[-1 - STALLED_AFTER] if len(self.sizes) > STALLED_AFTER else np.inf
        return not (size <= self.least or size <= before / 2)


def smallest_curvature(problem: Problem, point: np.ndarray, team: Team = SINGLE_PROCESS) -> float:
    """Return the smallest eigenvalue of the Hessian of (1/n) Σ f_i at a point; zero if it is too large to form."""
    if problem.dim > LARGEST_DENSE:
        return 0.0
    with in_double(problem) as wide:
        mean = MeanLoss(wide, team)
        return max(0.0, mean.agreed(np.linalg.eigvalsh(mean.hessian(point))[0]))


def largest_curvature(problem: Problem, x: jax.Array) -> float:
    """Return the largest eigenvalue of a local Hessian at x, [nodes, dim], by the power method: it forms no Hessian."""
    vectors = np.random.default_rng(0).normal(size=x.shape)
    sizes = np.ones(len(x))
    for _ in range(POWER_STEPS):
        vectors = np.asarray(_node_products(problem, x, vectors / np.maximum(sizes, 1e-300)[:, None]))
        sizes = np.linalg.norm(vectors, axis=1)
    return float(sizes.max())


@jax.jit
def _node_products(problem: Problem, x: jax.Array, vectors: jax.Array) -> jax.Array:
    return jax.jvp(problem.gradient, (x,), (vectors,))[1]


def _by_newton(mean: MeanLoss, least: float) -> np.ndarray:
    from threadpoolctl import threadpool_limits

    x = np.zeros(mean.here.dim)
    gradient = mean.gradient(x)
    descent = _Descent(mean, least)
    for _ in range(MOST_STEPS):
        size, loss = mean.agreed(np.linalg.norm(gradient)), mean.loss(x)
        if size == 0 or descent.stalled(size):
            break
        # On one thread, and in one place: how a library shares out a factorisation changes the last bits.
        with threadpool_limits(1):
            hessian = mean.hessian(x)
            if not np.isfinite(hessian).all():
                break
            direction = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        direction = mean.team.broadcast(direction)
        length = 1.0
        while length > 2.0**-30:
            trial = x - length * direction
            trial_gradient = mean.gradient(trial)
            smaller = mean.agreed(np.linalg.norm(trial_gradient)) < size
            # Far from the solution the loss decides; near it only the gradient still has digits.
            if smaller and (size < 1e6 * least or mean.loss(trial) < loss):
                break
            length /= 2
        else:
            break
        x, gradient = trial, trial_gradient
    return x


def _by_conjugate_gradients(mean: MeanLoss, least: float) -> np.ndarray:
    from scipy.sparse.linalg import LinearOperator, cg

    dim = mean.here.dim
    x = np.zeros(dim)
    descent = _Descent(mean, least)
    for _ in range(MOST_STEPS):
        gradient = mean.gradient(x)
        size = mean.agreed(np.linalg.norm(gradient))
        if size <= least or descent.stalled(size):
            break
        point = x
        operator = LinearOperator((dim, dim), lambda vector, point=point: mean.product(point, vector), dtype=np.float64)
        direction, _ = cg(operator, gradient, rtol=min(0.1, size), maxiter=10 * dim)
        length = 1.0
        while length > 2.0**-30 and mean.agreed(np.linalg.norm(mean.gradient(x - length * direction))) >= size:
            length /= 2
        if length <= 2.0**-30:
            break
        x = x - length * direction
    return x
