"""The compiled programs of the simulator: an interval of local steps, an exchange, and an evaluation."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits.codecs.frames import CHECK_BYTES
from lessbits.errors import MissingPackageError
from lessbits.neural.layout import Layout
from lessbits.neural.methods.base import Exchanged, Room
from lessbits.neural.problem import Metric, NeuralProblem, choose
from lessbits.neural.quantizers import row_of

if TYPE_CHECKING:
    import optax

Tree = Any  # of arrays


def over_nodes(function: Callable[..., Any], sequential: bool) -> Callable[..., Any]:
    """Return a function of arrays with one row per node, all at once or one after the other."""
    if not sequential:
        return jax.vmap(function)
    return lambda *arguments: lax.map(lambda each: function(*each), arguments)


@lru_cache(maxsize=8)
def local_program(
    problem: NeuralProblem, optimizer: "optax.GradientTransformation", averages: bool, sequential: bool
) -> Callable[..., Any]:
    """Return a compiled function that makes so many local steps at all nodes.

    It is kept for other runs of the same problem and optimizer.
    """
    try:
        import optax
    except ImportError as error:
        raise MissingPackageError(f"simulate needs optax ({error}): pip install 'lessbits[optax]'") from None

    def update(slopes: Tree, state: Tree, params: Tree) -> tuple[Tree, Tree]:
        updates, state = optimizer.update(slopes, state, params)
        return optax.apply_updates(params, updates), state

    gradient = over_nodes(jax.grad(problem.loss), sequential)
    update = over_nodes(update, sequential)
    nodes = jnp.arange(problem.nodes, dtype=jnp.uint32)

    def run(
        models: Tree,
        data: Tree,
        shards: tuple[jax.Array, jax.Array],
        seed: jax.Array,
        first: jax.Array,
        count: jax.Array,
    ) -> Tree:
        table, counts = shards

        def one(index: jax.Array, models: Tree) -> Tree:
            params, state, (drift, share) = models
            rows = choose(seed, first + index, nodes, table, counts, problem.batch)
            slopes = gradient(params, jax.tree.map(lambda array: array[rows], data))
            if averages:
                slopes = jax.tree.map(
                    lambda each: jnp.broadcast_to(jnp.mean(each, axis=0, keepdims=True), each.shape), slopes
                )
            params, state = update(slopes, state, params)
            if drift is not None:
                layout = Layout(jax.tree.map(lambda each: each[0], params))
                params = jax.vmap(layout.add, (0, 0, None))(params, drift, share)
            return params, state, (drift, share)

        return lax.fori_loop(jnp.int32(0), count, one, models)[:2]

    return jax.jit(run)


@jax.jit
def _count(model: Any, payload: Any) -> jax.Array:
    return model(payload)


def sent_bytes(done: Exchanged, room: Room, encoded: bool) -> float:
    """Return the bytes that a node sent in an exchange, mean over nodes, by encoding or by the codec's count."""
    total = 4.0 * done.numbers
    for payload, copies, quantizer in done.messages:
        codec = (quantizer or room.quantizer).codec()
        if encoded:
            parts = jax.tree.map(np.asarray, payload)
            lengths = [len(codec.encode(row_of(parts, row))) for row in range(len(copies))]
        else:
            lengths = np.asarray(_count(codec.length_model(), payload)).tolist()
        total += float(np.sum(copies * (np.array(lengths) + CHECK_BYTES))) / room.nodes
    return total


@lru_cache(maxsize=8)
def judge_program(metrics: tuple[Metric, ...]) -> Callable[..., Any]:
    """Return a compiled function of the models: each metric of the mean model and of the worst node."""

    def run(params: Tree, data: Tree) -> Any:
        layout = Layout(jax.tree.map(lambda each: each[0], params))
        vectors = jax.vmap(layout.gather)(params)
        middle = jnp.mean(vectors, axis=0)
        mean = layout.scatter(jax.tree.map(lambda each: each[0], params), middle)
        values = []
        for metric, arrays in zip(metrics, data, strict=True):
            own = lax.map(lambda each: metric(each, arrays), params)  # noqa: B023
            values.append((metric(mean, arrays), jnp.min(own) if metric.larger else jnp.max(own)))
        distance = jnp.sqrt(jnp.mean(jnp.sum(jnp.square(vectors - middle[None]), axis=1)))
        return values, distance, mean

    return jax.jit(run)
