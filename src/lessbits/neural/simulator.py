"""`simulate`: n nodes that train a model on one device, with any of the methods."""

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.randomness import make_seed
from lessbits._internal.wording import counted
from lessbits.errors import InputError, check_flag, check_kind, check_seed, check_whole, shown
from lessbits.networks import Network
from lessbits.neural.layout import Layout
from lessbits.neural.methods import find_method
from lessbits.neural.methods.averaged import NoExchange
from lessbits.neural.methods.base import SEED_QUANTIZER, Exchanged, Message, NeuralMethod, Room
from lessbits.neural.problem import NeuralProblem
from lessbits.neural.programs import judge_program, local_program, over_nodes, sent_bytes
from lessbits.neural.quantizers import WeightQuantizer
from lessbits.neural.trace import NeuralTrace
from lessbits.training.partners import network_of
from lessbits.training.state import sent_line, tell

if TYPE_CHECKING:
    import optax

logger = logging.getLogger("lessbits")
SPLIT = "the samples are split for"  # so many nodes


@dataclass(frozen=True)
class SimulateOptions:
    """How a simulated run is recorded and computed.

    Attributes:
        record: Steps between two records; the last step has one too.
        encoded: Encode every message, so that bytes are those of real links. By default lengths are computed by the
            codec's own count (`BlockLengths`), within 1 % of the encoded ones or 8 bytes for messages in one piece.
        sequential: Whether nodes compute one after the other, and not in one batch. What a node computes is then what
            it would compute alone, which is needed for the bits of real links.
        progress: Print a line on standard error at every so many records; 0 for never.
    """

    record: int = 100
    encoded: bool = False
    sequential: bool = False
    progress: int = 0

    def __post_init__(self) -> None:
        """Check all of it."""
        check_whole("record", self.record, 1)
        check_flag("encoded", self.encoded)
        check_flag("sequential", self.sequential)
        check_whole("progress", self.progress, 0)


def simulate(
    problem: NeuralProblem,
    optimizer: "optax.GradientTransformation",
    method: str | NeuralMethod = "in-turn",
    network: str | Network = "ring",
    steps: int = 1000,
    seed: int = 0,
    options: SimulateOptions | None = None,
) -> NeuralTrace:
    """Train a model on all nodes of a network, and return the records.

    Args:
        problem: The model, its loss, the samples of each node and metrics.
        optimizer: The optimizer of each node, any of optax. Its state is not exchanged.
        method: A method, or the name of one of `lessbits.neural.METHODS` with default settings.
        network: A network, or its name as in `lessbits.make_network`. Methods that average over all nodes ignore it.
        steps: Local steps of each node.
        seed: Seed of the start, the batches and random rounding.
        options: How the run is recorded and computed.
    """
    check_kind("problem", problem, NeuralProblem, "make one with lessbits.neural.NeuralProblem")
    check_whole("steps", steps, 0)
    check_seed(seed)
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise InputError(f"the optimizer is {shown(optimizer)}, but it must be one of optax, such as optax.adamw(1e-3)")
    chosen = SimulateOptions() if options is None else options
    check_kind("options", chosen, SimulateOptions, "make one with lessbits.neural.SimulateOptions(…)")
    run = _Run(problem, optimizer, find_method(method), network_of(network, problem.nodes, SPLIT), seed, chosen)
    for step in range(1, steps + 1):
        last = step == steps or step % chosen.record == 0
        if step == run.method.seeded:
            run.advance(step)
            run.seed_nodes()
        elif run.method.due(step - run.method.seeded):
            run.advance(step)
            run.exchange()
        if last:
            run.advance(step)
            run.judge()
        if run.diverged:
            break
    if steps and not (run.exchanges or run.diverged or isinstance(run.method, NoExchange)):
        logger.warning(
            f"no exchange took place in {counted(steps, 'step')}: take more steps, or a shorter every or alone"
        )
    return run.trace()


