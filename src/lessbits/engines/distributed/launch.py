"""Launch of the ranks of a run with mpiexec. It forwards signals and output, and reports a process that died."""

import contextlib
import importlib.util
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self, TextIO

from lessbits._internal.logging import hide_slow_steps
from lessbits._internal.streams import discard
from lessbits.engines.distributed.processes import (
    JOB,
    LOOPBACK_DEVICE,
    RANK_NAMES,
    SHARED_MEMORY,
    close_to_other_machines,
    die_with_parent,
    die_with_parent_prefix,
)
from lessbits.engines.distributed.supervisor import Supervisor
from lessbits.engines.interrupts import SIGNALS
from lessbits.errors import InputError

SIZES = ("PMI_SIZE", "PMIX_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PALS_SIZE")
OTHER_SIZES = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "LESSBITS_RANKS")  # torchrun's, srun's and our own
NEIGHBORS = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE", "PALS_LOCAL_SIZE")
EXPECTED = "LESSBITS_RANKS"  # the number of ranks that `launch` started
FORCE_AFTER = 120.0  # seconds after which ranks that were asked to stop are killed
# On one machine the libraries need no port that others can reach: UCX, libfabric and mpiexec itself.
LOOPBACK = dict.fromkeys(("UCX_NET_DEVICES", "FI_TCP_IFACE", "HYDRA_IFACE"), LOOPBACK_DEVICE)
# Where these are set, mpiexec may start ranks on other machines.
HOST_LISTS = ("HYDRA_HOST_FILE", "SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_HOSTS", "LOADL_HOSTFILE", "PE_HOSTFILE")
RANK_SHARED_MEMORY = 1_200_000  # bytes per rank that mpich takes in /dev/shm; UCX takes more if there is more


def rank_number() -> int | None:
    """Return the rank of this process, or None if no MPI launcher started it."""
    return next((int(os.environ[name]) for name in RANK_NAMES if os.environ.get(name, "").isdigit()), None)


def check_alone(ranks: int | None) -> None:
    """Raise an `InputError` if the simulator was started in several processes, each of which would do the same run."""
    if ranks is not None:
        raise InputError(f"ranks is {ranks}, but the simulator is one process: give --engine mpi too, or leave it out")
    if (started := _started(SIZES)) > 1:
        raise InputError(f"an MPI launcher started {started} processes, but the engine is simulate: give --engine mpi")


def check_company() -> None:
    """Raise an `InputError` if this process, which finds no other one, was started as one of several."""
    if (started := _started(SIZES + OTHER_SIZES)) > 1:
        raise InputError(
            f"{started} processes were started, but MPI finds none but this one: start them with lessbits launch "
            f"--nodes {started}, or with the mpiexec of the MPI that mpi4py was built for"
        )


def _started(names: tuple[str, ...]) -> int:
    """Return how many processes a launcher says that it started."""
    return max((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), default=1)


