"""A process of a job is stopped or killed: the job ends with one line that names it, and leaves nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

pytest.importorskip("mpi4py", reason="the extra lessbits[mpi] is not installed")

from mpi.connections import TCP, reset
from mpi.jobs import Job, finish, processes_with

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
RUN = ("run", "--nodes", 6, "--dim", 8, "--record-every", 10, "--iterations", 10_000_000, "--checkpoint-every", 20)
RANKS, PATIENCE = 3, 4
STOP, KILL = signal.SIGSTOP, signal.SIGKILL


@pytest.fixture
def job(request, tmp_path):
    """Return a job of three ranks that `lessbits` has started, and end what a failed test leaves."""
    folder = tmp_path / "checkpoints"
    flags = ("--engine", "mpi", "--ranks", RANKS, "--patience", PATIENCE, "--checkpoint", folder)
    ready = lambda: list(folder.glob("checkpoint-*.safetensors"))  # noqa: E731
    started = Job(folder, *RUN, *flags, ready=ready, environment=getattr(request, "param", None))
    yield started
    started.end()


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
    job.ranks_end()
    if how == STOP:
        os.kill(job.roles["launcher"], signal.SIGCONT)
    assert finish(job.process)[0] == (-KILL if how == KILL else 1)
    job.leaves_nothing()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="sockets of other processes cannot be reached")
@pytest.mark.parametrize("job", [TCP], indirect=True, ids=["tcp"])
def test_a_connection_that_is_reset_ends_the_job_and_both_its_ends_are_named(job):
    """The MPI library connects anew, and loses what was under way. If that is nothing, the job goes on.

    The message after a lost one may come in its place, and is refused by its length or its checksum.
    """
    one, other = "12"  # rank 0 also gathers records and signs of life, and any of these may be lost
    ends = job.roles[one], job.roles[other]
    assert reset(*ends)
    while job.process.poll() is None:
        try:
            job.process.wait(3 * PATIENCE)
        except subprocess.TimeoutExpired:
            reset(*ends)
    status, _, err = finish(job.process)
    said = [line for line in err.strip().splitlines() if "lessbits: iteration " not in line]  # its progress
    assert (status, len(said)) == (1, 1), err
    allowed = [
        rf"a message or a connection was lost between ranks {one} and {other}: all ranks end",
        rf"rank {one} of 3: (WireError: )?from( or to)? rank {other}\b",
        rf"rank {other} of 3: (WireError: )?from( or to)? rank {one}\b",
        rf"rank [{one}{other}] of 3 has given no sign of life",
    ]
    assert re.search("|".join(allowed), err), err
    assert processes_with(job.mark) == []
