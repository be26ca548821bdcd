"""A process of a job is stopped or killed: the job ends with one line that names it, and leaves nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

pytest.importorskip("mpi4py", reason="the extra lessbits[mpi] is not installed")

from mpi.jobs import Job, finish

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
RUN = ("run", "--nodes", 6, "--dim", 8, "--record-every", 10, "--iterations", 10_000_000, "--checkpoint-every", 20)
RANKS, PATIENCE = 3, 4
STOP, KILL = signal.SIGSTOP, signal.SIGKILL


@pytest.fixture
def job(tmp_path):
    """Return a job of three ranks that `lessbits` has started, and end what a failed test leaves."""
    folder = tmp_path / "checkpoints"
    flags = ("--engine", "mpi", "--ranks", RANKS, "--patience", PATIENCE, "--checkpoint", folder)
    started = Job(folder, *RUN, *flags, ready=lambda: list(folder.glob("checkpoint-*.safetensors")))
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
