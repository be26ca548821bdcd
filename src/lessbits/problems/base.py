"""The interface of problems: the local losses f_i of the nodes, their gradients, and the constants of theory."""

import copy
from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import on_cpu, put, short, take_rows, traced
from lessbits._internal.randomness import Draws, Purpose, Step, draws
from lessbits._internal.summation import squared_norms, sum_pairwise
from lessbits._internal.team import SINGLE_PROCESS, Team
from lessbits.errors import InputError
from lessbits.problems.newton import solve_dual
from lessbits.problems.reference import LARGEST_DENSE, in_double, minimise, smallest_curvature
from lessbits.problems.solutions import (
    decline_solution,
    is_declined,
    known_solution,
    remember_solution,
    same_choice,
)


class Problem(ABC):
    """min_x (1/n) Σ_i f_i(x), with f_i(x) = (1/m_i) Σ_j f_ij(x).

    Every array has one row per node, so that a part of the nodes, or one node, is again a problem.
    Methods with `x` of shape [nodes here, dim] use row i at node i.
    """

    counts: jax.Array  # m_i, int32 [nodes here]
    endless: ClassVar[bool] = False  # whether each batch has new samples, so that it may have any size
    averages: ClassVar[bool] = False  # whether the solution is the mean of the start, so that gossip alone finds it
    local_constants: ClassVar[bool] = True  # whether L and μ of a part of the nodes are known without the solution
    largest_dense: ClassVar[int] = LARGEST_DENSE  # dimension up to which the Hessian of the mean loss is formed
    has_losses: bool = True  # whether `losses` are known; a problem may have gradients only

    def __repr__(self) -> str:
        """Show sizes, not data."""
        facts = [f"{self.nodes} nodes", f"dim {self.dim}"]
        if traced(self):
            return f"{type(self).__name__}({', '.join(facts)}, traced)"
        if self.samples > self.nodes:
            facts.append(f"{self.samples} samples")
        if (penalty := getattr(self, "regularization", None)) is not None:
            facts.append(f"λ = {short(penalty[0])}")
        return f"{type(self).__name__}({', '.join(facts)})"

    # What methods call, inside the compiled loop.

    @abstractmethod
    def gradient(self, x: jax.Array) -> jax.Array:
        """∇f_i(x_i) at each node."""

    @abstractmethod
    def sample_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """Mean of ∇f_ij(x_i) over the samples j in `indices` [nodes here, batch]."""

    def first_sample_gradient(self, x: jax.Array) -> jax.Array:
        """Mean of ∇f_ij(x_i) for the first j: a gradient of one sample that is always the same."""
        return self.sample_gradient(x, jnp.zeros((x.shape[0], 1), jnp.int32))

    def stochastic_gradient(self, x: jax.Array, step: Step, nodes: jax.Array, batch_size: int) -> jax.Array:
        """∇f_i(x_i, ξ_i): the mean over a batch drawn with replacement; a stream draws fresh samples instead."""
        return self.sample_gradient(x, self.draw_samples(draws(step, nodes, Purpose.SAMPLE), batch_size))

    def draw_samples(self, draw: Draws, batch_size: int) -> jax.Array:
        """Return sample numbers j, uniform in 0 … m_i - 1, [nodes here, batch]."""
        return draw.integers(batch_size, self.counts)

    def dual_gradient(self, z: jax.Array, guess: jax.Array) -> jax.Array:
        """∇f_i*(z_i) = argmin_x f_i(x) - ⟨z_i, x⟩, by Newton's method from `guess` unless a closed form is known."""
        return solve_dual(self, z, guess)

    def with_dual(self) -> "Problem":
        """Return the problem with whatever makes `dual_gradient` fast."""
        return self

    @abstractmethod
    def losses(self, x: jax.Array) -> jax.Array:
        """f_i(x_i) at each node, [nodes here]."""

    @abstractmethod
    def hessian(self, x: jax.Array) -> jax.Array:
        """∇²f_i(x_i) at each node, [nodes here, dim, dim]."""

    # What engines, theory and users call.

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of coordinates of x."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.counts.shape[0]

    @property
    def samples(self) -> int:
        """Number of samples of all nodes: the sample gradients in an epoch."""
        return int(np.sum(np.asarray(self.counts)))

    def start(self) -> jax.Array:
        """Return the default start of runs, [nodes here, dim]."""
        return jnp.zeros((self.nodes, self.dim), jnp.result_type(float))

    def restrict(self, nodes: np.ndarray | jax.Array) -> Self:
        """Return the part of the problem that the given nodes hold."""
        if (
            isinstance(nodes, np.ndarray) and on_cpu() and not traced(self)
        ):  # JAX would compile for each number of nodes
            return same_choice(self, jax.tree.map(lambda leaf: put(np.asarray(leaf)[nodes], leaf.dtype), self))
        return same_choice(self, take_rows(self, jnp.asarray(nodes)))

    def mean_loss(self, x: jax.Array) -> jax.Array:
        """(1/n) Σ_i f_i(x) at one point x, [dim]."""
        losses = self.losses(jnp.broadcast_to(x, (self.nodes, self.dim)))
        return sum_pairwise(losses) / self.nodes

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """L: the largest smoothness constant of the local losses f_i (options A and B)."""

    @abstractmethod
    def sample_smoothness(self, batch_size: int = 1) -> float:
        """L of the paper's equations (7) and (8): of batches of single samples f_ij (options C and D)."""

    @property
    @abstractmethod
    def convexity(self) -> float:
        """μ: the smallest strong-convexity constant of the local losses."""

    @cached_property
    def typical_convexity(self) -> float:
        """The μ that practical step sizes use: of the local losses or, if one is flat, of their mean at the origin.

        With a penalty per coordinate the loss of a node with few samples is nearly flat: then the mean is used too.
        The origin is a point that all nodes know; they do not know the solution.
        """
        return self.mean_curvature(np.zeros(self.dim), SINGLE_PROCESS) if self.nearly_flat else self.convexity

    @cached_property
    def mean_convexity(self) -> float:
        """μ of the mean loss at the origin, which may be far above that of the worst node; at least `convexity`."""
        return max(self.convexity, self.mean_curvature(np.zeros(self.dim), SINGLE_PROCESS))

    @property
    def nearly_flat(self) -> bool:
        """Whether a local loss may be flat in a direction where the mean loss is not."""
        return self.convexity <= 0

    def mean_curvature(self, point: np.ndarray, team: Team) -> float:
        """Smallest eigenvalue of the mean of all Hessians at a point; zero if it is not known."""
        return smallest_curvature(self, point, team)

    def first_squares(self) -> np.ndarray:
        """Mean squares of a coordinate of the first iterate and of its gradient, float64 [nodes, 2]."""
        x = self.start()
        rows = np.stack([np.asarray(x, float), np.asarray(self.gradient(x), float)], axis=1)
        self.raise_failure()
        return np.mean(rows**2, axis=-1)

    @property
    def has_solution(self) -> bool:
        """Whether runs may ask for x*: False if it was declined."""
        return not is_declined(self)

    def without_solution(self) -> Self:
        """Return the same problem without x*: it is never computed, and runs record loss and gradient instead.

        `Custom.make`, `Outside.make` and `Stream.make` do the same with `solution=None`.
        """
        return decline_solution(copy.copy(self))

    @property
    def solution(self) -> np.ndarray:
        """x*, float64 [dim], to a gradient norm of at most 1e-12, or 1e-12 of that at zero if it is above 1."""
        self.check_solution()
        found = known_solution(self)
        return remember_solution(self, self.solve(SINGLE_PROCESS)) if found is None else found

    def check_solution(self) -> None:
        """Raise an `InputError` if x* was declined."""
        if not self.has_solution:
            raise InputError(
                "this needs the solution x*, but the problem declines it (solution=None): give step sizes and "
                "constants, take a goal such as gradient, or make the problem with a solution"
            )

    def raise_failure(self) -> None:
        """Raise the error of a user's function that compiled code called. Engines call it after compiled code."""
        return

    def solve(self, team: Team) -> np.ndarray:
        """Return x* of the problem that a team of processes holds; this process has the nodes here."""
        return minimise(self, team)

    def noise(self, batch_size: int = 1) -> float:
        """σ² = (1/n) Σ_i E‖∇f_i(x*, ξ) - ∇f_i(x*)‖², the variance of stochastic gradients at the solution."""
        return float(np.mean(self.node_noise(self.solution))) / batch_size

    def node_noise(self, solution: np.ndarray) -> np.ndarray:
        """E‖∇f_i(x*, ξ) - ∇f_i(x*)‖² of single samples, float64 [nodes here]."""
        with in_double(self) as problem:
            x = jnp.broadcast_to(jnp.asarray(solution), (self.nodes, self.dim))
            found = np.asarray(_single_sample_variance(problem, x))
        self.raise_failure()
        return found

    @property
    def condition_number(self) -> float:
        """κ = L/μ."""
        if self.convexity <= 0:
            raise InputError("the problem has μ = 0, but κ = L/μ needs μ > 0: add regularization above 0")
        return self.smoothness / self.convexity


@jax.jit
def _single_sample_variance(problem: Problem, x: jax.Array) -> jax.Array:
    """Mean over j of ‖∇f_ij(x_i) - ∇f_i(x_i)‖² at each node."""
    full = problem.gradient(x)

    def add(sample: jax.Array, total: jax.Array) -> jax.Array:
        indices = jnp.minimum(sample, problem.counts - 1)[:, None]
        gap = problem.sample_gradient(x, indices) - full
        return total + jnp.where(sample < problem.counts, squared_norms(gap), 0)

    total = lax.fori_loop(0, problem.counts.max(), add, jnp.zeros(problem.nodes))
    return total / problem.counts.astype(total.dtype)


def batch_smoothness(full: float, single: float, batch_size: int) -> float:
    """Expected smoothness of the mean of a batch drawn with replacement.

    E‖mean‖² = (1/b) E‖single‖² + (1 - 1/b) ‖full‖², and each part is bounded by its own constant.
    """
    return single / batch_size + (1 - 1 / batch_size) * full
