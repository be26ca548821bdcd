"""The simulator: all nodes in one process; a message is a row that another node reads."""

import time
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.programs import make_room
from lessbits._internal.pytrees import put
from lessbits.codecs import make_codecs
from lessbits.engines.checks import check_goal, check_run, check_start
from lessbits.engines.distributed.stepwise import run_stepwise
from lessbits.engines.distributed.transport import SingleProcess
from lessbits.engines.interrupts import Interrupted, Interrupts
from lessbits.engines.recording.checkpoints import Checkpoints
from lessbits.engines.recording.progress import Progress, ProgressOption
from lessbits.engines.recording.recorder import Recorder
from lessbits.engines.recording.trace import LinkModel, Trace
from lessbits.engines.simulate.chunks import ChunkRecorder
from lessbits.engines.simulate.devices import choose_devices, shard_rows
from lessbits.engines.simulate.program import Measure, Program, RecordTally
from lessbits.engines.stopping import finish
from lessbits.errors import InputError
from lessbits.methods.base import Method, Start, State
from lessbits.networks import Network
from lessbits.problems.base import Problem

RECORDS_AT_ONCE = 1024  # a chunk's buffers; how many of them are filled is decided by the clock
SECONDS_A_CHUNK = 0.25  # how often the progress bar moves and Ctrl-C is heard


class Chunk(NamedTuple):
    """Where a run is, and the records since the last look."""

    state: State
    iteration: jax.Array
    records: jax.Array
    stop: jax.Array
    metrics: dict[str, jax.Array]
    spent: RecordTally


@partial(jax.jit, static_argnames=("goal",), donate_argnames=("chunk",))  # one state at a time is in memory
def _run_chunk(program: Program, chunk: Chunk, most: jax.Array, goal: str) -> Chunk:
    """Run up to `most` records of `record_every` iterations each; stop at the goal, at the end, or on divergence."""

    def record(chunk: Chunk) -> Chunk:
        end = program.end_of_record(chunk.iteration)
        state, spent = program.advance(chunk.state, chunk.iteration, end)
        metrics = program.score(state)
        reached = metrics[goal] <= program.until
        lost = ~(metrics["error"] <= program.ceiling)  # NaN too
        at = chunk.records
        return Chunk(
            state,
            end,
            at + 1,
            reached | lost | (end >= program.iterations),
            {name: chunk.metrics[name].at[at].set(value) for name, value in metrics.items()},
            jax.tree.map(lambda rows, row: rows.at[at].set(row), chunk.spent, spent),
        )

    chunk = chunk._replace(records=jnp.int32(0))

    def goes_on(chunk: Chunk) -> jax.Array:
        return (chunk.records < most) & ~chunk.stop & program.goes_on(chunk.iteration)

    return lax.while_loop(goes_on, record, chunk)


@jax.jit
def _begin(program: Program, start: Start) -> tuple[State, dict[str, jax.Array]]:
    state = program.method.init(program.problem, program.local, start)
    # Copies: the run reuses a state's memory, which must not be the problem's.
    return jax.tree.map(jnp.copy, state), program.score(state)


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
    progress: ProgressOption = False,
    code: str = "entropy",
    encode: bool = False,
    checkpoints: Checkpoints | None = None,
    devices: int | None = None,
) -> Trace:
    """Run a method on a problem over a network, and return what was recorded.

    Stops after `iterations`, as soon as the `goal` ("error", "suboptimality" or "consensus") is at most `until`, or on
    divergence. Metrics are recorded every `record_every` iterations (see `record_interval`), and `until` is looked at
    then. The same seed gives the same run, bit for bit.

    `code` says how levels are written as bytes: "entropy", whose length the loop finds from a model, or "fixed". With
    `encode` every message is really encoded, as between real processes: slower, and the bytes are exact. An interrupt
    raises `Interrupted`, which has the trace so far, when the last checkpoint is written.

    `progress` shows a bar (lines, where standard error is no terminal), or calls your function with a `ProgressState`.

    `devices` of those that JAX has share the nodes; by default as many as a large problem keeps busy.

    >>> import lessbits
    >>> problem, network = lessbits.Consensus.random(nodes=20, dim=50), lessbits.make_network("star", nodes=20)
    >>> method = lessbits.primal_dual(problem, network, "dit-4", theta=1.58, eta=1)
    >>> trace = simulate(problem, network, method, iterations=1000, until=1e-3)
    >>> trace.converged, bool(trace["error"][-1] <= 1e-3)
    (True, True)
    """
    if encode:
        if measures:
            raise InputError("further measures were given with encode: they need a run without it")
        return run_stepwise(
            problem,
            network,
            method,
            iterations,
            SingleProcess(),
            seed,
            until,
            goal,
            record_every,
            start,
            link_model,
            progress,
            code,
            checkpoints,
        )
    make_room()
    record_every = check_run(problem, network, method, iterations, until, goal, record_every)
    codecs = make_codecs(method.compressors, problem.dim, code)
    devices, rows = choose_devices(devices, network.nodes, problem.dim), (network.nodes, network.links)
    program = Program.of(problem, network, method, iterations, seed, until, record_every, measures, codecs)
    program, start = shard_rows(program, devices, rows), check_start(start, problem)
    started = time.perf_counter()
    state, first = _begin(program, start)
    program = program.with_ceiling(float(first["error"]))
    check_goal(goal, until, first, program.target)
    recorder = Recorder(first, problem, network, method)
    chunk_recorder = ChunkRecorder(checkpoints, recorder, codecs, record_every)
    iteration = 0
    if checkpoints is not None:
        state, iteration = chunk_recorder.resume(state, problem, network, method, seed)
    reached, lost = recorder.last(goal) <= float(program.until), not recorder.last("error") <= float(program.ceiling)
    chunk = Chunk(
        state,
        put(iteration, np.int32),
        put(0, np.int32),
        put(reached or lost or iteration >= iterations, np.bool_),
        {name: put(np.zeros(RECORDS_AT_ONCE), value.dtype) for name, value in first.items()},
        RecordTally.nothing(len(codecs), RECORDS_AT_ONCE),
    )
    chunk = shard_rows(chunk, devices, rows)
    for each in program.programs(iteration):
        chunk = jax.block_until_ready(_run_chunk(each, chunk, put(0, np.int32), goal))  # only compiles
    compile_seconds = time.perf_counter() - started

    most = 1
    with Interrupts() as interrupts, Progress(iterations, progress, until, goal, iteration) as bar:
        while not bool(chunk.stop) and not interrupts.asked:
            clock = time.perf_counter()
            chunk = jax.block_until_ready(_run_chunk(program.fit(iteration), chunk, put(most, np.int32), goal))
            seconds = time.perf_counter() - clock
            chunk_recorder.record(chunk, iterations, seconds)
            # Aim at chunks of equal time, growing at most fourfold: the first may be slow for other reasons.
            iteration, speed = int(chunk.iteration), int(chunk.records) / max(seconds, 1e-6)
            most = int(np.clip(speed * SECONDS_A_CHUNK, 1, min(4 * most, RECORDS_AT_ONCE)))
            most = chunk_recorder.at_most(iteration, most)
            bar.show(iteration, recorder.last, recorder.wire_bits_per_link())
        interrupted = not bool(chunk.stop)
    if interrupted:
        chunk_recorder.save(chunk)
    trace = finish(
        recorder,
        np.asarray(chunk.state.x),
        int(chunk.iteration),
        record_every,
        float(program.ceiling),
        method,
        program.problem,
        until,
        goal,
        link_model,
        compile_seconds,
        interrupted,
    )
    if interrupted:
        raise Interrupted(trace)
    return trace
