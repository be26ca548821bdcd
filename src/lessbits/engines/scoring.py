"""What a run is scored by. Methods never compute their own metrics."""

from typing import Any

import jax
import jax.numpy as jnp

from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.pytrees import pytree


@jax.jit
def _mean_loss(problem: Problem, x: jax.Array) -> jax.Array:
    return problem.mean_loss(x)


@pytree
class Target:
    """The solution that iterates are compared with."""

    solution: jax.Array  # x*
    optimum: jax.Array  # f(x*)

    @classmethod
    def of(cls, problem: Problem) -> "Target":
        """Solve the problem."""
        solution = jnp.asarray(problem.solution, jnp.result_type(float))
        return cls(solution, _mean_loss(problem, solution))


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

    ‖Z - Z*‖²_{W†} + a‖X - X*‖² + b‖H - X*‖² + c Σ_i B_{f_i}(w_i, x*), with the coefficients of each theorem.
    """

    pseudo_inverse: jax.Array  # W†
    dual_solution: jax.Array  # Z* = ∇f_i(x*)
    solution: jax.Array
    losses: jax.Array  # f_i(x*)
    iterate: float  # a
    memory: float  # b
    anchor: float  # c

    @classmethod
    def of(cls, problem: Problem, network: Network, coefficients: tuple[float, float, float]) -> "Lyapunov":
        """Take a, b and c from `theory.lyapunov_coefficients`."""
        kind = jnp.result_type(float)
        solution = jnp.asarray(problem.solution, kind)
        everywhere = jnp.broadcast_to(solution, (problem.nodes, problem.dim))
        return cls(
            jnp.asarray(network.pseudo_inverse(), kind),
            problem.gradient(everywhere),
            solution,
            problem.losses(everywhere),
            *coefficients,
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
            value += self.anchor * jnp.sum(bregman)
        return value
