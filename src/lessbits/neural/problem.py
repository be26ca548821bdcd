"""A problem to train in simulation: how a model starts, its loss, the samples of each node, and metrics."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.randomness import Purpose, Step, draws, make_seed
from lessbits.errors import InputError, check_flag, check_function, check_seed, check_whole, shown

Tree = Any  # of arrays
MOST_STEP = 2**31 - 1
COUNTERS = ("step", "exchanges", "bytes", "disagreement", "seconds")  # columns of every trace
SPLIT = "lessbits.split_labels returns such lists"
WORST = "_worst"  # behind the name of a metric, for the column of the worst node


@dataclass(frozen=True, eq=False)
class Metric:
    """A number to judge models by, such as the loss or the accuracy on samples that nobody trains with.

    Attributes:
        function: Takes the parameters and, unless it is None, `data`; returns one number.
        data: Arrays for the function. Large ones belong here: those in a closure would be compiled into the program.
        larger: Whether larger is better. The worst node is the one with the smallest number then.
    """

    function: Callable[..., jax.Array]
    data: Tree = None
    larger: bool = False

    def __post_init__(self) -> None:
        """Check the function, without calling it."""
        check_flag("larger", self.larger)
        check_function("function", self.function, "the parameters, and of data if they are given")
        given = (None,) if self.data is None else (None, None)
        try:
            inspect.signature(self.function).bind(*given)
        except ValueError:  # of functions that do not say what they take
            return
        except TypeError:
            needs = "parameters alone, as no data are given" if self.data is None else "parameters and data"
            raise InputError(
                f"a metric is {shown(self.function)}, but it must be a function of {needs}: one that needs samples is "
                "Metric(function, data)"
            ) from None

    def __call__(self, params: Tree, data: Tree) -> jax.Array:
        """Return the number as float32."""
        found = self.function(params) if data is None else self.function(params, data)
        return jnp.asarray(found).astype(jnp.float32)


@dataclass(frozen=True, eq=False)
class NeuralProblem:
    """What `lessbits.neural.simulate` trains.

    Attributes:
        init: Takes a `jax.random.key` and returns parameters, any pytree of float32 arrays. All nodes start alike.
        loss: Takes parameters and a batch, and returns the mean loss.
        data: The training samples, a pytree of arrays whose first axes count samples. A batch is a part of it.
        shards: The rows of each node, such as `lessbits.split_labels` returns them.
        batch: Samples in a batch, drawn with replacement.
        metrics: Metrics by name, each a `Metric` or a function of the parameters.
    """

    init: Callable[[jax.Array], Tree]
    loss: Callable[[Tree, Tree], jax.Array]
    data: Tree
    shards: Sequence[np.ndarray]
    batch: int = 32
    metrics: Mapping[str, Metric | Callable[[Tree], jax.Array]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check all of it."""
        check_function("init", self.init, "a key")
        check_function("loss", self.loss, "parameters and a batch")
        check_whole("batch", self.batch, 1)
        lengths = {np.shape(array)[0] if np.ndim(array) else 0 for array in jax.tree.leaves(self.data)}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(f"data have first axes of lengths {sorted(lengths)}, but they must all count the samples")
        (count,) = lengths
        _check_shards(self.shards, count)
        _check_metrics(self.metrics)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.shards)

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of all nodes, int32 [nodes, longest], and how many each has."""
        counts = np.array([len(rows) for rows in self.shards], np.int32)
        table = np.zeros((self.nodes, counts.max()), np.int32)
        for node, rows in enumerate(self.shards):
            table[node, : len(rows)] = rows
        return table, counts

    def draw(self, node: int, step: int, seed: int = 0) -> Tree:
        """Return the batch that a node has at a step of the simulator, for a loop over real links.

        Steps are counted from 0.
        """
        check_whole("node", node, 0, self.nodes - 1)
        check_whole("step", step, 0, MOST_STEP)
        check_seed(seed)
        rows = np.asarray(self.shards[node], np.int32)[None]
        numbers = np.array([node], np.uint32)
        chosen = choose(make_seed(seed), jnp.int32(step), numbers, rows, np.array([rows.size], np.int32), self.batch)
        return jax.tree.map(lambda array: array[np.asarray(chosen)[0]], self.data)

    @cached_property
    def judged(self) -> dict[str, Metric]:
        """All metrics as such, the same at each call, so that programs are found again."""
        return {name: each if isinstance(each, Metric) else Metric(each) for name, each in self.metrics.items()}


def _check_shards(shards: Any, count: int) -> None:
    """Raise if this is no list of rows from 0 to `count` - 1 for each node."""
    if isinstance(shards, str | bytes | Mapping) or not hasattr(shards, "__len__"):
        raise InputError(f"shards is {shown(shards)}, but it must be a list of the rows of each node: {SPLIT}")
    if not len(shards):
        raise InputError(f"shards are of no nodes: {SPLIT}")
    for node, given in enumerate(shards):
        try:
            rows = np.asarray(given)
        except (TypeError, ValueError):  # of lists of lists of other lengths
            rows = np.empty(0)
        if rows.ndim != 1 or not rows.size or rows.dtype.kind not in "iu":
            raise InputError(
                f"the shard of node {node} is {shown(given)}, but it must be a list of rows, whole numbers, at least "
                f"one: {SPLIT}"
            )
        if rows.min() < 0 or rows.max() >= count:
            raise InputError(f"the shard of node {node} has rows outside of 0 to {count - 1}: {shown(given)}")


def _check_metrics(metrics: Any) -> None:
    """Raise if these are no metrics by name, or if two columns of a trace would have one name."""
    if not isinstance(metrics, Mapping):
        raise InputError(f'metrics is {shown(metrics)}, but it must be metrics by name, such as {{"loss": Metric(…)}}')
    for name, metric in metrics.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"the name of a metric is {shown(name)}, but it must be a text that is not empty")
        if name in COUNTERS or (name.endswith(WORST) and name.removesuffix(WORST) in metrics):
            raise InputError(f"a metric is named {name!r}, as a column that every trace has: give it another name")
        if not isinstance(metric, Metric):
            check_function(f"the metric {name!r}", metric, "the parameters")
            Metric(metric)  # which checks what it takes


def choose(seed: jax.Array, step: jax.Array, nodes: Any, table: Any, counts: Any, size: int) -> jax.Array:
    """Return the rows of a batch of each node, int32 [nodes, size]: a function of seed, step and node alone."""
    picks = draws(Step(seed, step), jnp.asarray(nodes), Purpose.SAMPLE).integers(size, jnp.asarray(counts))
    return jnp.take_along_axis(jnp.asarray(table), picks, axis=1)
