"""A process of a job is stopped or killed: the job ends with one line that names it, and leaves nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="the extra lessbits[mpi] is not installed")

from mpi.jobs import BIN, HANGING, finish, processes_with, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
RUN = ("run", "--nodes", 6, "--dim", 8, "--record-every", 10, "--iterations", 10_000_000, "--checkpoint-every", 20)
RANKS, PATIENCE = 3, 4
STOP, KILL = signal.SIGSTOP, signal.SIGKILL


def segments():
    return set(Path("/dev/shm").glob("mpich_shm_*"))


def parent_of(number):
    return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])


def rank_of(number):
    environment = Path(f"/proc/{number}/environ").read_bytes().decode().split("\0")
    return next((int(entry.removeprefix("PMI_RANK=")) for entry in environment if entry.startswith("PMI_RANK=")), None)


def wait_until(true, process=None):
    end = time.monotonic() + HANGING
    while not true():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


class Job:
    """A job that iterates, and its processes by name: `launcher`, mpiexec, proxy, and ranks by number."""

    def __init__(self, folder, *command, ready):
        self.mark, self.before = str(folder), segments()
        self.process = start(*command, quickly=True)
        wait_until(ready, self.process)
        found = [number for number, _ in processes_with(self.mark)]
        self.roles = {str(rank_of(number)): number for number in found if rank_of(number) is not None}
        self.roles["proxy"] = parent_of(self.roles["0"])
        self.roles["mpiexec"] = parent_of(self.roles["proxy"])
        self.roles["launcher"] = self.process.pid

    def leaves_nothing(self):
        wait_until(lambda: not processes_with(self.mark) and not Path(f"/proc/{self.roles['proxy']}").exists())
        assert segments() <= self.before


@pytest.fixture
def job(tmp_path):
    """Return a job of three ranks that `lessbits` has started, and end what a failed test leaves."""
    folder = tmp_path / "checkpoints"
    flags = ("--engine", "mpi", "--ranks", RANKS, "--patience", PATIENCE, "--checkpoint", folder)
    started = Job(folder, BIN / "lessbits", *RUN, *flags, ready=lambda: list(folder.glob("checkpoint-*.safetensors")))
    yield started
    for number in started.roles.values():
        if Path(f"/proc/{number}").exists():
            os.kill(number, KILL)
    started.process.communicate()


NAMES = {str(rank): f"rank {rank} of {RANKS}" for rank in range(RANKS)}
NAMES |= {"mpiexec": "mpiexec.*", "proxy": "hydra_pmi_proxy"}


@pytest.mark.slow
@pytest.mark.parametrize("who", NAMES)
@pytest.mark.parametrize("how", [KILL, STOP])
def test_a_process_that_is_killed_or_stopped_is_named_and_all_end(how, who, job):
    os.kill(job.roles[who], how)
    status, _, err = finish(job.process)
    assert status == 1, err
    assert len(err.strip().splitlines()) == 1, err
    done = "(was ended|has died)" if how == KILL else "(was stopped for|has given no sign of life)"
    assert re.match(rf"lessbits: {NAMES[who]} {done}", err), err
    job.leaves_nothing()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ss") is None, reason="ss, which lists ports, is not installed")
def test_ports_are_open_to_this_machine_alone(job):
    """All sockets of the job that listen are bound to the loopback address, or to its device."""
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    numbers = set(job.roles.values())
    ours = [line.split()[3] for line in listening if numbers & {int(pid) for pid in re.findall(r"pid=(\d+)", line)}]
    assert ours
    assert all(address.startswith(("127.", "[::1]")) or "%lo:" in address for address in ours), ours


@pytest.mark.slow
@pytest.mark.parametrize("how", [KILL, STOP])
def test_ranks_end_with_the_process_that_started_them(how, job):
    os.kill(job.roles["launcher"], how)
    ranks = [job.roles[str(rank)] for rank in range(RANKS)]
    wait_until(lambda: not any(rank_lives(number) for number in ranks))
    if how == STOP:
        os.kill(job.roles["launcher"], signal.SIGCONT)
    assert finish(job.process)[0] == (-KILL if how == KILL else 1)
    job.leaves_nothing()


def rank_lives(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
