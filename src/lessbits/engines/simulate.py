"""The simulator: all nodes in one process; a message is a row that another node reads."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits.engines.checks import check_goal, check_run, check_start
from lessbits.engines.progress import Progress
from lessbits.engines.scoring import Target, score
from lessbits.engines.trace import LinkModel, Recorder, Trace
from lessbits.methods.base import Message, Method, Outbox, Start, State
from lessbits.networks import Network
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.pytrees import pytree, take_rows
from lessbits.randomness import Step, make_seed

RECORDS_AT_ONCE = 1024  # a chunk's buffers; how many of them are filled is decided by the clock
SECONDS_A_CHUNK = 0.25  # how often the progress bar moves and Ctrl-C is heard
DIVERGED = 1e8  # an error this many times the first one will not come back

Measure = Callable[[State, Problem], jax.Array]  # a pytree, called inside the compiled loop


@pytree
class Arena:
    """Everything that stays fixed during a run, as arguments of the compiled loop, so that nothing recompiles."""

    problem: Problem
    method: Method
    local: LocalNetwork
    reverse: jax.Array
    target: Target
    measures: dict[str, Any]
    seed: jax.Array
    iterations: jax.Array
    record_every: jax.Array
    until: jax.Array  # stop when the goal is at most this
    ceiling: jax.Array  # or when the error is above this

    @classmethod
    def of(
        cls,
        problem: Problem,
        network: Network,
        method: Method,
        iterations: int,
        seed: int,
        until: float | None,
        record_every: int,
        measures: Mapping[str, Measure] | None = None,
    ) -> "Arena":
        """Gather them; the ceiling is known when the run has started."""
        real = partial(jnp.asarray, dtype=jnp.result_type(float))
        return cls(
            method.prepare(problem),
            method,
            LocalNetwork.of(network),
            jnp.asarray(network.reverse, jnp.int32),
            Target.of(problem),
            dict(measures or {}),
            make_seed(seed),
            jnp.int32(iterations),
            jnp.int32(record_every),
            real(-jnp.inf if until is None else until),
            real(jnp.inf),
        )

    def with_ceiling(self, first_error: float) -> "Arena":
        """Say from which error on a run has diverged."""
        return replace(
            self, ceiling=jnp.asarray(DIVERGED * max(first_error, float(self.target.scale)), self.until.dtype)
        )

    def iterate(self, state: State, iteration: jax.Array) -> tuple[State, jax.Array, jax.Array]:
        """One iteration: send, exchange, receive.

        Also return the sample gradients taken and whether there were any (a method may need several exchanges for one
        gradient), and messages sent, by message.
        """
        step = Step(self.seed, iteration)
        state, outbox, work = self.method.send(step, state, self.problem, self.local)
        state = self.method.receive(step, state, outbox, self.exchange(outbox), self.local)
        total = work.sum(dtype=jnp.int32)
        return (
            state,
            jnp.stack([total, (total > 0).astype(jnp.int32)]),
            jnp.stack([self._sent(message) for message in outbox]),
        )

    def exchange(self, outbox: Outbox) -> Outbox:
        """Return, link for link, what came along the reverse links."""
        return tuple(self._arrived(message) for message in outbox)

    def _arrived(self, message: Message) -> Message:
        source = self.reverse if message.per_link else self.local.neighbor
        active = None if message.active is None else message.active[source]
        return Message(take_rows(message.payload, source), True, active)

    def _sent(self, message: Message) -> jax.Array:
        links = self.local.links.shape[0]
        if message.active is None:
            return jnp.int32(links)
        return jnp.sum(message.active if message.per_link else message.active[self.local.owner], dtype=jnp.int32)

    def score(self, state: State) -> dict[str, jax.Array]:
        """All metrics of a state."""
        extra = {name: measure(state, self.problem) for name, measure in self.measures.items()}
        return {**score(state.x, self.problem, self.target), **extra}


class Chunk(NamedTuple):
    """Where a run is, and the records since the last look: metrics, sample gradients and messages of each."""

    state: State
    iteration: jax.Array
    records: jax.Array
    stop: jax.Array
    metrics: dict[str, jax.Array]
    work: jax.Array
    sent: jax.Array


@partial(jax.jit, static_argnames=("goal",))
def _run_chunk(arena: Arena, chunk: Chunk, most: jax.Array, goal: str) -> Chunk:
    """Run up to `most` records of `record_every` iterations each; stop at the goal, at the end, or on divergence."""

    def iterate(index: jax.Array, carry: tuple[State, jax.Array, jax.Array]) -> tuple[State, jax.Array, jax.Array]:
        state, work, sent = carry
        state, more_work, more_sent = arena.iterate(state, index)
        return state, work + more_work, sent + more_sent

    def record(chunk: Chunk) -> Chunk:
        end = jnp.minimum(chunk.iteration + arena.record_every, arena.iterations)
        nothing = (jnp.zeros(2, jnp.int32), jnp.zeros(chunk.sent.shape[1], jnp.int32))
        state, work, sent = lax.fori_loop(chunk.iteration, end, iterate, (chunk.state, *nothing))
        metrics = arena.score(state)
        reached = metrics[goal] <= arena.until
        lost = ~(metrics["error"] <= arena.ceiling)  # NaN too
        at = chunk.records
        return Chunk(
            state,
            end,
            at + 1,
            reached | lost | (end >= arena.iterations),
            {name: chunk.metrics[name].at[at].set(value) for name, value in metrics.items()},
            chunk.work.at[at].set(work),
            chunk.sent.at[at].set(sent),
        )

    chunk = chunk._replace(records=jnp.int32(0))
    return lax.while_loop(lambda chunk: (chunk.records < most) & ~chunk.stop, record, chunk)


@jax.jit
def _begin(arena: Arena, start: Start) -> tuple[State, dict[str, jax.Array]]:
    state = arena.method.init(arena.problem, arena.local, start)
    return state, arena.score(state)


def simulate(
    problem: Problem,
    network: Network,
    method: Method,
    iterations: int,
    seed: int = 0,
    until: float | None = None,
    goal: str = "error",
    record_every: int | None = None,
    start: Start | None = None,
    measures: Mapping[str, Measure] | None = None,
    link_model: LinkModel | None = None,
    progress: bool = False,
) -> Trace:
    """Run a method on a problem over a network, and return what was recorded.

    Stops after `iterations`, as soon as the `goal` ("error", "suboptimality" or "consensus") is at most `until`, or on
    divergence. Metrics are recorded every `record_every` iterations (see `record_interval`), and `until` is looked at
    then. The same seed gives the same run, bit for bit.
    """
    record_every = check_run(problem, network, method, iterations, until, goal, record_every)
    arena = Arena.of(problem, network, method, iterations, seed, until, record_every, measures)
    start = check_start(start, problem)
    started = time.perf_counter()
    state, first = _begin(arena, start)
    arena = arena.with_ceiling(float(first["error"]))
    check_goal(goal, until, first, arena.target)
    chunk = Chunk(
        state,
        jnp.int32(0),
        jnp.int32(0),
        first[goal] <= arena.until,
        {name: jnp.zeros(RECORDS_AT_ONCE, value.dtype) for name, value in first.items()},
        jnp.zeros((RECORDS_AT_ONCE, 2), jnp.int32),
        jnp.zeros((RECORDS_AT_ONCE, len(method.compressors)), jnp.int32),
    )
    chunk = jax.block_until_ready(_run_chunk(arena, chunk, jnp.int32(0), goal))  # compiles, and runs nothing
    compile_seconds = time.perf_counter() - started

    bits = [compressor.bits(problem.dim) for compressor in method.compressors]
    recorder = Recorder(first, bits, network.links, network.nodes, problem.samples)
    most = 1
    with Progress(iterations, progress) as bar:
        while not bool(chunk.stop):
            clock = time.perf_counter()
            chunk = jax.block_until_ready(_run_chunk(arena, chunk, jnp.int32(most), goal))
            seconds = time.perf_counter() - clock
            _record(recorder, chunk, iterations, record_every, seconds)
            # Aim at chunks of equal time, growing at most fourfold: the first may be slow for other reasons.
            speed = int(chunk.records) / max(seconds, 1e-6)
            most = int(np.clip(speed * SECONDS_A_CHUNK, 1, min(4 * most, RECORDS_AT_ONCE)))
            bar.show(int(chunk.iteration), recorder.last("error"), recorder.bits_per_link())
    return _finish(recorder, chunk, arena, until, goal, link_model, compile_seconds)


def _record(recorder: Recorder, chunk: Chunk, iterations: int, record_every: int, seconds: float) -> None:
    taken, end = int(chunk.records), int(chunk.iteration)
    # All records are `record_every` apart but the last of a run, which may be nearer.
    ends = np.minimum((end - 1) // record_every * record_every + record_every * np.arange(2 - taken, 2), iterations)
    metrics = {name: np.asarray(values)[:taken] for name, values in chunk.metrics.items()}
    recorder.extend(metrics, ends, np.asarray(chunk.work)[:taken], np.asarray(chunk.sent)[:taken], seconds)


def _finish(
    recorder: Recorder,
    chunk: Chunk,
    arena: Arena,
    until: float | None,
    goal: str,
    link_model: LinkModel | None,
    compile_seconds: float,
) -> Trace:
    iteration, error = int(chunk.iteration), recorder.last("error")
    converged = until is not None and recorder.last(goal) <= until
    diverged = not error <= float(arena.ceiling)
    if diverged:
        name = arena.method.suspect(arena.problem)
        message = (
            f"diverged at iteration {iteration} (error {error:.2g}): lower {name}, now {getattr(arena.method, name):g}"
        )
    elif converged:
        every = int(arena.record_every)
        message = f"reached {goal} {recorder.last(goal):.3g} at iteration {iteration}"
        message += "" if every == 1 else f" (looked at every {every})"
    else:
        message = f"stopped after {iteration} iterations with {goal} {recorder.last(goal):.3g}"
        message += "" if until is None else f", above {until:g}"
    x = np.asarray(chunk.state.x)
    return Trace(recorder.columns(link_model), x, converged, diverged, message, compile_seconds)
