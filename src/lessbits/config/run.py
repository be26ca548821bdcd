"""One run as the command line asks for it: simulated here, or as one rank of several."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lessbits.cli.help import working
from lessbits.config.build import Experiment, build, build_network
from lessbits.config.settings import Settings
from lessbits.engines.distributed.launch import check_ranks
from lessbits.engines.distributed.transport import SingleProcess
from lessbits.engines.interrupts import Interrupted
from lessbits.engines.recording.checkpoints import Checkpoints
from lessbits.engines.recording.log import Log
from lessbits.engines.recording.trace import Trace

if TYPE_CHECKING:
    from lessbits.engines.distributed.transport import Transport


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended, or was interrupted."""

    trace: Trace
    settings: Settings
    network: str  # in words
    interrupted: bool
    prepared: float  # seconds that making the problem, its solution and the step sizes took
    ranks: int

    def save_solution(self, file: Path) -> None:
        """Write the nodes' final x."""
        with file.open("wb") as stream:  # np.save would add .npy to the name
            np.save(stream, self.trace.x)


def run_job(
    settings: Settings,
    folder: Path | None = None,
    every: int | None = None,
    resume: bool = False,
    resume_at: int | None = None,
    progress: bool = False,
    log: Path | None = None,
) -> FinishedRun | None:
    """Build and run; with the MPI engine every rank calls this, and those that need not report get None."""

    def go(transport: "Transport | None") -> FinishedRun:
        team = transport or SingleProcess()
        recorded = np.zeros(1, np.int64)
        if folder is not None and team.rank == 0:
            there = Checkpoints(folder, every, resume, resume_at)
            there.check()  # before anything takes long
            recorded[0] = there.record_every() or 0
        # A run that goes on for longer records as it began, unless told otherwise.
        asked = settings.record_every or int(team.broadcast(recorded)[0]) or None
        clock = time.perf_counter()
        with working("making the problem, its solution and step sizes", progress):
            experiment = build(settings.updated(record_every=asked), transport)
        prepared = time.perf_counter() - clock
        checkpoints = None
        if folder is not None:
            checkpoints = Checkpoints(folder, every, resume, resume_at, experiment.settings.model_dump())
        kept = Log(log, experiment.settings.model_dump()) if log and team.rank == 0 else nullcontext()
        with kept as lines:
            return _run(experiment, checkpoints, progress, lines, prepared, team.size)

    if settings.engine == "simulate":
        return go(None)
    from lessbits.engines.distributed.mpi import all_ranks

    with all_ranks() as world:
        check_ranks(world.size, settings.ranks)
        transport = world.ranks_with_nodes(build_network(settings).nodes)
        done = None if transport is None else go(transport)
        return done if world.rank == 0 else None


def _run(
    experiment: Experiment,
    checkpoints: Checkpoints | None,
    progress: bool,
    log: Log | None,
    prepared: float,
    ranks: int,
) -> FinishedRun:
    network, interrupted = experiment.network.describe(), False
    try:
        trace = experiment.run((progress, log) if log else progress, checkpoints)
    except Interrupted as stop:
        trace, interrupted = stop.trace, True
    if log is not None:
        log.end(trace)
    return FinishedRun(trace, experiment.settings, network, interrupted, prepared, ranks)
