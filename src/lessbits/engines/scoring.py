"""What a run is scored by. Methods never compute their own metrics."""

from typing import Any

import jax
import jax.numpy as jnp

from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.pytrees import pytree


@jax.jit
def _optimum_and_scale(problem: Problem, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    gradients = problem.gradient(jnp.broadcast_to(x, (problem.nodes, problem.dim)))
    pull = jnp.sum(gradients**2) / problem.nodes  # how hard the nodes pull apart at the solution
    return problem.mean_loss(x), jnp.maximum(jnp.maximum(jnp.sum(x**2), pull), 1e-30)


@pytree
class Target:
    """The solution that iterates are compared with."""

    solution: jax.Array  # x*
    optimum: jax.Array  # f(x*)
    scale: jax.Array  # a squared error that is ordinary for this problem, for telling divergence

    @classmethod
    def of(cls, problem: Problem) -> "Target":
        """Solve the problem."""
        solution = jnp.asarray(problem.solution, jnp.result_type(float))
        return cls(solution, *_optimum_and_scale(problem, solution))


def score(x: jax.Array, problem: Problem, target: Target) -> dict[str, jax.Array]:
    """Score the iterates x of all nodes, always gathered in one place: their sums need no fixed order.

    error: (1/n) Σ‖x_i - x*‖²; consensus: (1/n) Σ‖x_i - x̄‖²; suboptimality: f(x̄) - f(x*).
    """
    nodes = x.shape[0]
    mean = jnp.mean(x, axis=0)
    return {
        "error": jnp.sum((x - target.solution) ** 2) / nodes,
        "consensus": jnp.sum((x - mean) ** 2) / nodes,
        "suboptimality": problem.mean_loss(mean) - target.optimum,
    }


@pytree
class Lyapunov:
    """The function that the paper's theorems show to shrink, for the states of `primal_dual`.

    ‖Z - Z*‖²_{W†} + a‖X - X*‖² + b‖H - X*‖² + c Σ_i m_i B_{f_i}(w_i, x*), with the weights of each theorem; m_i is the
    number of batches at node i.
    """

    pseudo_inverse: jax.Array  # W†
    dual_solution: jax.Array  # Z* = ∇f_i(x*)
    solution: jax.Array
    losses: jax.Array  # f_i(x*)
    iterate: float  # a
    memory: float  # b
    anchor: jax.Array  # c·m_i, [nodes]

    @classmethod
    def of(
        cls, problem: Problem, network: Network, weights: tuple[float, float, float], batch_size: int = 1
    ) -> "Lyapunov":
        """Take a, b and c from `theory.lyapunov_coefficients`."""
        kind = jnp.result_type(float)
        solution = jnp.asarray(problem.solution, kind)
        everywhere = jnp.broadcast_to(solution, (problem.nodes, problem.dim))
        return cls(
            jnp.asarray(network.pseudo_inverse(), kind),
            problem.gradient(everywhere),
            solution,
            problem.losses(everywhere),
            *weights[:2],
            anchor=weights[2] * jnp.maximum(1, problem.counts / batch_size),
        )

    def __call__(self, state: Any, problem: Problem) -> jax.Array:
        """Evaluate at a state."""
        gap = state.z - self.dual_solution
        value = jnp.sum(gap * (self.pseudo_inverse @ gap))
        value += self.iterate * jnp.sum((state.x - self.solution) ** 2)
        if state.memory:
            value += self.memory * jnp.sum((state.memory.h - self.solution) ** 2)
        if state.anchor is not None:
            away = state.anchor.point - self.solution
            bregman = problem.losses(state.anchor.point) - self.losses - jnp.sum(self.dual_solution * away, axis=-1)
            value += jnp.sum(self.anchor * bregman)
        return value