class _Run:
    """A run in progress."""

    def __init__(
        self,
        problem: NeuralProblem,
        optimizer: "optax.GradientTransformation",
        method: NeuralMethod,
        network: Network,
        seed: int,
        options: SimulateOptions,
    ) -> None:
        self.problem, self.options = problem, options
        params = problem.init(jax.random.key(seed))
        self.layout = Layout(params)
        if wrong := [leaf.name for leaf in self.layout.entries if leaf.dtype != jnp.float32]:
            raise InputError(f"{wrong[0]!r} is not float32, as parameters must be in simulation: convert it in init")
        self.seed = make_seed(seed)
        quantizer = WeightQuantizer(method.quantizer, self.layout.sizes, self.layout.names)
        self.method = method = method.fitted(network, quantizer.noisiest)
        self.room = Room(network, quantizer, [leaf.shape for leaf in self.layout.entries], self.seed)
        self.params = jax.tree.map(lambda each: jnp.stack([jnp.asarray(each)] * problem.nodes), params)
        self.state = over_nodes(optimizer.init, options.sequential)(self.params)
        self.gather, self.scatter = jax.jit(jax.vmap(self.layout.gather)), jax.jit(jax.vmap(self.layout.scatter))
        self.old = self.gather(self.params)
        self.kept = method.start(self.old, self.room)
        self.local = local_program(problem, optimizer, method.averages_gradients, options.sequential)
        self.metrics = problem.judged
        self.assess = judge_program(tuple(self.metrics.values()))
        self.data = jax.tree.map(jnp.asarray, problem.data)
        self.held_out = [jax.tree.map(jnp.asarray, metric.data) for metric in self.metrics.values()]
        table, counts = problem.table()
        self.shards = jnp.asarray(table), jnp.asarray(counts)
        self.step = self.exchanges = 0
        self.bytes, self.diverged, self.began = 0.0, False, time.perf_counter()
        self.records: list[dict[str, float]] = []
        self.judge()

    def advance(self, step: int) -> None:
        """Make local steps up to this one."""
        count = step - self.step
        if not count:
            return
        drift = self.method.drift(self.kept, self.step + 1 - self.method.seeded)
        vectors, share = (None, None) if drift is None else (drift[0], jnp.float32(drift[1]))
        models = (self.params, self.state, (vectors, share))
        first, many = jnp.int32(self.step), jnp.int32(count)
        self.params, self.state = self.local(models, self.data, self.shards, self.seed, first, many)
        self.step = step
        if self.method.averages_gradients:
            self.bytes += 4 * count * self.room.ring * self.room.size

    def exchange(self) -> None:
        """Exchange once, and count bytes."""
        x = self.gather(self.params)
        done = self.method.exchange(self.kept, self.old, x, self.exchanges, self.room)
        self.params, self.old, self.kept = self.scatter(self.params, done.x), done.x, done.state
        self.bytes += sent_bytes(done, self.room, self.options.encoded)
        self.exchanges += 1

    def seed_nodes(self) -> None:
        """Give all nodes the model of the tree's root, and begin the method there."""
        root, quantizer = self.room.tree.root, self.room.other(SEED_QUANTIZER)
        change = self.gather(self.params)[root] - self.old[root]
        sent, payload = self.room.tell(change, root, self.exchanges, quantizer)
        self.old = self.old + sent
        self.params, self.kept = self.scatter(self.params, self.old), self.method.start(self.old, self.room)
        copies = np.array([self.room.nodes - 1])
        done = Exchanged(self.old, self.kept, (Message(payload, copies, quantizer),))
        self.bytes += sent_bytes(done, self.room, self.options.encoded)

    def judge(self) -> None:
        """Add a record."""
        values, distance, self.mean = self.assess(self.params, self.held_out)
        record: dict[str, float] = {"step": self.step, "exchanges": self.exchanges, "bytes": self.bytes}
        for name, (mean, worst) in zip(self.metrics, values, strict=True):
            record |= {name: float(mean), f"{name}_worst": float(worst)}
        record |= {"disagreement": float(distance), "seconds": time.perf_counter() - self.began}
        self.records.append(record)
        if self.options.progress and len(self.records) % self.options.progress == 0:
            named = ", ".join(
                f"{name} {record[name]:.5g} (worst node {record[f'{name}_worst']:.5g})" for name in self.metrics
            )
            tell(f"{sent_line(self.step, self.exchanges, 8 * self.bytes, self.layout.size)}, {named}")
        self.diverged = not np.isfinite([record[name] for name in (*self.metrics, "disagreement")]).all()

    def trace(self) -> NeuralTrace:
        """Return the records as columns."""
        columns: dict[str, Any] = {name: np.array([each[name] for each in self.records]) for name in self.records[0]}
        larger = frozenset(name for name, metric in self.metrics.items() if metric.larger)
        return NeuralTrace(columns, self.mean, self.params, self.diverged, larger)
