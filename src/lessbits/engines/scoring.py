"""Metrics of a run. Methods never compute their own metrics."""

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
    scale: jax.Array  # a typical squared error of this problem, to detect divergence

    @classmethod
    def of(cls, problem: Problem) -> "Target":
        """Solve the problem, and return its solution as a target."""
        return _target(problem, put(problem.solution, jnp.result_type(float)))


@jax.jit
def at_solution(problem: Problem, solution: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return f_i(x*) and ‖∇f_i(x*)‖² of the nodes of this process, [local nodes]."""
    everywhere = jnp.broadcast_to(solution, (problem.nodes, problem.dim))
    return problem.losses(everywhere), squared_norms(problem.gradient(everywhere))


@jax.jit
def make_target(solution: jax.Array, losses: jax.Array, squared_gradients: jax.Array) -> Target:
    """Return the target for f_i(x*) and ‖∇f_i(x*)‖² of all nodes."""
    size = jnp.maximum(squared_norms(solution[None])[0], _mean(squared_gradients))
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
    """Return x̄, summed in an order that does not depend on which process holds which node."""
    return separate(add_slices(x) / x.shape[0])


def join_scores(x: jax.Array, mean: jax.Array, losses: jax.Array, target: Target) -> dict[str, jax.Array]:
    """Score the iterates of all nodes, given f_i(x̄) of each."""
    # Stacked, so that one reduction serves all three.
    of_nodes = jnp.stack([squared_distances(x, target.solution), squared_distances(x, mean), losses])
    error, consensus, loss = _mean(of_nodes)
    return {"error": error, "consensus": consensus, "suboptimality": loss - target.optimum}


def _mean(values: jax.Array) -> jax.Array:
    """Return the mean over the last axis."""
    return separate(sum_pairwise(values) / values.shape[-1])


@pytree
class Lyapunov:
    """The Lyapunov function of the paper's theorems, for states of `primal_dual`. A theorem proves that it shrinks.

    ‖Z - Z*‖²_{W†} + a‖X - X*‖² + b‖H - X*‖² + c Σ_i m_i B_{f_i}(w_i, x*), with the weights of each theorem; m_i is the
    number of batches at node i. Make one with `Lyapunov.of`, and pass it to `simulate` in `measures`.

    Attributes:
        pseudo_inverse: W†.
        dual_solution: Z* = ∇f_i(x*), [nodes, dim].
        solution: x*.
        losses: f_i(x*), [nodes].
        iterate: The weight a.
        memory: The weight b.
        anchor: The weights c·m_i, [nodes].
    """

    pseudo_inverse: jax.Array
    dual_solution: jax.Array
    solution: jax.Array
    losses: jax.Array
    iterate: float
    memory: float
    anchor: jax.Array

    @classmethod
    def of(
        cls, problem: Problem, network: Network, weights: tuple[float, float, float], batch_size: int = 1
    ) -> "Lyapunov":
        """Return the function for a problem and a network.

        Args:
            problem: The losses of all nodes.
            network: The links between nodes, with their weights.
            weights: a, b and c, as `theory.lyapunov_coefficients` returns them.
            batch_size: Samples of a stochastic gradient.
        """
        kind = jnp.result_type(float)
        solution = jnp.asarray(problem.solution, kind)
        everywhere = jnp.broadcast_to(solution, (problem.nodes, problem.dim))
        return cls(
            jnp.asarray(network.pseudo_inverse(), kind),
            problem.gradient(everywhere),
            solution,
            problem.losses(everywhere),
            *weights[:2],
            anchor=weights[2] * jnp.maximum(1, problem.counts.astype(kind) / batch_size),
        )

    def __call__(self, state: Any, problem: Problem) -> jax.Array:
        """Return the value at a state."""
        gap = state.z - self.dual_solution
        value = jnp.sum(gap * (self.pseudo_inverse @ gap))
        value += self.iterate * jnp.sum((state.x - self.solution[None]) ** 2)
        if state.memory:
            value += self.memory * jnp.sum((state.memory.h - self.solution[None]) ** 2)
        if state.anchor is not None:
            away = state.anchor.point - self.solution[None]
            bregman = problem.losses(state.anchor.point) - self.losses - jnp.sum(self.dual_solution * away, axis=-1)
            value += jnp.sum(self.anchor * bregman)
        return value
