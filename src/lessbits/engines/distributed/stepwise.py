"""The engine of real messages: every one is encoded, carried as bytes by a transport, and decoded."""

import time
from functools import partial

import numpy as np

from lessbits._internal.programs import make_room
from lessbits.engines.checks import check_goal, check_run, check_start
from lessbits.engines.distributed.rank import Rank
from lessbits.engines.distributed.transport import Transport
from lessbits.engines.interrupts import Interrupted, Interrupts
from lessbits.engines.recording.checkpoints import Checkpoint, Checkpoints, name_leaves, put_leaves, run_identity
from lessbits.engines.recording.progress import Progress, ProgressOption
from lessbits.engines.recording.recorder import Recorder
from lessbits.engines.recording.trace import LinkModel, Trace
from lessbits.engines.stopping import ceiling_of, finish
from lessbits.methods.base import Method, Start
from lessbits.networks import Network
from lessbits.problems.base import Problem

PATIENCE = 0.25  # seconds after which the ranks ask each other whether anybody wants to stop


def run_stepwise(
    problem: Problem,
    network: Network,
    method: Method,
    iterations: int,
    transport: Transport,
    seed: int = 0,
    until: float | None = None,
    goal: str = "error",
    record_every: int | None = None,
    start: Start | None = None,
    link_model: LinkModel | None = None,
    progress: ProgressOption = False,
    code: str = "entropy",
    checkpoints: Checkpoints | None = None,
) -> Trace:
    """Run a method as `simulate` does, with messages as bytes; every rank of the transport calls this.

    `problem` is the whole problem, or one that is spread over the ranks. All ranks return the same trace.
    """
    make_room()
    record_every = check_run(problem, network, method, iterations, until, goal, record_every)
    start = check_start(start, problem)
    clock = time.perf_counter()
    terms = (iterations, until, goal, record_every, checkpoints is not None)
    rank = Rank(problem, network, method, seed, code, transport, terms)
    run = _Run(rank, iterations, until, goal, record_every, checkpoints, seed)
    run.begin(start)
    compile_seconds = time.perf_counter() - clock
    wish = progress if transport.rank == 0 else False
    with Interrupts() as interrupts, Progress(iterations, wish, until, goal, run.iteration) as bar:
        run.go(interrupts, bar)
    trace = finish(
        run.recorder,
        transport.broadcast(run.x),
        run.iteration,
        record_every,
        run.ceiling,
        method,
        rank.problem,
        until,
        goal,
        link_model,
        compile_seconds,
        run.interrupted,
    )
    transport.close()
    if run.interrupted:
        raise Interrupted(trace)
    return trace


