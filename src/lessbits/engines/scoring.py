"""Metrics of a run. Methods never compute their own metrics."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import computed_once, put, pytree, static
from lessbits._internal.summation import add_slices, separate, squared_distances, squared_norms, sum_pairwise
from lessbits.errors import InputError
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.problems.origin import check_kinds

METRICS = ("error", "consensus", "suboptimality")  # of a problem whose solution is known
WITHOUT_SOLUTION = ("consensus", "loss", "gradient")  # of one that declines it
ON_DEMAND = ("loss", "gradient")  # with a solution they are computed only as a goal: they cost a pass over the data


@pytree
class Target:
    """What iterates are scored against, and which metrics are computed.

    Attributes:
        solution: x*; None if the problem declines it.
        optimum: f(x*); None likewise.
        scale: A typical squared error of this problem, or squared gradient without x*, to detect divergence.
        squared_smoothness: L², for the gradient; None if the gradient is not computed.
        own: Metrics of the user's own: functions of x̄, by name.
        columns: The other metrics. They are part of the compiled program.
    """

    solution: jax.Array | None
    optimum: jax.Array | None
    scale: jax.Array
    squared_smoothness: jax.Array | None = None
    own: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = static(default=METRICS)

    @classmethod
    def of(cls, problem: Problem, metrics: "MetricChoice | None" = None) -> "Target":
        """Return the target of a problem that this process holds. It is solved, unless it declines x*."""
        choice = metrics or MetricChoice.of(problem)
        if choice.columns == ():
            return cls(None, None, put(1.0, jnp.result_type(float)), own=choice.own, columns=())
        if problem.has_solution:
            point = put(problem.solution, jnp.result_type(float))
        else:
            point = _mean_start(problem.start() if choice.start is None else choice.start)
        return choice.target(problem, point, _facts(problem, point))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all metrics, in the order of the records."""
        return (*self.columns, *self.own)

    @property
    def has_losses(self) -> bool:
        """Whether the metrics need the losses."""
        return "suboptimality" in self.columns or "loss" in self.columns


class Facts(NamedTuple):
    """What is known at the point x* or, without it, at the mean x̄ of the start."""

    loss: jax.Array
    squared_gradient: jax.Array  # mean of ‖∇f_i‖²
    scale: jax.Array  # the larger of it and ‖x‖²


@jax.jit
def at_point(problem: Problem, point: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return f_i and ‖∇f_i‖² of the nodes of this process at one point, [local nodes]."""
    everywhere = jnp.broadcast_to(point, (problem.nodes, problem.dim))
    return problem.losses(everywhere), squared_norms(problem.gradient(everywhere))


@jax.jit
def join_facts(point: jax.Array, losses: jax.Array, squared_gradients: jax.Array) -> Facts:
    """Join f_i and ‖∇f_i‖² of all nodes."""
    gradient = _mean(squared_gradients)
    size = jnp.maximum(squared_norms(point[None])[0], gradient)
    return Facts(_mean(losses), gradient, jnp.maximum(size, 1e-30))


@jax.jit
def _facts(problem: Problem, point: jax.Array) -> Facts:
    return join_facts(point, *at_point(problem, point))


@dataclass(frozen=True)
class MetricChoice:
    """The metrics of a run, chosen before it starts.

    Attributes:
        columns: Names of the metrics that the library computes.
        own: Metrics of the user's own, as pytrees.
        start: The first iterates, if the user gave some.
    """

    columns: tuple[str, ...]
    own: dict[str, Any] = field(default_factory=dict)
    start: Any = None

    @classmethod
    def of(
        cls, problem: Problem, goal: str | None = None, own: dict[str, Any] | None = None, start: Any = None
    ) -> "MetricChoice":
        """Return the metrics of a problem, with the goal's among them."""
        columns: tuple[str, ...]
        if problem.has_solution:
            columns = (*METRICS, goal) if goal in ON_DEMAND else METRICS
        else:
            known = {"consensus": True, "loss": problem.has_losses, "gradient": knows_smoothness(problem)}
            columns = tuple(name for name in WITHOUT_SOLUTION if known[name])
        return cls(columns, own or {}, start)

    def target(self, problem: Problem, point: jax.Array, facts: Facts) -> Target:
        """Return the target, given what is known at x* or at the start."""
        kind = jnp.result_type(float)
        squared = put(problem.smoothness**2, kind) if "gradient" in self.columns else None
        if problem.has_solution:
            return Target(point, facts.loss, facts.scale, squared, self.own, self.columns)
        scale = facts.scale if squared is None else jnp.maximum(facts.squared_gradient, 1e-30)
        return Target(None, None, scale, squared, self.own, self.columns)


def knows_smoothness(problem: Problem) -> bool:
    """Return whether L is known, or can be estimated."""
    try:
        return bool(problem.smoothness > 0)
    except InputError:
        return False


@partial(jax.jit, inline=True)  # traced once for the start and for the loop
def score(x: jax.Array, problem: Problem, target: Target) -> dict[str, jax.Array]:
    """Score the iterates x of all nodes.

    error: (1/n) Σ‖x_i - x*‖²; consensus: (1/n) Σ‖x_i - x̄‖²; suboptimality: f(x̄) - f(x*); loss: f(x̄);
    gradient: ‖∇f(x̄)‖² + L²·consensus. The last one is zero only where all nodes agree on a point without slope, and
    half the mean of ‖∇f(x_i)‖² is at most that.
    """
    if not target.names:
        return {}
    mean = mean_point(x)
    mean = computed_once(mean, ~(target.scale < 0))
    everywhere = jnp.broadcast_to(mean, x.shape)
    losses = problem.losses(everywhere) if target.has_losses else None
    gradients = problem.gradient(everywhere) if "gradient" in target.columns else None
    return join_scores(x, mean, losses, gradients, target)


def mean_point(x: jax.Array) -> jax.Array:
    """Return x̄, summed in an order that does not depend on which process holds which node."""
    return separate(add_slices(x) / x.shape[0])


_mean_start = jax.jit(mean_point)


def join_scores(
    x: jax.Array, mean: jax.Array, losses: jax.Array | None, gradients: jax.Array | None, target: Target
) -> dict[str, jax.Array]:
    """Score the iterates of all nodes, given f_i(x̄) and ∇f_i(x̄) of each, where they are needed."""
    of_nodes = {
        "error": None if target.solution is None else squared_distances(x, target.solution),
        "consensus": squared_distances(x, mean),
        "loss": losses,
    }
    found = {name: rows for name, rows in of_nodes.items() if rows is not None}
    # Stacked, so that one reduction serves all.
    values = dict(zip(found, _mean(jnp.stack(list(found.values()))), strict=True))
    if target.optimum is not None:
        values["suboptimality"] = values["loss"] - target.optimum
    if gradients is not None:
        disagreement = separate(target.squared_smoothness * values["consensus"])
        values["gradient"] = squared_norms(mean_point(gradients)[None])[0] + disagreement
    own = {name: jnp.asarray(metric(mean), mean.dtype) for name, metric in target.own.items()}
    return {**{name: values[name] for name in target.columns}, **own}


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
        check_kinds(problem, network)
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
