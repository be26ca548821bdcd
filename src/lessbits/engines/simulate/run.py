"""The simulator: all nodes in one process. A message is a row of an array that another node reads."""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.axes import Axis
from lessbits._internal.keyword_options import read_options, takes_options
from lessbits._internal.logging import say_if_slow
from lessbits._internal.memory import memory_in_a_line
from lessbits._internal.programs import make_room
from lessbits._internal.pytrees import put
from lessbits.codecs import make_codecs
from lessbits.engines.checks import check_distance, check_goal, check_measured, check_measures
from lessbits.engines.distributed.stepwise import run_stepwise
from lessbits.engines.distributed.transport import SingleProcess
from lessbits.engines.interrupts import Interrupts
from lessbits.engines.options import RunKeywords, RunOptions
from lessbits.engines.recording.checkpoints import folder_held
from lessbits.engines.recording.progress import Progress
from lessbits.engines.recording.recorder import Recorder
from lessbits.engines.recording.trace import Trace
from lessbits.engines.schedule import Throttle
from lessbits.engines.simulate.chunks import ChunkRecorder
from lessbits.engines.simulate.course import Course
from lessbits.engines.simulate.devices import choose_devices, shard_rows
from lessbits.engines.simulate.program import Measure, Program, RecordTally
from lessbits.engines.stopping import Ending, finish
from lessbits.errors import InputError, check_flag
from lessbits.methods.base import Method, Start, State
from lessbits.networks import Network
from lessbits.problems.base import Problem

RECORDS_AT_ONCE = 1024  # size of the buffers of a chunk; the throttle decides how many records are filled


class Chunk(NamedTuple):
    """The state of a run, and its records since the host last read them."""

    state: Annotated[State, Axis.NODE]
    iteration: jax.Array
    records: jax.Array
    stop: jax.Array
    metrics: dict[str, jax.Array]
    tally: RecordTally


@partial(jax.jit, donate_argnames=("chunk",))  # so that memory holds only one state
def _run_chunk(program: Program, chunk: Chunk, most: jax.Array) -> Chunk:
    """Run up to `most` records of `record_every` iterations each, or until the run ends."""

    def record(chunk: Chunk) -> Chunk:
        end = program.end_of_record(chunk.iteration)
        state, tally = program.advance(chunk.state, chunk.iteration, end)
        metrics = program.score(state)
        at = chunk.records
        return Chunk(
            state,
            end,
            at + 1,
            program.stop.ends(metrics, end),
            {name: chunk.metrics[name].at[at].set(value) for name, value in metrics.items()},
            jax.tree.map(lambda rows, row: rows.at[at].set(row), chunk.tally, tally),
        )

    chunk = chunk._replace(records=jnp.int32(0))

    def unfinished(chunk: Chunk) -> jax.Array:
        return (chunk.records < most) & ~chunk.stop & program.has_next_record(chunk.iteration)

    return lax.while_loop(unfinished, record, chunk)


@jax.jit
def _begin(program: Program, start: Start) -> tuple[State, dict[str, jax.Array]]:
    state = program.begin(start)
    # Copies, as the state is donated to the loop: its memory must not be the problem's.
    return jax.tree.map(jnp.copy, state), program.score(state)


@takes_options(RunOptions)
@memory_in_a_line()
def simulate(
    problem: Problem,
    network: Network,
    method: Method,
    *,
    measures: Mapping[str, Measure] | None = None,
    encode: bool = False,
    devices: int | None = None,
    **options: Unpack[RunKeywords],
) -> Trace:
    """Run a method on a problem over a network, and return its trace.

    The run stops after `iterations`, as soon as the `goal` is at most `until`, or on divergence. An interrupt writes a
    last checkpoint, and raises `Interrupted`, which has the trace so far.

    Args:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        method: The method, with its step sizes; make one with `make_method` or `primal_dual`.
        measures: Further metrics to record, by name: functions, or pytrees, that map (state, problem) to a number.
        encode: Encode and decode every message, as between real processes: slower, but the number of bytes is exact.
        devices: How many of JAX's devices share the nodes. By default only large problems use several.
        **options: The fields of `RunOptions`: iterations, seed, until, record_every and so on.

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=20, dim=50), lessbits.make_network("star", nodes=20)
        >>> method = lessbits.primal_dual(problem, network, "dit-4", theta=1.58, eta=1)
        >>> trace = simulate(problem, network, method, iterations=1000, until=1e-3)
        >>> trace.converged, bool(trace["error"][-1] <= 1e-3)
        (True, True)
    """
    run_options = read_options(RunOptions, options, "simulate")
    if check_flag("encode", encode):
        if measures:
            raise InputError("further measures were given with encode: they need a run without it")
        return run_stepwise(problem, network, method, SingleProcess(), run_options)
    make_room()
    run_options = run_options.checked(problem, network, method)
    measures = check_measures(measures, run_options.metrics)
    with folder_held(run_options.checkpoints, SingleProcess()):
        return _simulate(problem, network, method, run_options, measures, devices)


