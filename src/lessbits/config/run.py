"""One run of the command line: in the simulator, or as one MPI rank of several."""

import io
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits._internal.files import write_whole
from lessbits.config.build import Experiment, build, build_network
from lessbits.config.hints import hint_for
from lessbits.config.settings import Settings
from lessbits.engines.distributed.launch import check_ranks
from lessbits.engines.distributed.transport import SingleProcess
from lessbits.engines.interrupts import Interrupted
from lessbits.engines.recording.checkpoints import Checkpoints
from lessbits.engines.recording.interrupted_runs import InterruptedRuns
from lessbits.engines.recording.log import Log
from lessbits.engines.recording.progress import show_activity
from lessbits.engines.recording.trace import Trace

if TYPE_CHECKING:
    from lessbits.engines.distributed.transport import Transport


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Options of a run besides its settings. None of them changes a number of the result.

    Attributes:
        checkpoint_folder: Folder of checkpoints; None for no checkpoints.
        interrupted_folder: Folder for what a run without checkpoints has when it is interrupted; None to keep nothing.
        checkpoint_every: Iterations between two checkpoints; None writes one only when the run is interrupted.
        resume: Whether to resume from a checkpoint in the folder.
        resume_at: Iteration to resume from; None for the newest checkpoint.
        progress: Whether to show progress on standard error.
        log: File to append a log to; None for no log.
        seeds: Number of runs, which differ in their seed only.
        gather_x: Whether rank 0 needs the final x of all nodes, if nothing is scored and they are still at their ranks.
        patience: Seconds without a sign of life from a rank after which all ranks end; None for the default.
    """

    checkpoint_folder: Path | None = None
    interrupted_folder: Path | None = None
    checkpoint_every: int | None = None
    resume: bool = False
    resume_at: int | None = None
    progress: bool = False
    log: Path | None = None
    seeds: int = 1
    gather_x: bool = False
    patience: float | None = None

    def checkpoints(self, settings: dict[str, Any] | None = None) -> Checkpoints | None:
        """Return the checkpoint folder with the resolved settings to store there; None without a folder."""
        if self.checkpoint_folder is None:
            if self.interrupted_folder is None:
                return None
            # Of several seeds, those that have ended are kept too, until all have.
            return InterruptedRuns(self.interrupted_folder, settings=settings or {}, at_end=self.seeds > 1)
        return Checkpoints(
            self.checkpoint_folder, self.checkpoint_every, self.resume, self.resume_at, settings=settings or {}
        )


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended or was interrupted."""

    trace: Trace
    settings: Settings  # resolved
    network: str  # described in words
    interrupted: bool
    prepared: float  # seconds spent on the problem, its solution and the step sizes
    ranks: int
    others: tuple[Trace, ...] = ()  # of further seeds
    hint: str | None = None  # what may help, if the target was missed
    kept: Path | None = None  # of an interrupted run: the folder from which the same command goes on

    def traces(self, file: Path) -> dict[Path, Trace]:
        """Return the trace and its file; of several seeds, each has a file of its own: NAME-seed-0.trace and so on."""
        if not self.others:
            return {file: self.trace}
        return {file.with_stem(f"{file.stem}-seed-{run.settings['seed']}"): run for run in (self.trace, *self.others)}

    def save_solution(self, file: Path) -> None:
        """Write the final x of every node."""
        stream = io.BytesIO()
        np.save(stream, self.trace.x)
        write_whole(file, stream.getvalue())


def run_job(settings: Settings, request: RunRequest) -> FinishedRun | None:
    """Build and run what the settings describe.

    With the MPI engine every rank calls this function. Only rank 0 gets the result; the others get None.
    """
    if settings.engine == "simulate":
        return _run(settings, request)
    from lessbits.engines.distributed.mpi import all_ranks

    with all_ranks(patience=request.patience) as world:
        check_ranks(world.size, settings.ranks)
        transport = world.ranks_with_nodes(build_network(settings).nodes)
        finished = None if transport is None else _run(settings, request, transport)
        return finished if world.rank == 0 else None


def _run(settings: Settings, request: RunRequest, transport: "Transport | None" = None) -> FinishedRun:
    team = transport or SingleProcess()
    checkpoints = request.checkpoints()
    if checkpoints is not None and team.rank == 0:
        checkpoints.check()  # before anything that takes long
    record_every = settings.record_every or _resumed_interval(checkpoints, team)
    started = time.perf_counter()
    with show_activity("making the problem, its solution and step sizes", request.progress):
        experiment = build(settings.updated(record_every=record_every), transport)
    prepared = time.perf_counter() - started
    resolved = experiment.settings.model_dump()
    seeds = range(settings.seed, settings.seed + request.seeds)
    kept = [request.checkpoints({**resolved, "seed": seed}) for seed in seeds]
    with Log(request.log, resolved) if request.log and team.rank == 0 else nullcontext() as log:
        trace, interrupted = _iterate(experiment, request.progress, log, kept[0])
    if request.gather_x and settings.scoring == "off":
        x = team.gather(trace.x)
        trace = trace if x is None else replace(trace, x=x)
    others: list[Trace] = []
    for seed, checkpoints in zip(seeds[1:], kept[1:], strict=True):
        if interrupted:
            break
        again = replace(experiment, settings=experiment.settings.updated(seed=seed))
        trace_again, interrupted = _iterate(again, request.progress, None, checkpoints)
        if not interrupted:
            others.append(trace_again)
    unfinished = [each for each in kept if isinstance(each, InterruptedRuns) and each.iterations()]
    if not interrupted and team.rank == 0:
        for each in unfinished:
            each.forget()
    description = experiment.network.describe()
    hint = hint_for(experiment, trace) if team.rank == 0 and not interrupted else None
    return FinishedRun(
        trace,
        experiment.settings,
        description,
        interrupted,
        prepared,
        team.size,
        tuple(others),
        hint,
        kept=request.interrupted_folder if unfinished else None,
    )


def _resumed_interval(checkpoints: Checkpoints | None, team: "Transport") -> int | None:
    """Return `record_every` of the run to resume; None for a new run.

    A run that is resumed with more iterations keeps its record interval, so that its records are evenly spaced.
    """
    interval = np.zeros(1, np.int64)
    if checkpoints is not None and team.rank == 0:
        interval[0] = checkpoints.record_every() or 0
    return int(team.broadcast(interval)[0]) or None


def _iterate(
    experiment: Experiment, progress: bool, log: Log | None, checkpoints: Checkpoints | None
) -> tuple[Trace, bool]:
    """Run the iterations, and return the trace and whether the run was interrupted."""
    interrupted = False
    try:
        trace = experiment.run((progress, log) if log else progress, checkpoints)
    except Interrupted as stop:
        trace, interrupted = stop.trace, True
    if log is not None:
        log.end(trace)
    return trace, interrupted
