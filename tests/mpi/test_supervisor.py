"""Processes of a job, seen from outside: stand-ins for mpiexec and ranks, which start at once."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from lessbits.engines.distributed import launch, processes, supervisor
from lessbits.engines.distributed.supervisor import Supervisor
from lessbits.errors import InputError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
HANGING = 300  # seconds
PROMPT = 60  # for what the kernel does at once, on a machine however busy
STARTS_RANKS = """
import os, subprocess, sys, time
ranks = [subprocess.Popen(["sleep", "600"], env={**os.environ, "PMI_RANK": str(rank)}) for rank in range(3)]
print(*(rank.pid for rank in ranks), flush=True)
time.sleep(600)
"""


@pytest.fixture
def job():
    """Start a stand-in for mpiexec with three ranks, and return the mark of the job, its process, and the ranks."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = {name: value for name, value in os.environ.items() if name not in processes.RANK_NAMES}
    mpiexec = subprocess.Popen(
        [sys.executable, "-S", "-c", STARTS_RANKS],
        env={**environment, processes.JOB: mark},
        stdout=subprocess.PIPE,
        text=True,
    )
    ranks = [int(number) for number in mpiexec.stdout.readline().split()]
    yield mark, mpiexec, ranks
    processes.kill(processes.members(mark))
    mpiexec.wait()
    mpiexec.stdout.close()


def wait_until(true):
    end = time.monotonic() + HANGING
    while not true():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def test_the_processes_of_a_job_are_found_with_their_ranks(job):
    mark, mpiexec, ranks = job
    found = processes.members(mark)
    assert {process.number: rank for process, rank in found.items()} == {
        mpiexec.pid: None,
        **{number: rank for rank, number in enumerate(ranks)},
    }
    one = next(process for process, rank in found.items() if rank == 1)
    assert one.alive
    assert not one.stopped
    os.kill(one.number, signal.SIGSTOP)
    wait_until(lambda: one.stopped)
    assert processes.kill(found) == []
    assert processes.members(mark) == {}
    assert not one.alive


@pytest.mark.parametrize("rank", range(3))
def test_the_rank_that_died_first_is_named_whatever_mpiexec_reports(rank, job):
    mark, mpiexec, ranks = job
    watched = Supervisor(mark, mpiexec.pid, 3, None)
    wait_until(lambda: len(watched.known) == 4)
    first = next(process for process in watched.known if process.number == ranks[rank])
    os.kill(ranks[rank], signal.SIGKILL)
    while first.alive:  # without a pause, so that both deaths are there when the supervisor looks
        pass
    for number in ranks:
        os.kill(number, signal.SIGKILL)  # as mpiexec does
    wait_until(lambda: watched.first_dead is not None)
    mpiexec.kill()
    assert watched.stop() == ""
    reported = {"pid": str(ranks[rank]), "signal": "9"}
    assert f"rank {rank} of 3 was ended by SIGKILL, and all ranks" in watched.explain(9, reported)
    # It reports another one, which it has ended itself: the signal of the first is not known.
    reported["pid"] = str(ranks[rank - 1])
    assert f"rank {rank} of 3 has died, and all ranks with it" in watched.explain(9, reported)
    assert "mpiexec was ended by SIGKILL" in watched.explain(-9, {})
    assert watched.explain(1, {}) is None  # the ranks have said why


def test_a_rank_that_ends_the_job_is_not_contradicted(job):
    """When it asks for that, mpiexec's proxy may be seen to end before any rank."""
    mark, mpiexec, _ = job
    watched = Supervisor(mark, mpiexec.pid, 3, None)
    wait_until(lambda: len(watched.known) == 4)
    mpiexec.kill()
    processes.kill(watched.known)
    watched.stop()
    watched.first_dead, watched.mpiexec = next(each for each in watched.known if each.number == mpiexec.pid), 0
    assert "was ended" in watched.explain(2, {})
    assert watched.explain(2, {"abort": "2"}) is None


def test_a_stopped_process_ends_the_job_after_a_while(job, monkeypatch):
    mark, mpiexec, ranks = job
    monkeypatch.setattr(supervisor, "WATCH_MARGIN", 0.0)
    watched = Supervisor(mark, mpiexec.pid, 3, patience=0.5)
    wait_until(lambda: len(watched.known) == 4)
    os.kill(ranks[2], signal.SIGSTOP)
    mpiexec.wait(HANGING)
    assert watched.stop() == ""
    assert "rank 2 of 3 was stopped for 1 s, and all ranks with it" in watched.explain(-9, {})