def _simulate(
    problem: Problem,
    network: Network,
    method: Method,
    run_options: RunOptions,
    measures: Mapping[str, Measure] | None,
    devices: int | None,
) -> Trace:
    """Run with options that are checked."""
    assert run_options.start is not None
    codecs = make_codecs(method.compressors, method.message_lengths(problem.dim), run_options.code)
    devices = choose_devices(devices, network.nodes, problem.dim)
    program, course = Program.of(problem, network, method, run_options, measures, codecs), None
    if run_options.faults is not None:
        course = Course(program, problem, network, run_options, devices)
        program = course.program
    program = shard_rows(program, devices)
    clock = time.perf_counter()
    state, first = _begin(program, run_options.start)
    problem.raise_failure()
    check_measured(first, measures or ())
    program = program.started(first)
    check_goal(run_options.goal, run_options.until, first, program.target)
    check_distance(first, method)
    recorder = Recorder({**first, **({} if course is None else course.first())}, problem, network, method)
    chunks = ChunkRecorder(run_options, recorder, codecs)
    state, iteration = chunks.resume(state, problem, network, method)
    if course is not None:
        program, state = course.enter(program, state, iteration)
        chunks.add_copies(course.take_copies(), state.x)
    rule = program.stop.on_host()
    if course is not None and course.begins_at(iteration):
        rule = replace(rule, until=-np.inf)  # what was reached before an event does not count after it
    stop = rule.ends({name: recorder.last(name) for name in first}, iteration)
    chunk = shard_rows(_first_chunk(state, iteration, stop, first, program), devices)
    with say_if_slow("compiling the run"):
        for variant in program.variants(iteration):
            chunk = jax.block_until_ready(_run_chunk(variant, chunk, put(0, np.int32)))  # only compiles
    compile_seconds = time.perf_counter() - clock
    program, chunk, interrupted = _run(program, chunk, chunks, run_options, course)
    if interrupted:
        chunks.save(chunk)
    x, iteration = np.asarray(chunk.state.x), int(chunk.iteration)
    part_ends = [] if course is None else course.part_ends(program, x, iteration)
    ending = Ending(x, iteration, compile_seconds, interrupted, part_ends)
    return finish(run_options, program.stop, recorder, method, problem, ending)


def _first_chunk(state: State, iteration: int, stop: bool, first: Mapping[str, jax.Array], program: Program) -> Chunk:
    return Chunk(
        state,
        put(iteration, np.int32),
        put(0, np.int32),
        put(stop, np.bool_),
        {name: put(np.zeros(RECORDS_AT_ONCE), first[name].dtype) for name in program.columns},
        RecordTally.zeros(len(program.method.compressors), program.fault_counts, RECORDS_AT_ONCE),
    )


def _run(
    program: Program, chunk: Chunk, chunks: ChunkRecorder, options: RunOptions, course: Course | None
) -> tuple[Program, Chunk, bool]:
    """Run chunk after chunk until the run ends; return the last program and chunk, and whether it was interrupted."""
    throttle, recorder, iteration = Throttle(RECORDS_AT_ONCE), chunks.recorder, int(chunk.iteration)
    with Interrupts(options.stop) as interrupts, Progress(options, iteration) as bar:
        while not bool(chunk.stop) and not interrupts.asked:
            most = chunks.at_most(iteration, throttle.amount)
            clock = time.perf_counter()
            chunk = jax.block_until_ready(_run_chunk(program.fit(iteration), chunk, put(most, np.int32)))
            seconds = time.perf_counter() - clock
            program.problem.raise_failure()
            chunks.record(chunk, seconds)
            iteration = int(chunk.iteration)
            throttle.update(seconds / max(int(chunk.records), 1))
            bar.show(iteration, recorder.last, recorder.wire_bits_per_link())
            event = course is not None and bool(chunk.stop) and course.goes_on(program, recorder, iteration)
            chunks.save_if_due(chunk, ended=bool(chunk.stop) and not event)
            if course is not None and event:
                program, state = course.enter(program, chunk.state, iteration)
                chunks.add_copies(course.take_copies(), state.x)
                chunk = chunk._replace(state=state, stop=put(False, np.bool_))
    return program, chunk, not bool(chunk.stop)
