"""Jobs of several processes, each with a time limit, that leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from compiled_programs import quick_flags

BIN = Path(sys.executable).parent
HANGING = 1200  # seconds after which a job hangs, however slow the machine is
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "MPI"))}


def start(*command, quickly=False, environment=None, **options):
    """Start a command in a session of its own, so that all that it starts can be found and ended.

    It compiles quickly where its bits are not compared with those of another process.
    """
    return subprocess.Popen(
        [str(part) for part in command],
        env={**ENVIRONMENT, **(quick_flags() if quickly else {}), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def finish(process, seconds=HANGING):
    """Return the status and what was printed; a job that does not end in time is ended, and fails the test."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"the job did not end within {seconds} s:\n{out}\n{err}") from None
    return process.returncode, out, err


def mpiexec(ranks, *command, **options):
    """Run a Python program or a command on so many ranks."""
    return finish(start(BIN / "mpiexec", "-n", ranks, *command, **options))


def processes_with(text):
    """Return the numbers of the processes whose command line has this text, but for those that are gone already."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                gone = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                continue
            if text in line and not gone:
                found.append((int(entry.name), line))
    return found


def segments_of(number):
    """Return the segments of shared memory that a process has mapped, by the names that they have or had."""
    names = (line.split(maxsplit=5)[-1] for line in Path(f"/proc/{number}/maps").read_text().splitlines())
    return {Path(name.removesuffix(" (deleted)")) for name in names if name.startswith("/dev/shm/")}


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

    def __init__(self, folder, *arguments, ready, quickly=True, environment=None):
        self.mark = str(folder)
        self.process = start(BIN / "lessbits", *arguments, quickly=quickly, environment=environment)
        wait_until(ready, self.process)
        found = [number for number, _ in processes_with(self.mark)]
        self.roles = {str(rank_of(number)): number for number in found if rank_of(number) is not None}
        self.segments = set().union(*map(segments_of, self.roles.values()))
        self.roles["proxy"] = parent_of(self.roles["0"])
        self.roles["mpiexec"] = parent_of(self.roles["proxy"])
        self.roles["launcher"] = self.process.pid

    def leaves_nothing(self):
        wait_until(lambda: not processes_with(self.mark) and not Path(f"/proc/{self.roles['proxy']}").exists())
        assert self.segments
        assert not [segment for segment in self.segments if segment.exists()]

    def ranks_end(self):
        """Wait until no rank lives."""
        wait_until(lambda: not any(_lives(number) for name, number in self.roles.items() if name.isdigit()))

    def end(self):
        """End what is left of the job."""
        for number in self.roles.values():
            if Path(f"/proc/{number}").exists():
                os.kill(number, signal.SIGKILL)
        self.process.communicate()


def _lives(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
