"""Processes that a benchmark starts, and ends whatever happens."""

import os
import signal
import subprocess
import time


class Processes:
    """A context manager that ends all processes that were started in it, with their children."""

    def __init__(self, log):
        self.log, self.started = log, []

    def __enter__(self):
        return self

    def start(self, command, **environment):
        """Start a command in a session of its own; what it says is appended to the log."""
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def wait(self, seconds, processes=None):
        """Wait until processes have ended, and raise with the end of the log if one fails or takes too long."""
        until = time.monotonic() + seconds
        for process in self.started if processes is None else processes:
            try:
                status = process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"not done in {seconds:.0f} s: {self.said()}") from None
            if status:
                raise RuntimeError(f"status {status}: {self.said()}")

    def said(self):
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-1500:]

    def __exit__(self, *ignored):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.started:
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    continue
            until = time.monotonic() + 5
            for process in self.started:
                try:
                    process.wait(max(0.1, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    continue