def become_rank() -> None:
    """Limit this process to its share of the cores, and to its parent's life. Call it before large libraries load."""
    local_ranks = next((os.environ[name] for name in NEIGHBORS if os.environ.get(name, "").isdigit()), "1")
    threads = str(max(1, (os.cpu_count() or 1) // max(1, int(local_ranks))))
    # More threads than cores would slow all ranks down. XLA reads NPROC.
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, threads)
    if (rank := rank_number()) is not None:
        die_with_parent()
        if rank > 0:
            hide_slow_steps()  # rank 0 does the same, and says so
    if JOB in os.environ and os.environ.get("HYDRA_IFACE") == LOOPBACK_DEVICE:
        close_to_other_machines()


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


def check_shared_memory(ranks: int) -> None:
    """Raise an `InputError` if the ranks would find too little shared memory, of which mpich tells with a riddle."""
    if not SHARED_MEMORY.is_dir():
        return
    free, needed = shutil.disk_usage(SHARED_MEMORY).free, ranks * RANK_SHARED_MEMORY
    if free < needed:
        raise InputError(
            f"{SHARED_MEMORY} has {free / 1e6:.0f} MB free, but {ranks} ranks need about {needed / 1e6:.0f} MB of "
            "shared memory: give the container more (docker run --shm-size=1g), or remove what killed jobs left there"
        )


def _loopback() -> dict[str, str]:
    """Return the settings that keep all ports on the loopback address, if all ranks are on this machine."""
    elsewhere = any(name in os.environ for name in HOST_LISTS)
    return LOOPBACK if sys.platform == "linux" and not elsewhere else {}


def launch(
    ranks: int | None,
    arguments: list[str],
    patience: float | None = None,
    nodes: int | None = None,
    module: str = "lessbits",
) -> int:
    """Run `lessbits` with these arguments on several ranks, and return its exit status.

    By default there is one rank per core, but no more than `nodes`, if their number is known. A process of the job that
    is stopped for longer than `patience` seconds ends it. `module` is run in place of `lessbits`, such as
    `lessbits.training`, which trains models.
    """
    cores = os.cpu_count() or 1
    ranks = ranks or min(cores, nodes or cores)
    check_shared_memory(ranks)
    job = f"{os.getpid()}-{secrets.token_hex(8)}"
    command = [find_mpiexec(), "-n", str(ranks), sys.executable, "-m", module, *arguments]
    columns = str(shutil.get_terminal_size().columns)
    # In a session of its own, so that Ctrl-C reaches it only once, through `_Forwarding`.
    process = subprocess.Popen(
        [*die_with_parent_prefix(), *command],
        env={**_loopback(), **os.environ, JOB: job, EXPECTED: str(ranks), "COLUMNS": columns},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    supervisor = Supervisor(job, process.pid, ranks, patience, "rank" if module == "lessbits" else "node")
    reported: dict[str, str] = {}
    pipes = ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    readers = [threading.Thread(target=_forward_output, args=(*pipe, reported), daemon=True) for pipe in pipes]
    with _Forwarding(process, supervisor) as forwarding:
        for reader in readers:
            reader.start()
        status = process.wait()
        left = supervisor.stop()  # before the pipes, which a process that is left keeps open
        for reader in readers:
            reader.join()
    why = forwarding.explain() or (None if forwarding.asked else supervisor.explain(status, reported))
    if left or why:
        print(left or why, file=sys.stderr)
    if forwarding.asked and (status or forwarding.forced):
        return 130
    status = 1 if left or why else int(reported.get("abort", status))
    if not status and "unwritten" in reported:
        raise InputError(f"standard output could not be written ({reported['unwritten']})")
    return status


class _Forwarding:
    """Forwards the first signal to the ranks. Kills them on a second one, or if they do not stop in time."""

    def __init__(self, process: subprocess.Popen[bytes], supervisor: Supervisor) -> None:
        self.process, self.supervisor, self.asked, self.forced = process, supervisor, False, ""
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
        self.supervisor.end()

    def explain(self) -> str | None:
        """Return why the ranks were ended by force, if they were."""
        if not self.forced:
            return None
        ended = f"the {self.supervisor.kind}s were ended before they had stopped by themselves, {self.forced}"
        return f"lessbits: {ended}: what was saved before is whole"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous signal handlers."""
        if error is not None:
            self._end("after an error here")
        self.timer.cancel()
        for number, handler in self.previous_handlers.items():
            signal.signal(number, handler)


def _forward_output(stream: IO[bytes], out: TextIO, reported: dict[str, str]) -> None:
    """Print the output of the ranks without the launcher's own lines. Store what those say about a dead process.

    If it cannot be printed, the ranks continue, as they may have files to write. Why is stored for standard output.
    """
    inside = False
    with stream:
        for line in stream:
            text = line.decode(errors="replace").rstrip("\n")
            inside = inside or "BAD TERMINATION" in text
            if match := re.match(r"Abort\((\d+)\) on node", text):  # a rank said why before it asked for this
                reported.setdefault("abort", match[1])
            elif inside:
                for name, pattern in (("pid", r"PID (\d+)"), ("signal", r"\(signal (\d+)\)")):
                    if match := re.search(pattern, text):
                        reported.setdefault(name, match[1])
            elif not re.match(r"={20,}$|\[(mpiexec|proxy)[@:]", text):
                try:
                    print(text, file=out, flush=True)
                except BrokenPipeError:  # the reader, such as `| head`, is gone
                    pass
                except OSError as error:
                    discard(out)
                    if out is sys.stdout:
                        reported["unwritten"] = error.strerror or str(error)
