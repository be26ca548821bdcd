"""What a run is scored by. Methods never compute their own metrics."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import computed_once, put, pytree
from lessbits._internal.summation import add_slices, separate, squared_distances, squared_norms, sum_pairwise
from lessbits.networks.network import Network
from lessbits.problems.base import Problem

METRICS = ("error", "consensus", "suboptimality")


@pytree
class Target:
    """The solution that iterates are compared with."""

    solution: jax.Array  # x*
    optimum: jax.Array  # f(x*)
    scale: jax.Array  # a squared error that is ordinary for this problem, for telling divergence

    @classmethod
    def of(cls, problem: Problem) -> "Target":
        """Solve the problem."""
        return _target(problem, put(problem.solution, jnp.result_type(float)))


@jax.jit
def at_solution(problem: Problem, solution: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return f_i(x*) and ‖∇f_i(x*)‖² of the nodes here, [nodes here]."""
    everywhere = jnp.broadcast_to(solution, (problem.nodes, problem.dim))
    return problem.losses(everywhere), squared_norms(problem.gradient(everywhere))


@jax.jit
def make_target(solution: jax.Array, losses: jax.Array, pulls: jax.Array) -> Target:
    """Join what all nodes say of the solution; `pulls` tell how hard they pull apart there."""
    size = jnp.maximum(squared_norms(solution[None])[0], _mean(pulls))
    return Target(solution, _mean(losses), jnp.maximum(size, 1e-30))


@jax.jit
def _target(problem: Problem, solution: jax.Array) -> Target:
    return make_target(solution, *at_solution(problem, solution))


@partial(jax.jit, inline=True)  # traced once for the start and for the loop
def score(x: jax.Array, problem: Problem, target: Target) -> dict[str, jax.Array]:
    """Score the iterates x of all nodes.

    error: (1/n) Σ‖x_i - x*‖²; consensus: (1/n) Σ‖x_i - x̄‖²; suboptimality: f(x̄) - f(x*).
    """
    mean = mean_point(x)
    mean = computed_once(mean, ~(target.scale < 0))
    return join_scores(x, mean, problem.losses(jnp.broadcast_to(mean, x.shape)), target)


def mean_point(x: jax.Array) -> jax.Array:
    """x̄, added up in one order, whoever holds the nodes."""
    return separate(add_slices(x) / x.shape[0])


def join_scores(x: jax.Array, mean: jax.Array, losses: jax.Array, target: Target) -> dict[str, jax.Array]:
    """Score all nodes' iterates, given f_i(x̄) of each."""
    # In one array, to be added up together.
    of_nodes = jnp.stack([squared_distances(x, target.solution), squared_distances(x, mean), losses])
    error, consensus, loss = _mean(of_nodes)
    return {"error": error, "consensus": consensus, "suboptimality": loss - target.optimum}


def _mean(values: jax.Array) -> jax.Array:
    """Of the last axis."""
    return separate(sum_pairwise(values) / values.shape[-1])


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
