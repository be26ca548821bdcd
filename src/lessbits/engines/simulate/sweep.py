"""Many runs of one method at once, that differ in step sizes alone: the engine of tuning.

On a GPU, runs are lanes of one compiled program (`vmap`), in batches that fit memory. On a CPU batching gains no more
than noise: each run is a batch of its own, and as many as there are cores, and memory for, run side by side. All lanes
of a batch are at the same iteration with the same seed, so they share their random numbers and option D's coins. Lanes
that are done, have diverged or can no longer win leave: when half of a batch has left, the rest moves together.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.programs import make_room
from lessbits._internal.pytrees import on_cpu
from lessbits.codecs import make_codecs
from lessbits.codecs.frames import header_bytes
from lessbits.engines.checks import check_goal, check_run
from lessbits.engines.simulate.batch import empty_batch, run_batch, start_batch
from lessbits.engines.simulate.program import Program
from lessbits.engines.simulate.run import RECORDS_AT_ONCE, SECONDS_A_CHUNK
from lessbits.methods.base import Method, Start
from lessbits.networks import Network
from lessbits.problems.base import Problem

WIDEST = 128  # lanes of a batch on a GPU
MOST_WORKERS = 16
SHARE_OF_MEMORY = 0.25
CPU_MEMORY = 2**31  # bytes that batches on a CPU may take in all

Sizes = Mapping[str, float]


@dataclass(frozen=True)
class Budget:
    """When a run ends: at the target (`until` of `goal`), or when one of these is spent."""

    iterations: int
    epochs: float | None = None
    bits: float | None = None  # nominal, a link
    until: float | None = None
    goal: str = "error"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: what it had spent and reached by then."""

    sizes: dict[str, float]
    seed: int
    reached: bool
    diverged: bool
    cut: bool  # stopped because others had won
    iterations: int
    value: float  # of the goal
    error: float
    bits_per_link: float  # nominal
    epochs: float
    encoded: bool = False
    wire_bits_per_link: float = 0.0  # as encoded, with headers, if that was asked for


