"""Starts the ranks of a run with mpiexec, watches them, and says which one died if one does."""

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
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, TextIO

from lessbits.errors import InputError

JOB = "LESSBITS_JOB"  # a folder where ranks write their process numbers
LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID")
NEIGHBORS = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE", "PALS_LOCAL_SIZE")
FORCE_AFTER = 25.0  # seconds after which ranks that were asked to stop are ended


def is_rank() -> bool:
    """Whether this process was started by an MPI launcher."""
    return any(name in os.environ for name in LAUNCHERS)


def become_rank() -> None:
    """Prepare this process, before anything heavy is imported: threads for its share of the cores."""
    told = next((os.environ[name] for name in NEIGHBORS if os.environ.get(name, "").isdigit()), "1")
    threads = str(max(1, (os.cpu_count() or 1) // max(1, int(told))))
    # Ranks that start more threads than there are cores fight for them. NPROC is what XLA asks.
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, threads)
    if JOB in os.environ:
        number = next(os.environ[name] for name in LAUNCHERS if name in os.environ)
        with contextlib.suppress(OSError):  # on another machine there is no such folder
            (Path(os.environ[JOB]) / str(os.getpid())).write_text(number)


def find_mpiexec() -> str:
    """Return the launcher that belongs to this Python, else the system's."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise InputError("there is no mpiexec: install one with pip install 'lessbits[mpi]'")
    return found


def check_launch(encode: bool) -> None:
    """Refuse early what ranks would all refuse."""
    if encode:
        raise InputError("encode was asked for with the MPI engine, which always encodes: leave it out")
    if importlib.util.find_spec("mpi4py") is None:
        raise InputError(
            "the MPI engine needs mpi4py and an MPI library: install them with pip install 'lessbits[mpi]'"
        )


def launch(ranks: int | None, arguments: list[str]) -> int:
    """Run `lessbits` with these arguments on so many ranks (by default one a core), and return its exit status."""
    ranks = ranks or os.cpu_count() or 1
    command = [find_mpiexec(), "-n", str(ranks), sys.executable, "-m", "lessbits", *arguments]
    with tempfile.TemporaryDirectory(prefix="lessbits-") as job:
        environment = {**os.environ, JOB: job, "COLUMNS": str(shutil.get_terminal_size().columns)}
        # In a session of its own: Ctrl-C reaches it through us, once.
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
        listeners = [threading.Thread(target=_listen, args=(*pipe, died), daemon=True) for pipe in pipes]
        with _forwarding(process):
            for listener in listeners:
                listener.start()
            status = process.wait()
            for listener in listeners:
                listener.join()
        if "signal" not in died:
            return status
        _explain(died, Path(job), ranks)
        return 1


@contextlib.contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass Ctrl-C and SIGTERM on to the ranks; end them if they are asked twice, or do not stop."""
    asked = False

    def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(FORCE_AFTER, end)
    timer.daemon = True

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            end()
        else:
            asked = True
            process.send_signal(signal.SIGTERM)
            timer.start()

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except BaseException:
        end()
        raise
    finally:
        timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(stream: IO[bytes], out: TextIO, died: dict[str, str]) -> None:
    """Pass on what the ranks say, without the launcher's own lines; note what it says of a process that died."""
    inside = False
    for line in stream:
        text = line.decode(errors="replace").rstrip("\n")
        inside = inside or "BAD TERMINATION" in text
        if inside:
            for name, pattern in (("pid", r"PID (\d+)"), ("signal", r"\(signal (\d+)\)")):
                if match := re.search(pattern, text):
                    died.setdefault(name, match[1])
        elif not re.match(r"={20,}$|Abort\(\d+\) on node|\[mpiexec", text):
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
