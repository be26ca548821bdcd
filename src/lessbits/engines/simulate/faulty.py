"""The program of a simulated run with faults: links that are silent, nodes that are not there, messages in flight."""

from dataclasses import fields, replace
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.axes import Axis, PerLink, choose_by_axis
from lessbits._internal.pytrees import choose_rows, computed_once, pytree
from lessbits._internal.randomness import Step
from lessbits._internal.summation import Sum
from lessbits.engines.parts import PartsTarget, score_parts
from lessbits.engines.simulate.program import IterationTally, Program, RowLengths
from lessbits.faults.conditions import Conditions, Now, Tries
from lessbits.methods.base import Start, State
from lessbits.methods.outbox import Message, Outbox

# What a record counts besides work and messages.
COUNTS = ("spoken", "awake", "applied", "present", "age")
NEVER = np.iinfo(np.int32).max


class InFlight(NamedTuple):
    """The last message of each link whose round is even, or odd. There are never more than these two."""

    payload: Any
    size: jax.Array  # bytes, if that varies
    round: jax.Array
    sent: jax.Array  # iteration of the first try
    fate: Tries  # where `lost` is how many tries will be lost still
    due: jax.Array  # iteration of the next try, if one was lost
    arrival: jax.Array  # iteration


class FaultyState(NamedTuple):
    """The state of the method, and that of the network."""

    method: Annotated[State, Axis.NODE]
    burst: PerLink  # whether a link is in a burst of silence
    flight: Annotated[tuple[InFlight, InFlight] | None, Axis.LINK]  # None if no message is late

    @property
    def x(self) -> jax.Array:
        """The iterates."""
        return self.method.x


