"""Many runs of one method that differ only in step sizes: the engine of tuning.

On a GPU, runs are lanes of one compiled program (`vmap`), in batches that fit memory. On a CPU batching gains nothing
measurable: each run is a batch of its own, and batches run in parallel, as many as cores and memory allow. All lanes of
a batch are at the same iteration with the same seed, so they share their random numbers and option D's coins. Lanes
leave the batch when they are done, have diverged or can no longer win. When half of a batch has left, it is compacted.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.precision import in_this_precision
from lessbits._internal.programs import make_room
from lessbits._internal.pytrees import on_cpu
from lessbits.codecs import make_codecs
from lessbits.codecs.base import Codec
from lessbits.codecs.frames import header_bytes
from lessbits.engines.checks import Metric, check_goal
from lessbits.engines.options import RunOptions
from lessbits.engines.schedule import Throttle, record_ends
from lessbits.engines.simulate.batch import empty_batch, run_batch, start_batch
from lessbits.engines.simulate.program import Program
from lessbits.engines.simulate.run import RECORDS_AT_ONCE
from lessbits.methods.base import Method, Start
from lessbits.methods.common import nominal_bits
from lessbits.networks import Network
from lessbits.problems.base import Problem

WIDEST = 128  # lanes of a batch on a GPU
MOST_WORKERS = 16
SHARE_OF_MEMORY = 0.25
CPU_MEMORY = 2**31  # bytes that batches on a CPU may take in all

Sizes = Mapping[str, float]


@dataclass(frozen=True)
class Budget:
    """When a run ends: at the target (`until` of `goal`), or when one of the other fields is spent."""

    iterations: int
    epochs: float | None = None
    bits: float | None = None  # nominal, per link
    until: float | None = None
    goal: str | None = "error"  # None for the default of `RunOptions`

    def is_spent(self, epochs: np.ndarray, bits: np.ndarray) -> np.ndarray:
        """Return, for each record, whether the epochs or the bits per link are spent."""
        most_epochs = np.inf if self.epochs is None else self.epochs
        return (epochs >= most_epochs) | (bits >= (np.inf if self.bits is None else self.bits))


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what it had spent and reached by then."""

    sizes: dict[str, float]
    seed: int
    reached: bool
    diverged: bool
    cut: bool  # whether it was stopped because others had won
    iterations: int
    value: float  # of the goal
    error: float  # NaN if the problem declines x*
    bits_per_link: float  # nominal
    epochs: float
    encoded: bool = False
    wire_bits_per_link: float = 0.0  # encoded, with headers; 0 unless `encoded`


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep.

    Attributes:
        seed: Seed of every run.
        record_every: Iterations between two records; by default as for a single run.
        limit: Callback that returns the iteration from which on a run has lost to others.
        finished: Callback that takes each outcome when its run ends.
        width: Runs per batch; by default one on a CPU, and as many as fit on a GPU.
        encoded: Whether to compute the encoded bits too, which takes longer.
        metrics: Metrics of the user's own, as in `RunOptions`; one may be the goal.
    """

    seed: int = 0
    record_every: int | None = None
    limit: Callable[[], int] | None = None
    finished: Callable[[Outcome], None] | None = None
    width: int | None = None
    encoded: bool = False
    metrics: Mapping[str, Metric] | None = None


def sweep(
    problem: Problem,
    network: Network,
    method: Method,
    configurations: Sequence[Sizes],
    budget: Budget,
    options: SweepOptions | None = None,
) -> list[Outcome]:
    """Run the method once with each configuration of step sizes, and return how each run ended."""
    make_room()
    options = options or SweepOptions()
    run_options = RunOptions(
        iterations=budget.iterations,
        seed=options.seed,
        until=budget.until,
        goal=budget.goal,
        record_every=options.record_every,
        metrics=options.metrics,
    )
    for sizes in configurations:
        checked = run_options.checked(problem, network, replace(method, **sizes))  # type: ignore[type-var]
    codecs = make_codecs(method.compressors, method.message_lengths(problem.dim), "entropy") if options.encoded else ()
    program = Program.of(problem, network, method, checked, codecs=codecs)
    memory = _lane_bytes(program, problem, network)
    width = options.width or default_width(len(configurations), memory)
    batches = [list(configurations[at : at + width]) for at in range(0, len(configurations), width)]
    shared = _Sweep(program, problem, network, replace(budget, goal=checked.goal), options, codecs)
    with ThreadPoolExecutor(default_workers(memory)) as pool:
        try:
            runs = pool.map(in_this_precision(lambda batch: _Batch(shared, batch).run()), batches)
            return [outcome for outcomes in runs for outcome in outcomes]
        except BaseException:  # an interrupt must not wait for runs that take minutes
            shared.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def default_workers(lane_bytes: int) -> int:
    """Return the number of parallel batches: on a CPU one per core if memory allows, else one."""
    if not on_cpu():
        return 1
    return max(1, min(MOST_WORKERS, os.cpu_count() or 1, CPU_MEMORY // max(lane_bytes, 1)))


def default_width(lanes: int, lane_bytes: int) -> int:
    """Return the number of lanes per batch: one on a CPU, as many as fit on a GPU."""
    if on_cpu():
        return 1
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", CPU_MEMORY)
    return max(1, min(lanes, WIDEST, int(SHARE_OF_MEMORY * limit / lane_bytes)))


def _lane_bytes(program: Program, problem: Problem, network: Network) -> int:
    """Return about how many bytes a lane needs: its state twice, and one vector per link and message."""
    shapes = jax.eval_shape(lambda: program.method.init(program.problem, program.local, Start()))
    state = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    messages = sum(program.method.message_lengths(problem.dim)) * network.links
    return int(2 * state + messages * jnp.dtype(jnp.result_type(float)).itemsize)


class _Sweep:
    """The data that all batches of a sweep share."""

    def __init__(
        self,
        program: Program,
        problem: Problem,
        network: Network,
        budget: Budget,
        options: SweepOptions,
        codecs: Sequence[Codec],
    ) -> None:
        self.program, self.budget, self.options = program, budget, options
        self.samples, self.links = problem.samples, network.links
        self.message_bits = np.array(nominal_bits(program.method, problem.dim))
        # Bytes of a message that do not depend on its contents; empty without `encoded`.
        self.constant = np.array([header_bytes(codec) + (codec.body_bytes or 0) for codec in codecs])
        self.stop = threading.Event()

    def limit(self) -> int:
        """Return the iteration from which on a run has lost."""
        return self.budget.iterations if self.options.limit is None else self.options.limit()


class _Batch:
    """Lanes that run together, and what each has spent."""

    def __init__(self, sweep: _Sweep, configurations: list[Sizes]) -> None:
        self.sweep, self.budget, self.configurations = sweep, sweep.budget, configurations
        program, budget, count = sweep.program, sweep.budget, len(configurations)
        self.goal = budget.goal or "error"  # resolved by `sweep`
        self.lanes = np.arange(count)  # which configuration each lane runs
        kind = jnp.result_type(float)
        self.sizes = {name: jnp.asarray([sizes[name] for sizes in configurations], kind) for name in configurations[0]}
        state, first = start_batch(program, self.sizes)
        program.problem.raise_failure()
        self.program = program.started({name: np.max(np.asarray(values)) for name, values in first.items()})
        self.rule = self.program.stop.on_host()
        check_goal(self.goal, budget.until, {name: values[0] for name, values in first.items()}, program.target)
        self.batch = empty_batch(state, jnp.int32(0), count, program)
        # What each configuration has spent and reached at its last record.
        self.epochs, self.spent, self.wire, self.value, self.error = np.zeros((5, count))
        self.outcomes: dict[int, Outcome] = {}
        values, errors = (np.asarray(first.get(name, np.full(count, np.nan)), float) for name in (self.goal, "error"))
        for lane in np.flatnonzero(self.rule.reached({self.goal: values})):
            self.value[lane], self.error[lane] = values[lane], errors[lane]
            self._end(int(lane), 0, reached=True)

    def run(self) -> list[Outcome]:
        """Run until every lane has an outcome."""
        throttle = Throttle(RECORDS_AT_ONCE)
        while len(self.outcomes) < len(self.configurations) and not self.sweep.stop.is_set():
            self._compact()
            last = max(1, min(self.sweep.limit(), self.budget.iterations))
            before = int(self.batch.iteration)
            if before >= last:
                self._cut(before)
                break
            clock = time.perf_counter()
            most = jnp.int32(throttle.amount)
            self.batch = jax.block_until_ready(run_batch(self.program.fit(before), self.sizes, self.batch, most))
            seconds = time.perf_counter() - clock
            self.program.problem.raise_failure()
            self._collect()
            throttle.update(seconds / max(int(self.batch.records), 1))
        return [self.outcomes[number] for number in range(len(self.configurations)) if number in self.outcomes]

    def _collect(self) -> None:
        """Read the records of all lanes, and end the lanes that are done."""
        taken, sweep = int(self.batch.records), self.sweep
        ends = record_ends(int(self.batch.iteration), taken, int(self.program.record_every))
        recorded = {self.goal: self.batch.values, **self.batch.watched}
        rows = {name: np.asarray(array, float)[:taken] for name, array in recorded.items()}
        values, errors = rows[self.goal], rows.get("error", np.full((taken, len(self.lanes)), np.nan))
        work = np.cumsum(np.asarray(self.batch.work, np.int64)[:taken], axis=0) / sweep.samples
        sent = np.cumsum(np.asarray(self.batch.sent, np.int64)[:taken], axis=0)
        bits = sent @ sweep.message_bits / sweep.links
        varying = np.cumsum(np.asarray(self.batch.bytes, float)[:taken], axis=0).sum(axis=-1)
        encoded = sweep.options.encoded
        wire = 8 * (sent @ sweep.constant + varying) / sweep.links if encoded else np.zeros_like(varying)
        for lane, number in enumerate(self.lanes):
            if number < 0 or number in self.outcomes:
                continue
            metrics = {name: array[:, lane] for name, array in rows.items()}
            reached = self.rule.reached(metrics) & (ends % self.program.method.round_length == 0)
            lost = self.rule.diverged(metrics)
            epochs, spent = self.epochs[number] + work[:, lane], self.spent[number] + bits[:, lane]
            over = reached | lost | (ends >= self.rule.iterations) | self.budget.is_spent(epochs, spent)
            stops = np.flatnonzero(over)
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
            self.sweep.options.seed,
            reached,
            diverged,
            cut,
            iteration,
            float(self.value[number]),
            float(self.error[number]),
            float(self.spent[number]),
            float(self.epochs[number]),
            self.sweep.options.encoded,
            float(self.wire[number]),
        )
        self.outcomes[number] = outcome
        if self.sweep.options.finished is not None:
            self.sweep.options.finished(outcome)

    def _compact(self) -> None:
        """Remove the lanes that have ended once they are half of the batch.

        Widths are powers of two, so that few programs are compiled. Lanes that fill up the batch have number -1.
        """
        alive = np.array(
            [lane for lane, number in enumerate(self.lanes) if number >= 0 and number not in self.outcomes]
        )
        width = 1 << (len(alive) - 1).bit_length()
        if 2 * width > len(self.lanes):
            return
        kept = np.concatenate([alive, np.repeat(alive[:1], width - len(alive))])
        self.lanes = np.where(np.arange(width) < len(alive), self.lanes[kept], -1)
        self.sizes = {name: size[kept] for name, size in self.sizes.items()}
        state = jax.tree.map(lambda leaf: leaf[kept], self.batch.state)
        self.batch = empty_batch(state, self.batch.iteration, width, self.program)
