"""Metrics of a network whose nodes come and go: each connected part is scored against its own optimum."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import put, pytree
from lessbits._internal.summation import squared_distances, squared_norms, sum_pairwise
from lessbits.engines.scoring import MetricChoice, Target
from lessbits.faults.history import MOST_NAMED, members_of, nodes_in_words
from lessbits.problems.base import Problem


@pytree
class PartsTarget(Target):
    """What iterates are scored against: `solution` and `optimum` have one row per node, those of its part.

    Attributes:
        part: The number of the part of each node; -1 for nodes that are not there.
    """

    part: Any = None

    @classmethod
    def between(cls, whole: Target, choice: MetricChoice, problem: Problem, parts: np.ndarray) -> "PartsTarget":
        """Return the target between two events, given that of the whole network and the parts it falls into."""
        solution = optimum = None
        if whole.solution is not None:
            rows = np.tile(np.asarray(whole.solution), (problem.nodes, 1))
            for part in range(parts.max() + 1):
                members = np.flatnonzero(parts == part)
                if len(members) < problem.nodes:
                    rows[members] = problem.restrict(members).solution
            solution = put(rows, whole.solution.dtype)
            optimum = _losses(problem, solution)
        return cls(
            solution, optimum, whole.scale, whole.squared_smoothness, whole.own, whole.columns, put(parts, np.int32)
        )


def losses_of_parts(
    x: np.ndarray, problem: Problem, target: PartsTarget, names: Sequence[str] | None, iteration: int
) -> list[list[Any]]:
    """Return [iteration, text] for each part of a network that has fallen apart: what it computes, and how near it is.

    The loss of a part is the mean of those of its nodes, at the mean of their iterates.
    """
    members = members_of(np.asarray(target.part))
    if not 1 < len(members) <= MOST_NAMED or not target.has_losses:
        return []
    means = np.array(x)
    for nodes in members:
        means[nodes] = x[nodes].mean(axis=0)
    losses = np.asarray(_losses(problem, put(means, x.dtype)))
    texts = []
    for nodes in members:
        best = "" if target.optimum is None else f" (optimum {np.asarray(target.optimum)[nodes].mean():.6g})"
        texts.append([iteration, f"{nodes_in_words(nodes, names)}: loss {losses[nodes].mean():.6g}{best}"])
    return texts


@jax.jit
def _losses(problem: Problem, points: jax.Array) -> jax.Array:
    return problem.losses(points)


def score_parts(x: jax.Array, problem: Problem, target: PartsTarget) -> dict[str, jax.Array]:
    """Score the iterates of the nodes that are there, as `score` does: means over them, each in its own part."""
    if not target.names:
        return {}
    there, part = target.part >= 0, jnp.maximum(target.part, 0)
    count = jnp.sum(there).astype(x.dtype)

    def mean(values: jax.Array) -> jax.Array:
        return sum_pairwise(jnp.where(there, values, 0)) / count

    def means(rows: jax.Array) -> jax.Array:
        """Return the mean over each part, at each of its nodes."""
        kept = jnp.where(there[:, None], rows, 0)
        sums = jax.ops.segment_sum(kept, part, x.shape[0])
        sizes = jax.ops.segment_sum(there.astype(x.dtype), part, x.shape[0])
        return (sums / jnp.maximum(sizes, 1)[:, None])[part]

    middle = means(x)
    values = {"consensus": mean(squared_distances(x, middle))}
    if target.solution is not None:
        values["error"] = mean(squared_distances(x, target.solution))
    if target.has_losses:
        losses = problem.losses(middle)
        values["loss"] = mean(losses)
        if target.optimum is not None:
            values["suboptimality"] = mean(losses - target.optimum)
    if target.squared_smoothness is not None:
        slopes = squared_norms(means(problem.gradient(middle)))
        values["gradient"] = mean(slopes) + target.squared_smoothness * values["consensus"]
    all_of_them = jnp.sum(jnp.where(there[:, None], x, 0), axis=0) / count
    own = {name: jnp.asarray(metric(all_of_them), x.dtype) for name, metric in target.own.items()}
    return {**{name: values[name] for name in target.columns}, **own}