def sweep(
    problem: Problem,
    network: Network,
    method: Method,
    configurations: Sequence[Sizes],
    budget: Budget,
    seed: int = 0,
    record_every: int | None = None,
    limit: Callable[[], int] | None = None,
    finished: Callable[[Outcome], None] | None = None,
    width: int | None = None,
    encoded: bool = False,
) -> list[Outcome]:
    """Run the method once with each configuration of step sizes, and return how each run ended.

    `limit` tells from which iteration on a run has lost to others; `finished` is told of each outcome as it comes.
    `encoded` asks for the bits that are really sent, which takes a while to find.
    """
    make_room()
    names = list(configurations[0])
    for sizes in configurations:
        changed: Any = replace(method, **sizes)  # type: ignore[type-var]
        every = check_run(problem, network, changed, budget.iterations, budget.until, budget.goal, record_every)
    codecs = make_codecs(method.compressors, problem.dim, "entropy") if encoded else ()
    program = Program.of(problem, network, method, budget.iterations, seed, budget.until, every, None, codecs)
    constant = np.array([header_bytes(codec) + (codec.body_bytes or 0) for codec in codecs])
    memory = _lane_bytes(program, problem, network)
    width = width or default_width(len(configurations), memory)
    batches = [configurations[at : at + width] for at in range(0, len(configurations), width)]
    workers = default_workers(memory)
    stop = threading.Event()

    def run(batch: Sequence[Sizes]) -> list[Outcome]:
        return _Batch(
            program, problem, network, budget, names, list(batch), seed, limit, finished, stop, constant
        ).run()

    with ThreadPoolExecutor(workers) as pool:
        try:
            return [outcome for outcomes in pool.map(run, batches) for outcome in outcomes]
        except BaseException:  # an interrupt must not wait for runs that take minutes
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def default_workers(lane_bytes: int) -> int:
    """Batches side by side: on a CPU, whose batches have one lane, one a core as far as memory goes; else one."""
    if not on_cpu():
        return 1
    return max(1, min(MOST_WORKERS, os.cpu_count() or 1, CPU_MEMORY // max(lane_bytes, 1)))


def default_width(lanes: int, lane_bytes: int) -> int:
    """Lanes of a batch: one on a CPU, as many as fit on a GPU."""
    if on_cpu():
        return 1
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", CPU_MEMORY)
    return max(1, min(lanes, WIDEST, int(SHARE_OF_MEMORY * limit / lane_bytes)))


def _lane_bytes(program: Program, problem: Problem, network: Network) -> int:
    """About what a lane needs: its state twice, and a vector a link for each message."""
    shapes = jax.eval_shape(lambda: program.method.init(program.problem, program.local, Start()))
    state = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    return int(2 * state + len(program.method.compressors) * network.links * problem.dim * program.until.dtype.itemsize)


class _Batch:
    """Lanes that run together, and what each has spent."""

    def __init__(
        self,
        program: Program,
        problem: Problem,
        network: Network,
        budget: Budget,
        names: list[str],
        configurations: list[Sizes],
        seed: int,
        limit: Callable[[], int] | None,
        finished: Callable[[Outcome], None] | None,
        stop: threading.Event,
        constant: np.ndarray,
    ) -> None:
        self.stop, self.constant = stop, constant
        self.budget, self.configurations, self.seed = budget, configurations, seed
        self.limit, self.finished = limit or (lambda: budget.iterations), finished
        self.samples, self.links = problem.samples, network.links
        self.bits = np.array([compressor.bits(problem.dim) for compressor in program.method.compressors])
        self.lanes = np.arange(len(configurations))  # which configuration each lane runs
        kind = program.until.dtype
        self.sizes = {name: jnp.asarray([sizes[name] for sizes in configurations], kind) for name in names}
        state, first = start_batch(program, self.sizes)
        self.program = program.with_ceiling(float(np.max(np.asarray(first["error"]))))
        check_goal(budget.goal, budget.until, {budget.goal: first[budget.goal][0]}, program.target)
        count = len(configurations)
        self.batch = empty_batch(state, jnp.int32(0), count, len(self.bits), kind)
        # What each configuration has spent, and where it stood at the last look.
        self.epochs, self.spent, self.wire, self.value, self.error = np.zeros((5, count))
        self.outcomes: dict[int, Outcome] = {}
        target = -np.inf if budget.until is None else budget.until
        values, errors = np.asarray(first[budget.goal], float), np.asarray(first["error"], float)
        for lane in np.flatnonzero(values <= target):
            self.value[lane], self.error[lane] = values[lane], errors[lane]
            self._end(int(lane), 0, reached=True)

    def run(self) -> list[Outcome]:
        """Step until every lane has an outcome."""
        most = 1
        while len(self.outcomes) < len(self.configurations) and not self.stop.is_set():
            self._gather()
            last = max(1, min(self.limit(), self.budget.iterations))
            before = int(self.batch.iteration)
            if before >= last:
                self._cut(before)
                break
            clock = time.perf_counter()
            self.batch = jax.block_until_ready(
                run_batch(self.program.fit(before), self.sizes, self.batch, jnp.int32(most), self.budget.goal)
            )
            seconds = time.perf_counter() - clock
            self._look(before)
            speed = int(self.batch.records) / max(seconds, 1e-6)
            most = int(np.clip(speed * SECONDS_A_CHUNK, 1, min(4 * most, RECORDS_AT_ONCE)))
        return [self.outcomes[number] for number in range(len(self.configurations)) if number in self.outcomes]

    def _look(self, before: int) -> None:
        """Find the lanes that ended, and where."""
        taken, end = int(self.batch.records), int(self.batch.iteration)
        every = int(self.program.record_every)
        ends = np.minimum(before + every * np.arange(1, taken + 1), end)
        values, errors = (np.asarray(array, float)[:taken] for array in (self.batch.values, self.batch.errors))
        work = np.cumsum(np.asarray(self.batch.work, np.int64)[:taken], axis=0) / self.samples
        sent = np.cumsum(np.asarray(self.batch.sent, np.int64)[:taken], axis=0)
        bits = sent @ self.bits / self.links
        varying = np.cumsum(np.asarray(self.batch.bytes, float)[:taken], axis=0).sum(axis=-1)
        wire = 8 * (sent @ self.constant + varying) / self.links if self.constant.size else np.zeros_like(varying)
        budget, target = self.budget, -np.inf if self.budget.until is None else self.budget.until
        for lane, number in enumerate(self.lanes):
            if number < 0 or number in self.outcomes:
                continue
            epochs, spent = self.epochs[number] + work[:, lane], self.spent[number] + bits[:, lane]
            reached = values[:, lane] <= target
            lost = ~(errors[:, lane] <= float(self.program.ceiling))  # NaN too
            over = ends >= budget.iterations
            over |= epochs >= (np.inf if budget.epochs is None else budget.epochs)
            over |= spent >= (np.inf if budget.bits is None else budget.bits)
            stops = np.flatnonzero(reached | lost | over)
            at = stops[0] if len(stops) else taken - 1
            self.epochs[number], self.spent[number] = epochs[at], spent[at]
            self.wire[number] += wire[at, lane]
            self.value[number], self.error[number] = values[at, lane], errors[at, lane]
            if len(stops):
                self._end(int(number), int(ends[at]), reached=bool(reached[at]), diverged=bool(lost[at]))

    def _cut(self, iteration: int) -> None:
        """End the lanes that others have beaten."""
        for number in range(len(self.configurations)):
            if number not in self.outcomes:
                self._end(number, iteration, cut=True)

    def _end(
        self, number: int, iteration: int, reached: bool = False, diverged: bool = False, cut: bool = False
    ) -> None:
        outcome = Outcome(
            {name: float(size) for name, size in self.configurations[number].items()},
            self.seed,
            reached,
            diverged,
            cut,
            iteration,
            float(self.value[number]),
            float(self.error[number]),
            float(self.spent[number]),
            float(self.epochs[number]),
            bool(self.constant.size),
            float(self.wire[number]),
        )
        self.outcomes[number] = outcome
        if self.finished is not None:
            self.finished(outcome)

    def _gather(self) -> None:
        """When half of the lanes have left, move the rest together; widths are powers of two: few programs."""
        alive = np.array(
            [lane for lane, number in enumerate(self.lanes) if number >= 0 and number not in self.outcomes]
        )
        width = 1 << (len(alive) - 1).bit_length()
        if 2 * width > len(self.lanes):
            return
        kept = np.concatenate([alive, np.repeat(alive[:1], width - len(alive))])  # filled up with any, which count for
        self.lanes = np.where(np.arange(width) < len(alive), self.lanes[kept], -1)  # no configuration
        self.sizes = {name: size[kept] for name, size in self.sizes.items()}
        state = jax.tree.map(lambda leaf: leaf[kept], self.batch.state)
        self.batch = empty_batch(state, self.batch.iteration, width, len(self.bits), self.program.until.dtype)
