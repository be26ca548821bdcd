"""Jobs of several processes, each with a time limit, that leave nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from compiled_programs import quick_flags

BIN = Path(sys.executable).parent
HANGING = 1200  # seconds after which a job hangs, however slow the machine is
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "MPI"))}


def start(*command, quickly=False, **options):
    """Start a command in a session of its own, so that all that it starts can be found and ended.

    It compiles quickly where its bits are not compared with those of another process.
    """
    return subprocess.Popen(
        [str(part) for part in command],
        env={**ENVIRONMENT, **(quick_flags() if quickly else {})},
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