@pytree
class FaultyProgram(Program):
    """A program whose links and nodes fail, between two events."""

    conditions: Conditions | None = None

    @property
    def fault_counts(self) -> int:
        """How many numbers a record counts besides work and messages."""
        return len(COUNTS)

    def begin(self, start: Start) -> FaultyState:
        """Return the state before the first iteration."""
        state = self.method.init(self.problem, self.local, start)
        assert self.conditions is not None
        burst = self.conditions.start()
        if not getattr(self.method, "late", False):
            return FaultyState(state, burst, None)
        _, (message,), _ = jax.eval_shape(
            self.method.send, Step(self.seed, jnp.int32(0)), state, self.problem, self.local
        )
        payload = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), message.payload)
        never = jnp.full(self.local.links.shape, NEVER, jnp.int32)
        nothing = jnp.zeros_like(never)
        fate = Tries(nothing, nothing, nothing)
        empty = InFlight(payload, nothing.astype(jnp.float32), nothing - 1, nothing, fate, never, never)
        return FaultyState(state, burst, (empty, empty))

    def reset(self, state: FaultyState, fresh: State, nodes: jax.Array, links: jax.Array) -> FaultyState:
        """Start some nodes and links anew. What is in flight on such links is gone."""
        renewed = self.method.reset(state.method, fresh, nodes, links, self.local)
        if state.flight is None:
            return state._replace(method=renewed)
        first, second = (
            each._replace(
                round=jnp.where(links, -1, each.round),
                due=jnp.where(links, NEVER, each.due),
                arrival=jnp.where(links, NEVER, each.arrival),
            )
            for each in state.flight
        )
        return state._replace(method=renewed, flight=(first, second))

    def iterate(self, state: FaultyState, iteration: jax.Array) -> tuple[FaultyState, IterationTally]:
        """Run one iteration of all nodes that take part."""
        assert self.conditions is not None
        now, burst = self.conditions.at(iteration, state.burst)
        speaks = now.up & now.awake[self.local.owner]
        if state.flight is None:  # an exchange needs both ends
            speaks = speaks & now.awake[self.local.neighbor]
        step, local = Step(self.seed, iteration), replace(self.local, up=speaks)
        after, outbox, work = self.method.send(step, state.method, self.problem, local)
        compressors = self.method.compressors
        outbox = tuple(
            message if compressor.lossless else computed_once(message, iteration >= 0)
            for message, compressor in zip(outbox, compressors, strict=True)
        )
        active = [speaks if message.active is None else message.active & speaks for message in outbox]
        outbox = tuple(replace(message, active=mask) for message, mask in zip(outbox, active, strict=True))
        lengths = self.lengths or (None,) * len(outbox)
        sizes = [self._bytes(message, length) for message, length in zip(outbox, lengths, strict=True)]
        messages = [jnp.sum(mask, dtype=jnp.int32) for mask in active]
        flight, applied, age = state.flight, active[0], jnp.int32(0)
        if flight is None:
            inbox = self.exchange(outbox)
            if "delay" not in self.method.runs_with:  # a lost message is not sent again, and its sender does not know
                applied = active[0] & self.conditions.heard(iteration)
                local = replace(local, up=speaks & applied)
        else:
            flight, again, bytes_again = self._try_again(flight, speaks, iteration)
            messages = [messages[0] + again]
            flight = self._launch(flight, outbox, sizes[0], iteration)
            sizes = [None if sizes[0] is None else sizes[0] + RowLengths(Sum.of(bytes_again), per_link=True)]
            inbox, applied, sent_at = self._land(flight, outbox, iteration, now)
            age = jnp.sum(jnp.where(applied, iteration - sent_at, 0), dtype=jnp.int32)
        after = self.method.receive(step, after, outbox, inbox, local)
        asleep = ~now.awake
        after = choose_by_axis(asleep, asleep[self.local.owner], state.method, after)
        total = jnp.sum(jnp.where(now.awake, work, 0), dtype=jnp.int32)
        counted = [jnp.sum(mask, dtype=jnp.int32) for mask in (active[0], now.awake, applied, self.conditions.present)]
        counts = [total, (total > 0).astype(jnp.int32), *messages, *counted, age]
        return FaultyState(after, burst, flight), IterationTally(jnp.stack(counts), tuple(sizes))

    @staticmethod
    def _round(outbox: Outbox) -> jax.Array:
        """Return the round that each link is in. A method whose messages may be late says it."""
        (message,) = outbox
        assert message.round is not None
        return message.round

    def _try_again(
        self, flight: tuple[InFlight, InFlight], speaks: jax.Array, iteration: jax.Array
    ) -> tuple[tuple[InFlight, InFlight], jax.Array, jax.Array]:
        """Send what was lost once more, where a link speaks; return also how many messages that is, and their bytes."""
        tried, number, size = [], jnp.int32(0), jnp.zeros(speaks.shape, jnp.float32)
        for each in flight:
            now = speaks & (each.due <= iteration)
            fate = each.fate._replace(lost=each.fate.lost - now.astype(jnp.int32))
            due, arrival = _next(fate, iteration)
            due, arrival = jnp.where(now, due, each.due), jnp.where(now, arrival, each.arrival)
            tried.append(each._replace(fate=fate, due=due, arrival=arrival))
            number, size = number + jnp.sum(now, dtype=jnp.int32), size + jnp.where(now, each.size, 0)
        return (tried[0], tried[1]), number, size

    def _launch(
        self, flight: tuple[InFlight, InFlight], outbox: Outbox, size: RowLengths | None, iteration: jax.Array
    ) -> tuple[InFlight, InFlight]:
        """Put messages in flight. None of them is taken before the one of the round before."""
        assert self.conditions is not None
        (message,), number = outbox, self._round(outbox)
        assert message.active is not None
        fate = self.conditions.tries(number)
        row = jnp.zeros(number.shape, jnp.float32) if size is None else size.total.value.astype(jnp.float32)
        sent = jnp.broadcast_to(iteration, number.shape)
        new = InFlight(message.payload, row, number, sent, fate, *_next(fate, iteration))
        first, second = (
            choose_rows(message.active & (number % 2 == parity), new, each) for parity, each in enumerate(flight)
        )
        return first, second

    def _land(
        self, flight: tuple[InFlight, InFlight], outbox: Outbox, iteration: jax.Array, now: Now
    ) -> tuple[Outbox, jax.Array, jax.Array]:
        """Return the messages of each link's round, which of them have arrived, and when they were sent."""
        number = self._round(outbox)
        even, odd = (jax.tree.map(lambda leaf: leaf[self.reverse], each) for each in flight)
        found = choose_rows(number % 2 == 0, even, odd)
        answered = jnp.where(number % 2 == 0, flight[0].round, flight[1].round) == number  # this end has sent its own
        arrived = answered & (found.round == number) & (found.arrival <= iteration)
        arrived = arrived & now.up & now.awake[self.local.owner]  # a silent link carries nothing
        return (Message(found.payload, True, arrived, round=found.round),), arrived, found.sent

    def score(self, state: FaultyState) -> dict[str, jax.Array]:
        """Return all metrics of a state, of the nodes that are there."""
        assert isinstance(self.target, PartsTarget)
        extra = {name: measure(state.method, self.problem) for name, measure in self.measures.items()}
        return {**score_parts(state.x, self.problem, self.target), **extra}


def _next(fate: Tries, iteration: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return when a message that is sent now is sent again, if it is lost, and when it arrives, if it is not."""
    lost = fate.lost > 0
    return jnp.where(lost, iteration + fate.pause, NEVER), jnp.where(lost, NEVER, iteration + fate.later)


def faulty(program: Program, conditions: Conditions, target: PartsTarget) -> FaultyProgram:
    """Return a program with faults."""
    values = {entry.name: getattr(program, entry.name) for entry in fields(program)}
    return FaultyProgram(**{**values, "target": target, "conditions": conditions})
