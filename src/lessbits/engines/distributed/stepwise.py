"""The engine of real messages: every message is encoded, carried as bytes by a transport, and decoded."""

import time

import numpy as np

from lessbits._internal.axes import Axis, row_axes
from lessbits._internal.programs import make_room
from lessbits.engines.checks import check_distance, check_goal
from lessbits.engines.distributed.rank import Rank
from lessbits.engines.distributed.transport import Transport
from lessbits.engines.identity import run_identity
from lessbits.engines.interrupts import Interrupts
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.checkpoint_checks import check_fits
from lessbits.engines.recording.checkpoint_files import Checkpoint, name_leaves, put_leaves
from lessbits.engines.recording.checkpoints import folder_held
from lessbits.engines.recording.progress import Progress
from lessbits.engines.recording.recorder import Recorder
from lessbits.engines.recording.trace import Trace
from lessbits.engines.schedule import Throttle, end_of_record
from lessbits.engines.stopping import Ending, StopRule, finish
from lessbits.errors import InputError
from lessbits.methods.base import Method
from lessbits.networks import Network
from lessbits.problems.base import Problem


def run_stepwise(
    problem: Problem, network: Network, method: Method, transport: Transport, options: RunOptions
) -> Trace:
    """Run a method as `simulate` does, with messages as bytes. All ranks call this, and return the same trace.

    Args:
        problem: The whole problem, or one that is partitioned over the ranks.
        network: The links between nodes, with their weights.
        method: The method, with its step sizes.
        transport: Carries bytes between the ranks.
        options: The options of the run.
    """
    make_room()
    options = options.checked(problem, network, method)
    if options.faults is not None:
        raise InputError("faults are simulated: leave out encode, and run in the simulator")
    clock = time.perf_counter()
    run = _Run(Rank(problem, network, method, transport, options), options)
    with folder_held(options.checkpoints, transport):
        run.begin()
        compile_seconds = time.perf_counter() - clock
        with Interrupts(options.stop) as interrupts, Progress(options, run.iteration, shown=transport.rank == 0) as bar:
            run.loop(interrupts, bar)
    x = transport.broadcast(run.x) if options.scoring else run.own_x()
    ending = Ending(x, run.iteration, compile_seconds, run.interrupted)
    transport.close()
    return finish(options, run.rule, run.recorder, method, run.rank.problem, ending)


