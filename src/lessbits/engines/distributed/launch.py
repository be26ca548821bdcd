"""Launch of the ranks of a run with mpiexec. It forwards signals and output, and reports a rank that died."""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self, TextIO

from lessbits.engines.interrupts import SIGNALS
from lessbits.errors import InputError

JOB = "LESSBITS_JOB"  # a folder where each rank writes its process number
LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID")
SIZES = ("PMI_SIZE", "PMIX_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PALS_SIZE")
NEIGHBORS = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE", "PALS_LOCAL_SIZE")
EXPECTED = "LESSBITS_RANKS"  # the number of ranks that `launch` started
FORCE_AFTER = 120.0  # seconds after which ranks that were asked to stop are killed


def rank_number() -> int | None:
    """Return the rank of this process, or None if no MPI launcher started it."""
    return next((int(os.environ[name]) for name in LAUNCHERS if os.environ.get(name, "").isdigit()), None)


def check_alone(ranks: int | None) -> None:
    """Raise an `InputError` if the simulator was started in several processes, each of which would do the same run."""
    if ranks is not None:
        raise InputError(f"ranks is {ranks}, but the simulator is one process: give --engine mpi too, or leave it out")
    started = next((int(os.environ[name]) for name in SIZES if os.environ.get(name, "").isdigit()), 1)
    if started > 1:
        raise InputError(f"an MPI launcher started {started} processes, but the engine is simulate: give --engine mpi")


def become_rank() -> None:
    """Limit this process to its share of the cores. Call it before any large library is imported."""
    local_ranks = next((os.environ[name] for name in NEIGHBORS if os.environ.get(name, "").isdigit()), "1")
    threads = str(max(1, (os.cpu_count() or 1) // max(1, int(local_ranks))))
    # More threads than cores would slow all ranks down. XLA reads NPROC.
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, threads)
    if JOB in os.environ:
        with contextlib.suppress(OSError):  # the folder does not exist on other machines
            (Path(os.environ[JOB]) / str(os.getpid())).write_text(str(rank_number()))


def end_all_ranks(error: BaseException) -> None:
    """End all ranks with one line for an error that all of them may have. Return if there is no MPI."""
    from lessbits.engines.distributed.mpi import MPI, MpiTransport

    if MPI is not None:
        MpiTransport().fail(error)


def find_mpiexec() -> str:
    """Return the mpiexec beside this Python, or else that of the system."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise InputError("there is no mpiexec: install one with pip install 'lessbits[mpi]'")
    return found


def check_launch(encode: bool) -> None:
    """Raise an `InputError` before the launch if all ranks would fail."""
    if encode:
        raise InputError("encode was asked for with the MPI engine, which always encodes: leave it out")
    if importlib.util.find_spec("mpi4py") is None:
        raise InputError(
            "the MPI engine needs mpi4py and an MPI library: install them with pip install 'lessbits[mpi]'"
        )


def check_ranks(found: int, wanted: int | None) -> None:
    """Raise an `InputError` for a wrong number of ranks. With a launcher of another MPI each rank finds only itself."""
    started = os.environ.get(EXPECTED)
    if started is not None and int(started) != found:
        raise InputError(
            f"mpiexec started {started} processes, but each finds {found}: mpi4py was built for another MPI than "
            f"{find_mpiexec()}"
        )
    if wanted not in (None, found):
        raise InputError(f"ranks is {wanted}, but the launcher started {found}: leave it out")


def launch(ranks: int | None, arguments: list[str]) -> int:
    """Run `lessbits` with these arguments on several ranks (by default one per core), and return its exit status."""
    ranks = ranks or os.cpu_count() or 1
    command = [*_killed_with_parent(), find_mpiexec(), "-n", str(ranks), sys.executable, "-m", "lessbits", *arguments]
    with tempfile.TemporaryDirectory(prefix="lessbits-") as job:
        environment = {**os.environ, JOB: job, EXPECTED: str(ranks), "COLUMNS": str(shutil.get_terminal_size().columns)}
        # In a session of its own, so that Ctrl-C reaches it only once, through `_Forwarding`.
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        died: dict[str, str] = {}
        pipes = ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
        readers = [threading.Thread(target=_forward_output, args=(*pipe, died), daemon=True) for pipe in pipes]
        with _Forwarding(process) as forwarding:
            for reader in readers:
                reader.start()
            status = process.wait()
            for reader in readers:
                reader.join()
        if forwarding.forced:
            print(
                f"lessbits: the ranks were ended before they had stopped by themselves, {forwarding.forced}: what was "
                "saved before is whole",
                file=sys.stderr,
            )
        if forwarding.asked and (status or forwarding.forced):
            return 130
        if "signal" not in died:
            return status
        _explain(died, Path(job), ranks)
        return 1


def _killed_with_parent() -> list[str]:
    """Return a command prefix that makes the kernel kill mpiexec, and so the ranks, if this process is killed."""
    if sys.platform != "linux":
        return []
    parent_death_signal = 1
    ask = f"import ctypes, os, sys; ctypes.CDLL(None).prctl({parent_death_signal}, {int(signal.SIGKILL)})"
    # The request stays in force after `execv`.
    return [sys.executable, "-S", "-c", f"{ask}; os.execv(sys.argv[1], sys.argv[1:])"]


class _Forwarding:
    """Forwards the first signal to the ranks. Kills them on a second one, or if they do not stop in time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.asked, self.forced = process, False, ""
        self.previous_handlers: dict[int, Any] = {}
        self.timer = threading.Timer(FORCE_AFTER, self._end, (f"{FORCE_AFTER:g} s after they were asked to",))
        self.timer.daemon = True

    def __enter__(self) -> Self:
        """Install the signal handlers."""
        self.previous_handlers = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self._end("as they were asked twice")
        else:
            self.asked = True
            self.process.send_signal(signal.SIGTERM)
            self.timer.start()

    def _end(self, why: str) -> None:
        self.forced = why
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous signal handlers."""
        if error is not None:
            self._end("after an error here")
        self.timer.cancel()
        for number, handler in self.previous_handlers.items():
            signal.signal(number, handler)


def _forward_output(stream: IO[bytes], out: TextIO, died: dict[str, str]) -> None:
    """Print the output of the ranks without the launcher's own lines. Store what those say about a dead process."""
    inside = False
    with stream:
        for line in stream:
            text = line.decode(errors="replace").rstrip("\n")
            inside = inside or "BAD TERMINATION" in text
            if inside:
                for name, pattern in (("pid", r"PID (\d+)"), ("signal", r"\(signal (\d+)\)")):
                    if match := re.search(pattern, text):
                        died.setdefault(name, match[1])
            elif not re.match(r"={20,}$|Abort\(\d+\) on node|\[mpiexec", text):
                with contextlib.suppress(BrokenPipeError):  # the reader, such as `| head`, is gone; the ranks continue
                    print(text, file=out, flush=True)


def _explain(died: dict[str, str], job: Path, ranks: int) -> None:
    ended_by = f"signal {died['signal']}"
    with contextlib.suppress(ValueError):
        ended_by = signal.Signals(int(died["signal"])).name
    try:
        who = f"rank {(job / died.get('pid', '')).read_text()} of {ranks}"
    except OSError:
        who = f"a rank (process {died.get('pid', 'unknown')})"
    print(
        f"lessbits: {who} was ended by {ended_by}, and all others with it: if checkpoints were written, start "
        "again with --resume",
        file=sys.stderr,
    )