class _Run:
    """Where a run is, at one rank; all ranks decide alike."""

    def __init__(
        self,
        rank: Rank,
        iterations: int,
        until: float | None,
        goal: str,
        record_every: int,
        checkpoints: Checkpoints | None,
        seed: int,
    ) -> None:
        self.rank, self.transport = rank, rank.transport
        self.iterations, self.until, self.goal, self.record_every = iterations, until, goal, record_every
        self.checkpoints, self.seed = checkpoints, seed
        self.iteration, self.stop, self.interrupted = 0, False, False
        self.x: np.ndarray | None = None  # of all nodes, at rank 0

    def begin(self, start: Start) -> None:
        """Score the start, and go on from a checkpoint if asked to."""
        rank, problem = self.rank, self.rank.problem
        target = problem.target()
        rank.begin(start)
        self.target = target
        first, self.x = rank.score(target)
        self.ceiling = ceiling_of(first["error"], float(target.scale))
        check_goal(self.goal, self.until, first, target)
        self.recorder = Recorder(first, problem, rank.network, rank.method)
        self.stop = self._ends(first)
        if self.checkpoints is not None:
            gather = self.transport.all_gather
            self.marks = run_identity(
                problem.here, gather, rank.network, rank.method, self.seed, self.record_every, rank.codecs
            )
            self._restore(self.transport.at_first(partial(self.checkpoints.read, self.marks)))

    def go(self, interrupts: Interrupts, bar: Progress) -> None:
        """Iterate until the goal, the end, divergence, or an interrupt."""
        patience = 1
        while not self.stop:
            clock, first = time.perf_counter(), self.iteration
            next_record = min((self.iteration // self.record_every + 1) * self.record_every, self.iterations)
            for number in range(self.iteration, min(next_record, self.iteration + patience)):
                self.rank.iterate(number)
                self.iteration = number + 1
            seconds = (time.perf_counter() - clock) / (self.iteration - first)
            if self.iteration == next_record:
                self._record()
                bar.show(self.iteration, self.recorder.last, self.recorder.wire_bits_per_link())
            facts = np.array([[interrupts.asked, self.rank.diverged, seconds]])
            asked, diverged, slowest = self.transport.all_gather(facts).max(axis=0)
            if diverged and not self.stop:
                self._record()
            # Growing at most fourfold: the first iterations may be slow for other reasons.
            patience = int(np.clip(PATIENCE / max(slowest, 1e-6), 1, 4 * patience))
            self.interrupted = bool(asked) and not self.stop
            if self.checkpoints and (self.interrupted or self.checkpoints.due(first, self.iteration)):
                self._save()
            self.stop = self.stop or self.interrupted
        if self.interrupted:
            self.x = self.transport.gather(np.asarray(self.rank.state.x))

    def _record(self) -> None:
        since = self._since()
        self.rank.clear()
        metrics, self.x = self.rank.score(self.target)
        self.recorder.extend(
            {name: np.array([value]) for name, value in metrics.items()},
            np.array([self.iteration]),
            **{name: value[None] for name, value in since.items()},
        )
        self.stop = self._ends(metrics) or self.iteration >= self.iterations

    def _ends(self, metrics: dict[str, float]) -> bool:
        reached = self.until is not None and metrics[self.goal] <= self.until
        return reached or not metrics["error"] <= self.ceiling  # NaN too

    def _since(self) -> dict[str, np.ndarray]:
        """Add up what all ranks did since the last record."""
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
            self.checkpoints.write(Checkpoint(self.iteration, state, self.recorder.saved(), since, self.marks))

    def _restore(self, saved: Checkpoint | None) -> None:
        """Take this rank's part of what rank 0 read."""
        transport, rank = self.transport, self.rank
        if not transport.any(saved is not None):
            return
        names = {group: (transport.all_say(_listed(saved, group))[0] or "").split() for group in ("records", "since")}

        def share(group: str, name: str) -> np.ndarray:
            return transport.broadcast(None if saved is None else getattr(saved, group)[name])

        # Most arrays have a row a node, memories of links a row a link; what one node alone holds, it has or not.
        rows = {rank.network.nodes: rank.nodes, rank.network.links: rank.wire.links}
        own = {}
        for name, leaf in name_leaves(rank.state).items():
            array = share("state", name)
            own[name] = array[rows.get(len(array), slice(len(leaf)))]
        rank.state = put_leaves(rank.state, own)
        self.recorder.restore({name: share("records", name) for name in names["records"]})
        since = {name: share("since", name) for name in names["since"]}
        self.iteration = int(transport.broadcast(None if saved is None else np.array([saved.iteration]))[0])
        if transport.rank == 0 and since:
            tally = rank.tally
            (tally.work, tally.rounds), tally.messages = (int(count) for count in since["work"]), since["sent"]
            tally.link_bytes = since["wire"].astype(np.int64)
            tally.rank_bytes = int(since.get("bytes_between_ranks", [0])[0])
        last = {name: self.recorder.last(name) for name in ("error", "consensus", "suboptimality")}
        self.stop = self._ends(last) or self.iteration >= self.iterations
        self.x = transport.gather(np.asarray(rank.state.x))


def _listed(saved: Checkpoint | None, group: str) -> str | None:
    return None if saved is None else " ".join(getattr(saved, group))