class _Run:
    """The state of a run at one rank. All ranks take the same decisions."""

    def __init__(self, rank: Rank, options: RunOptions) -> None:
        self.rank, self.transport, self.options = rank, rank.transport, options
        self.checkpoints = options.checkpoints
        self.iteration, self.stop, self.interrupted, self.diverged = 0, False, False, False
        self.x: np.ndarray | None = None  # of all nodes, at rank 0

    def begin(self) -> None:
        """Score the start, and resume from a checkpoint if the options ask for it."""
        rank, problem, options = self.rank, self.rank.problem, self.options
        self.target = problem.target(options.metric_choice(problem))
        assert options.start is not None
        rank.begin(options.start)
        first, self.x = rank.score(self.target)
        rule = StopRule.of(options.iterations, options.until, options.goal, self.target.columns)
        self.rule = rule.started(first, float(self.target.scale)).on_host()
        check_goal(options.goal, options.until, first, self.target)
        check_distance(first, rank.method)
        self.recorder = Recorder(first, problem, rank.network, rank.method)
        self.stop = bool(self.rule.ends(first, 0))
        if self.checkpoints is not None:
            gather = self.transport.all_gather
            self.identity = run_identity(problem.here, gather, rank.network, rank.method, options, rank.codecs)
            self._restore(self.transport.at_first(self._read))

    def loop(self, interrupts: Interrupts, bar: Progress) -> None:
        """Iterate until the goal is reached, the iterations are done, the run diverges, or an interrupt."""
        throttle = Throttle()
        while not self.stop:
            clock, first = time.perf_counter(), self.iteration
            next_record = end_of_record(self.iteration, self.options.interval, self.options.iterations)
            for number in range(self.iteration, min(next_record, self.iteration + throttle.amount)):
                self.rank.iterate(number)
                self.iteration = number + 1
            seconds = (time.perf_counter() - clock) / (self.iteration - first)
            if self.iteration == next_record:
                self._record()
                bar.show(self.iteration, self.recorder.last, self.recorder.wire_bits_per_link())
            # All ranks stop if any of them was interrupted or has diverged.
            facts = np.array([[interrupts.asked, self.rank.diverged, seconds]])
            asked, diverged, slowest = self.transport.all_gather(facts).max(axis=0)
            if diverged and not self.stop:
                self._record()
                self.stop = self.diverged = True  # also if nothing is scored
            throttle.update(slowest)
            self.interrupted = bool(asked) and not self.stop
            if self.checkpoints and (self.interrupted or self.checkpoints.due(first, self.iteration, self.stop)):
                self._save()
            self.stop = self.stop or self.interrupted
        if self.interrupted and self.options.scoring:
            self.x = self.transport.gather(np.asarray(self.rank.state.x))

    def own_x(self) -> np.ndarray:
        """Return the iterates of this rank's nodes; NaN if the run has diverged, at any rank."""
        x = np.asarray(self.rank.state.x)
        return np.full_like(x, np.nan) if self.diverged else x

    def _record(self) -> None:
        since = self._since()
        self.rank.clear()
        metrics, self.x = self.rank.score(self.target)
        self.recorder.extend(
            {name: np.array([value]) for name, value in metrics.items()},
            np.array([self.iteration]),
            **{name: value[None] for name, value in since.items()},
        )
        self.stop = bool(self.rule.ends(metrics, self.iteration))

    def _since(self) -> dict[str, np.ndarray]:
        """Return the work, messages and times of all ranks since the last record."""
        tally = self.rank.tally
        counts = np.array([[tally.work, *tally.messages, *tally.link_bytes, tally.rank_bytes, tally.rounds]], np.int64)
        counts = self.transport.all_gather(counts)
        times = self.transport.all_gather(np.array([[tally.compute, tally.coding, tally.waiting]]))
        work, *by_message, between, _ = counts.sum(axis=0)
        return {
            "work": np.array([work, counts[:, -1].max()]),
            "sent": np.array(by_message[: tally.kinds]),
            "wire": np.array(by_message[tally.kinds :], float),
            "seconds": times.sum(axis=1).max(),
            "compute_seconds": times[:, 0].mean(),
            "coding_seconds": times[:, 1].mean(),
            "communication_seconds": times[:, 2].mean(),
            "bytes_between_ranks": np.int64(between),
        }

    def _save(self) -> None:
        """Write a checkpoint at rank 0."""
        assert self.checkpoints is not None
        since = {name: np.atleast_1d(value) for name, value in self._since().items()}
        state = {}
        for name, leaf in name_leaves(self.rank.state).items():
            rows = self.transport.gather(np.asarray(leaf))
            if rows is not None:
                state[name] = rows
        if self.transport.rank == 0:
            self.checkpoints.write(Checkpoint(self.iteration, state, self.recorder.saved(), since, self.identity))

    def _read(self) -> Checkpoint | None:
        """Return the checkpoint to resume from, at rank 0."""
        assert self.checkpoints is not None
        saved, state = self.checkpoints.read(self.identity), self.rank.state
        if saved is not None:
            axes = name_leaves(row_axes(state, Axis.NODE))
            check_fits(saved, name_leaves(state), axes, self.rank.network, self.recorder.parts)
        return saved

    def _restore(self, saved: Checkpoint | None) -> None:
        """Restore this rank's part of the checkpoint that rank 0 read."""
        transport, rank = self.transport, self.rank
        if not transport.any(saved is not None):
            return
        names = {group: (transport.all_say(_names(saved, group))[0] or "").split() for group in ("records", "since")}

        def share(group: str, name: str) -> np.ndarray:
            return transport.broadcast(None if saved is None else getattr(saved, group)[name])

        own = {}
        axes = name_leaves(row_axes(rank.state, Axis.NODE))
        for name, leaf in name_leaves(rank.state).items():
            # An array without an axis of nodes or links is taken whole.
            rows = {Axis.NODE: rank.nodes, Axis.LINK: rank.wire.links}.get(axes[name], slice(len(leaf)))
            own[name] = share("state", name)[rows]
        rank.state = put_leaves(rank.state, own)
        self.recorder.restore({name: share("records", name) for name in names["records"]})
        since = {name: share("since", name) for name in names["since"]}
        self.iteration = int(transport.broadcast(None if saved is None else np.array([saved.iteration]))[0])
        if transport.rank == 0 and since:
            tally = rank.tally
            (tally.work, tally.rounds), tally.messages = (int(count) for count in since["work"]), since["sent"]
            tally.link_bytes = since["wire"].astype(np.int64)
            tally.rank_bytes = int(since.get("bytes_between_ranks", [0])[0])
        last = {name: self.recorder.last(name) for name in self.target.names}
        self.stop = bool(self.rule.ends(last, self.iteration))
        self.x = transport.gather(np.asarray(rank.state.x))


def _names(saved: Checkpoint | None, group: str) -> str | None:
    return None if saved is None else " ".join(getattr(saved, group))
