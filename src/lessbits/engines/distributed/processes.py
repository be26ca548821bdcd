"""Processes of a job as the kernel shows them: which there are, who started them, and whether they are stopped.

All of this needs /proc, so it is for Linux. On other systems the functions find nothing, and what depends on them is
not promised there (docs/distributed.md).
"""

import contextlib
import ctypes
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

JOB = "LESSBITS_JOB"  # set by `launch`: its process number, a hyphen, and a random word
RANK_NAMES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID")
STARTERS = ("mpiexec", "mpirun", "orterun", "prterun", "srun")
PROC = Path("/proc")
LOOPBACK_DEVICE = "lo"
SHARED_MEMORY = Path("/dev/shm")  # where MPI libraries create their segments
SILENT = 60.0  # seconds without a sign of life: busy machines, and calls that hold Python's lock, take less
END_SECONDS = 10.0  # for the kernel to end processes that were killed
_PARENT_DEATH_SIGNAL = 1  # an option of prctl


class Process(NamedTuple):
    """A process. Its start, in ticks since the boot, tells it from a later one with the same number."""

    number: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it has not ended. One that has ended, but that its parent did not ask for yet, has."""
        return self._state() not in ("", "Z", "X")

    @property
    def stopped(self) -> bool:
        """Whether a signal such as SIGSTOP has stopped it."""
        return self._state() in ("T", "t")

    @property
    def name(self) -> str:
        """The name of its program, or nothing if it is gone."""
        return _read(self.number, "comm").strip()

    @property
    def parent(self) -> int:
        """The number of the process that started it, or 0 if it is gone."""
        facts = _facts(self.number)
        return 0 if facts is None else facts[1]

    def _state(self) -> str:
        facts = _facts(self.number)
        return facts[0] if facts and facts[2] == self.started else ""


def members(job: str) -> dict[Process, int | None]:
    """Return all processes that belong to a job, each with its rank; mpiexec and its proxy have none."""
    mark, found = f"{JOB}={job}", {}
    entries = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()] if PROC.is_dir() else []
    for number in entries:
        environment = _read(number, "environ").split("\0")
        facts = _facts(number)
        if mark in environment and facts is not None and facts[0] != "Z":
            values = dict(entry.partition("=")[::2] for entry in environment)
            rank = next((values[name] for name in RANK_NAMES if values.get(name, "").isdigit()), None)
            found[Process(number, facts[2])] = None if rank is None else int(rank)
    return found


def starters() -> list[Process]:
    """Return the processes that started this one: its parent, and so on up to `lessbits` or mpiexec."""
    launcher = os.environ.get(JOB, "").partition("-")[0]
    chain: list[Process] = []
    number = os.getppid()
    while number > 1 and (facts := _facts(number)) is not None:
        chain.append(Process(number, facts[2]))
        if str(number) == launcher if launcher else chain[-1].name.startswith(STARTERS):
            return chain
        number = facts[1]
    return chain[:1]


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))


def die_with_parent_prefix() -> list[str]:
    """Return the start of a command line that makes any command die with its parent."""
    if sys.platform != "linux":
        return []
    ask = f"import ctypes, os, sys; ctypes.CDLL(None).prctl({_PARENT_DEATH_SIGNAL}, {int(signal.SIGKILL)})"
    # The request stays in force after `execv`.
    return [sys.executable, "-S", "-c", f"{ask}; os.execv(sys.argv[1], sys.argv[1:])"]


def close_to_other_machines() -> None:
    """Have sockets that this process inherited listen on the loopback device alone.

    That is mpiexec's control port: it has no setting for it, but shares the socket with all that it starts.
    """
    for descriptor in [int(entry.name) for entry in (PROC / "self" / "fd").iterdir()]:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as inherited:
            if inherited.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                inherited.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, LOOPBACK_DEVICE.encode())


def kill(processes: Iterable[Process]) -> list[Process]:
    """Kill processes, and return those that are still there after a while."""
    left = list(processes)
    end = time.monotonic() + END_SECONDS
    while left and time.monotonic() < end:
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process.number, signal.SIGKILL)
        time.sleep(0.02)
        left = [process for process in left if process.alive]
    return left


def unlink_shared_memory() -> None:
    """Remove the names of the MPI library's segments that this process has mapped. It keeps the memory until it ends.

    Call it when all ranks have mapped them. Then a job that is killed leaves none behind.
    """
    maps = _read(os.getpid(), "maps")
    for path in set(re.findall(rf"({SHARED_MEMORY}/mpich_shm_\w+)$", maps, re.MULTILINE)):
        with contextlib.suppress(OSError):  # another rank was first
            os.unlink(path)


def _facts(number: int) -> tuple[str, int, int] | None:
    """Return state, parent and start of a process, or None if there is none."""
    fields = _read(number, "stat").rpartition(")")[2].split()  # the name before it may have spaces
    return (fields[0], int(fields[1]), int(fields[19])) if len(fields) > 19 else None


def _read(number: int, name: str) -> str:
    try:
        return (PROC / str(number) / name).read_bytes().decode(errors="replace")
    except OSError:
        return ""