def test_a_process_that_is_stopped_for_a_moment_is_waited_for(job, monkeypatch):
    mark, mpiexec, ranks = job
    monkeypatch.setattr(supervisor, "END_SECONDS", 0.1)
    watched = Supervisor(mark, mpiexec.pid, 3, patience=600)
    wait_until(lambda: len(watched.known) == 4)
    os.kill(ranks[0], signal.SIGSTOP)
    wait_until(lambda: any(watched.stopped.values()))
    os.kill(ranks[0], signal.SIGCONT)
    wait_until(lambda: not any(watched.stopped.values()))
    assert mpiexec.poll() is None
    mpiexec.kill()
    mpiexec.wait()
    assert watched.stop() == ""  # the ranks, which mpiexec left behind, were ended
    assert processes.members(mark) == {}


STARTS_ONE = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
child.stdout.readline()  # it is ready
print(child.pid, flush=True)
time.sleep(600)
"""
RANK = (
    "import time; from lessbits.engines.distributed.processes import die_with_parent\n"
    "die_with_parent(); print(flush=True); time.sleep(600)"
)
CHILDREN = {
    "a rank": [sys.executable, "-c", RANK],
    "mpiexec": [*processes.die_with_parent_prefix(), "/bin/sh", "-c", "echo && exec sleep 600"],
}


@pytest.mark.parametrize("who", CHILDREN)
def test_the_kernel_ends_a_process_whose_parent_was_killed(who):
    """It does so whatever the process does. The ranks' own watch, which looks once per second, is not there."""
    with subprocess.Popen([sys.executable, "-c", STARTS_ONE, *CHILDREN[who]], stdout=subprocess.PIPE) as parent:
        number = int(parent.stdout.readline())
        child = processes.Process(number, processes._facts(number)[2])
        assert child.alive
        parent.kill()
    end = time.monotonic() + PROMPT
    while child.alive and time.monotonic() < end:
        time.sleep(0.01)
    assert processes.kill([child] if child.alive else []) == []
    assert time.monotonic() < end


@pytest.mark.parametrize("lost", ["stdout", "stderr"])
def test_output_that_cannot_be_written_ends_no_rank(lost, tmp_path, monkeypatch):
    """The ranks write far more than fits a pipe: somebody must read it, or they would wait for ever."""
    stand_in = tmp_path / "mpiexec"
    to = {"stdout": 1, "stderr": 2}[lost]
    stand_in.write_text(f"#!/bin/sh\nseq 20000 >&{to} && echo done > {tmp_path / 'file'}\n")
    stand_in.chmod(0o700)
    monkeypatch.setattr(launch, "find_mpiexec", lambda: str(stand_in))
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, lost, full)
        if lost == "stdout":
            with pytest.raises(InputError, match=r"standard output could not be written \(No space left on device\)"):
                launch.launch(1, [])
        else:
            assert launch.launch(1, []) == 0  # there is nobody to tell
    assert (tmp_path / "file").read_text() == "done\n"


def test_too_little_shared_memory_is_said_before_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "SHARED_MEMORY", tmp_path)
    launch.check_shared_memory(2)
    with pytest.raises(InputError, match=r"MB free, but 9\d+ ranks need about .* MB of shared memory: .*--shm-size"):
        launch.check_shared_memory(999_999_999)


SMALL_SHARED_MEMORY = "mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root may mount a file system")
def test_a_container_with_little_shared_memory_is_said_before_the_start():
    """In a mount namespace of its own, whose /dev/shm has 1 MB."""
    if subprocess.run(["unshare", "-m", "sh", "-c", SMALL_SHARED_MEMORY + "true"], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    command = shlex.join([sys.executable, "-m", "lessbits", "run", "--engine", "mpi", "--ranks", "2"])
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", SMALL_SHARED_MEMORY + command], capture_output=True, text=True, timeout=HANGING
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "lessbits: /dev/shm has 1 MB free, but 2 ranks need about 2 MB of shared memory: give the container more "
        "(docker run --shm-size=1g), or remove what killed jobs left there\n"
    )


@pytest.mark.parametrize("flags", [("--patience", 0, "--engine", "mpi"), ("--patience", 5)])
def test_patience_is_a_number_above_zero_of_the_mpi_engine(flags, monkeypatch, capsys):
    from command_line import run_command

    status, _, err = run_command(monkeypatch, capsys, "run", *flags)
    assert (status, len(err.strip().splitlines())) == (2, 1)
    assert "patience" in err
