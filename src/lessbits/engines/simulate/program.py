"""The program of a simulated run: the arguments of its compiled loop, and one iteration of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.axes import Axis, PerLink
from lessbits._internal.pytrees import computed_once, on_cpu, put, pytree, static
from lessbits._internal.randomness import Step, make_seed
from lessbits._internal.summation import Sum, add_up
from lessbits.codecs.base import Codec
from lessbits.engines.checks import sends_again
from lessbits.engines.memory import check_run_fits
from lessbits.engines.options import RunOptions
from lessbits.engines.schedule import end_of_record
from lessbits.engines.scoring import Target, score
from lessbits.engines.stopping import StopRule
from lessbits.methods.base import Method, Start, State
from lessbits.methods.outbox import Message, Outbox
from lessbits.networks import Network
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem

UNROLLED = 10  # iterations that are unrolled on a GPU, at most

Measure = Callable[[State, Problem], jax.Array]  # a pytree that is called inside the compiled loop


class RecordTally(NamedTuple):
    """Work and messages of the iterations of a record."""

    work: jax.Array  # sample gradients, and iterations with any: a method may need several exchanges per gradient
    sent: jax.Array  # messages, by message of the outbox
    bytes: Sum  # of bodies whose length varies, by message of the outbox; a million of them need more than 24 bits
    faults: jax.Array  # what a run with faults counts besides

    @classmethod
    def zeros(cls, messages: int, faults: int, *records: int) -> "RecordTally":
        """Return zeros, for one or several records."""
        work, sent, counted = (put(np.zeros((*records, size)), np.int32) for size in (2, messages, faults))
        value, lost = (put(np.zeros((*records, messages)), np.float32) for _ in range(2))
        return cls(work, sent, Sum(value, lost), counted)


@pytree
class RowLengths:
    """Bytes of each row of a message. A row is a link, or a node whose message goes to all its links."""

    total: Sum
    per_link: bool = static()

    def __add__(self, more: "RowLengths") -> "RowLengths":
        """Add the bytes of another iteration."""
        return RowLengths(self.total + more.total, self.per_link)


class IterationTally(NamedTuple):
    """Work and messages of iterations, row by row. The sum over rows is taken once per record."""

    counts: jax.Array  # sample gradients, iterations with any, messages by message of the outbox, and those of faults
    lengths: tuple[RowLengths | None, ...]  # None where all bodies of a message are equally long

    def __add__(self, more: "IterationTally") -> "IterationTally":  # type: ignore[override]
        """Add the tally of another iteration."""
        pairs = zip(self.lengths, more.lengths, strict=True)
        lengths = tuple(None if mine is None or other is None else mine + other for mine, other in pairs)
        return IterationTally(self.counts + more.counts, lengths)


@pytree
class Program:
    """Everything that stays fixed during a run. It is an argument of the compiled loop, so that nothing recompiles."""

    problem: Annotated[Problem, Axis.NODE]
    method: Method
    local: LocalNetwork
    reverse: PerLink
    target: Target
    measures: dict[str, Any]
    seed: jax.Array
    stop: StopRule
    record_every: jax.Array
    lengths: tuple[Any, ...] = ()  # the length model of each message; None if all its bodies are equally long
    stride: int | None = static(default=None)  # iterations per record, if they are compiled into the program

    @classmethod
    def of(
        cls,
        problem: Problem,
        network: Network,
        method: Method,
        options: RunOptions,
        measures: Mapping[str, Measure] | None = None,
        codecs: Sequence[Codec] = (),
    ) -> "Program":
        """Return the program of a run. The options must be checked."""
        local = LocalNetwork.of(network)
        check_run_fits(problem, local, method, late=sends_again(options.faults, method))
        target = Target.of(problem, options.metric_choice(problem))
        return cls(
            method.prepare(problem),
            method,
            local,
            put(network.reverse, np.int32),
            target,
            dict(measures or {}),
            make_seed(options.seed),
            StopRule.of(options.iterations, options.until, options.goal, target.columns),
            put(options.interval, np.int32),
            tuple(codec.length_model() if codec.body_bytes is None else None for codec in codecs),
        )

    def begin(self, start: Start) -> State:
        """Return the state before the first iteration."""
        return self.method.init(self.problem, self.local, start)

    def started(self, first: Mapping[str, Any]) -> "Program":
        """Return the program with the metrics at which a run counts as diverged, once the start is scored."""
        return replace(self, stop=self.stop.started(first, float(self.target.scale)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return (*self.target.names, *self.measures)

    @property
    def fault_counts(self) -> int:
        """How many numbers a record counts besides work and messages."""
        return 0

    def fit(self, iteration: int) -> "Program":
        """Return the program with the record length compiled in, where it pays, for records from this iteration on.

        A GPU runs a loop without asking the host after each iteration only if the number of iterations is static.
        """
        every, left = int(self.record_every), int(self.stop.iterations) - iteration
        whole = iteration % every == 0 and left >= every
        return replace(self, stride=every if whole and not on_cpu() else None)

    def variants(self, iteration: int) -> list["Program"]:
        """Return all different programs that `fit` will return from this iteration on."""
        every, end = int(self.record_every), int(self.stop.iterations)
        last = end - end % every if end % every else iteration  # where the last, shorter record begins
        fitted = {each.stride: each for each in map(self.fit, (iteration, -(-iteration // every) * every, last))}
        return list(fitted.values())

    def end_of_record(self, iteration: jax.Array) -> jax.Array:
        """Return the iteration at which the record that begins here ends."""
        if self.stride is not None:
            return iteration + self.stride
        return end_of_record(iteration, self.record_every, self.stop.iterations)

    def has_next_record(self, iteration: jax.Array) -> jax.Array:
        """Return whether there is another record of this program."""
        return iteration + (self.stride or 1) <= self.stop.iterations

    def advance(self, state: State, first: jax.Array, end: jax.Array) -> tuple[State, RecordTally]:
        """Run the iterations from `first` up to, not including, `end`."""
        once = jax.jit(self.iterate, inline=True)  # traced once, for shapes and loop: halves the time to start

        def iterate(iteration: jax.Array, carry: tuple[State, IterationTally]) -> tuple[State, IterationTally]:
            state, tally = carry
            state, more = once(state, iteration)
            return state, tally + more

        shapes = jax.eval_shape(once, state, first)[1]
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        if self.stride is None:
            state, tally = lax.fori_loop(first, end, iterate, (state, nothing))
        else:
            state, tally = lax.fori_loop(
                0,
                self.stride,
                lambda number, carry: iterate(first + number, carry),
                (state, nothing),
                unroll=min(UNROLLED, self.stride),
            )
        work, sent, faults = jnp.split(tally.counts, [2, 2 + len(self.method.compressors)])
        return state, RecordTally(work, sent, self._add_up(tally.lengths), faults)

    def _add_up(self, lengths: tuple[RowLengths | None, ...]) -> Sum:
        """Return the bytes of each message, summed over all links."""
        nothing = Sum.of(jnp.float32(0))

        def of_links(rows: RowLengths) -> Sum:
            # A node's message goes to each of its links.
            return rows.total if rows.per_link else jax.tree.map(lambda part: part[self.local.owner], rows.total)

        totals = [nothing if rows is None else add_up(of_links(rows)) for rows in lengths]
        return jax.tree.map(lambda *parts: jnp.stack(parts), *totals)

    def iterate(self, state: State, iteration: jax.Array) -> tuple[State, IterationTally]:
        """Run one iteration: send, exchange, receive."""
        step = Step(self.seed, iteration)
        state, outbox, work = self.method.send(step, state, self.problem, self.local)
        outbox = tuple(
            message if compressor.lossless else computed_once(message, iteration >= 0)
            for message, compressor in zip(outbox, self.method.compressors, strict=True)
        )
        state = self.method.receive(step, state, outbox, self.exchange(outbox), self.local)
        total = work.sum(dtype=jnp.int32)
        lengths = self.lengths or (None,) * len(outbox)
        return state, IterationTally(
            jnp.stack([total, (total > 0).astype(jnp.int32), *(self._sent(message) for message in outbox)]),
            tuple(self._bytes(*pair) for pair in zip(outbox, lengths, strict=True)),
        )

    def exchange(self, outbox: Outbox) -> Outbox:
        """Return the inbox: for each link, the message of its reverse link."""
        return tuple(self._arrived(message) for message in outbox)

    def _arrived(self, message: Message) -> Message:
        source = self.reverse if message.per_link else self.local.neighbor
        active = None if message.active is None else message.active[self.reverse]
        return Message(message.payload, True, active, source=source, round=message.round)

    def _sent(self, message: Message) -> jax.Array:
        if message.active is None:
            return jnp.int32(self.local.links.shape[0])
        return jnp.sum(message.active, dtype=jnp.int32)

    def _bytes(self, message: Message, length: Any) -> RowLengths | None:
        """Return the bytes of bodies whose length varies, per row, or per link if only some links send."""
        if length is None:
            return None
        rows = length(message.payload)
        if message.active is not None:
            rows = jnp.where(message.active, rows if message.per_link else rows[self.local.owner], 0)
        return RowLengths(Sum.of(rows), message.per_link or message.active is not None)

    def score(self, state: State) -> dict[str, jax.Array]:
        """Return all metrics of a state."""
        extra = {name: measure(state, self.problem) for name, measure in self.measures.items()}
        return {**score(state.x, self.problem, self.target), **extra}
