"""What the launcher does while mpiexec runs: it notices processes that die or are stopped, and ends the job."""

import os
import select
import signal
import sys
import threading
import time

from lessbits.engines.distributed.processes import SILENT, Process, kill, members

POLL_INTERVAL = 0.25  # seconds
WATCH_MARGIN = 5.0  # seconds by which the ranks' own watch is given the first word
END_SECONDS = 3.0  # for mpiexec to end its ranks by itself
RESUME = {  # by what the processes of a job are
    "rank": "if checkpoints were written, start again with --resume",
    "node": "if all nodes saved states of one step, start again, and load the last of these",
}


class Supervisor:
    """A thread that watches mpiexec, its proxy and the ranks of a job. On systems other than Linux it sees none.

    Args:
        job: The mark of the job's processes.
        mpiexec: The number of its first process.
        ranks: How many ranks there are.
        patience: Seconds for which a process may be stopped.
        kind: What a process of the job is to its user: a rank of a run, or a node that trains a model.
    """

    def __init__(self, job: str, mpiexec: int, ranks: int, patience: float | None, kind: str = "rank") -> None:
        self.job, self.mpiexec, self.ranks, self.kind = job, mpiexec, ranks, kind
        self.patience = (patience or SILENT) + WATCH_MARGIN
        self.known: dict[Process, str] = {}  # by what to call them
        self.first_dead: Process | None = None
        self.stopped: dict[Process, float] = {}  # seconds
        self.reason = ""  # why this ended the job
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self) -> str:
        """End the watch after mpiexec, and what is left of the job. Return a line about what cannot be ended."""
        self.over.set()
        self.thread.join()
        end = time.monotonic() + END_SECONDS
        while members(self.job) and time.monotonic() < end:
            time.sleep(0.05)
        left = self.end()
        return f"lessbits: processes {', '.join(str(each.number) for each in left)} could not be ended" if left else ""

    def end(self) -> list[Process]:
        """Kill all processes of the job, and return those that are still there."""
        return kill(members(self.job))

    def explain(self, status: int, reported: dict[str, str]) -> str | None:
        """Return why the job ended, unless its ranks said it: `status` is mpiexec's, and `reported` what it printed."""
        first = self.first_dead
        name = f"a {self.kind}" if first is None else self.known[first]
        if self.reason:
            what = self.reason
        elif status < 0:
            what = f"mpiexec was ended by {_signal_name(-status)}"
        elif "signal" in reported:
            # mpiexec may report a rank that it ended itself, after another one had died.
            sure = first is not None and str(first.number) == reported.get("pid")
            what = f"{name} was ended by {_signal_name(int(reported['signal']))}" if sure else f"{name} has died"
        elif "abort" in reported:  # a rank said why and asked for the end of all, of which any may be seen first
            return None
        elif status and first is not None and first.number != self.mpiexec and not name.startswith(self.kind):
            what = f"{name} was ended"
        else:
            return None
        # Elsewhere nothing can be checked.
        with_it = f", and all {self.kind}s with it" if sys.platform == "linux" else ""
        return f"lessbits: {what}{with_it}: {RESUME[self.kind]}"

    def _run(self) -> None:
        deaths = _Deaths()
        last = time.monotonic()
        while not self.over.is_set():
            if sum(name.startswith(self.kind) for name in self.known.values()) < self.ranks:
                self._find(deaths)
            if self.first_dead is None:
                self.first_dead = deaths.first(POLL_INTERVAL)
            else:
                self.over.wait(POLL_INTERVAL)
            now = time.monotonic()
            # If this process was stopped itself, the others are not blamed for that time.
            elapsed, last = min(now - last, 2 * POLL_INTERVAL), now
            self._end_stopped(elapsed)
        deaths.close()

    def _find(self, deaths: "_Deaths") -> None:
        found = members(self.job)
        launchers = {process.number for process, rank in found.items() if rank is None}
        for process, rank in found.items():
            if rank is None or process.parent in launchers:  # others were started by ranks
                if process not in self.known:
                    deaths.expect(process)
                self.known[process] = process.name if rank is None else f"{self.kind} {rank} of {self.ranks}"

    def _end_stopped(self, elapsed: float) -> None:
        """End the job if one of its processes is stopped for longer than the patience."""
        for process, name in self.known.items():
            self.stopped[process] = self.stopped.get(process, 0.0) + elapsed if process.stopped else 0.0
            if self.stopped[process] > self.patience and not self.reason:
                self.reason = f"{name} was stopped for {self.stopped[process]:.0f} s"
                self.end()


class _Deaths:
    """Which of some processes ends first. It sees none where the kernel has no file descriptors for processes."""

    def __init__(self) -> None:
        self.able = hasattr(select, "epoll") and hasattr(os, "pidfd_open")
        self.list = select.epoll() if self.able else None
        self.expected: dict[int, Process] = {}

    def expect(self, process: Process) -> None:
        """Add a process."""
        if self.list is not None:
            try:
                descriptor = os.pidfd_open(process.number)
            except OSError:  # it has ended already
                return
            self.expected[descriptor] = process
            self.list.register(descriptor, select.EPOLLIN)

    def first(self, seconds: float) -> Process | None:
        """Wait for one to end, and return it. The kernel lists them in the order in which they ended."""
        if self.list is None:
            time.sleep(seconds)
            return None
        ended = self.list.poll(seconds, 1)
        return self.expected[ended[0][0]] if ended else None

    def close(self) -> None:
        """Close the file descriptors."""
        for descriptor in self.expected:
            os.close(descriptor)
        if self.list is not None:
            self.list.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
