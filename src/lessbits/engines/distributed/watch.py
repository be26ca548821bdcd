"""Detection of ranks that are silent: a thread in every rank gives signs of life, and ends the job if others give none.

All ranks send theirs to rank 0, which sends its own to all, once per second. So a rank that is stopped is named, not
those that wait for it, however long the main threads wait or compute.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits._internal.logging import logger
from lessbits.engines.distributed.processes import SILENT, starters, unlink_shared_memory
from lessbits.errors import check_positive

if TYPE_CHECKING:
    from lessbits.engines.distributed.mpi import MpiTransport

BEAT = 1.0  # seconds between two signs of life
LOST = 300.0  # seconds in which all ranks live and wait, and nothing arrives; slow links take less
ROUNDS = 20  # a job with slow rounds is waited for as long as so many of them
STARTER_MARGIN = 10.0  # seconds by which ranks let the process that started them report first
DRAIN_SECONDS = 10.0
TAG = 2
SIGN = 4  # numbers of a sign of life
NOBODY = -1
COMPUTING, WAITING, DONE, BYE = range(4)


class Pulse:
    """What the main thread of a rank does, for its watch."""

    def __init__(self) -> None:
        self.doing, self.received, self.longest = COMPUTING, 0, 0.0
        self.awaited = NOBODY  # the rank that is waited for, if that is known
        self.round_began: float | None = None

    @contextmanager
    def waiting(self, doing: int = WAITING) -> Iterator[None]:
        """Mark a block of code that waits for other ranks."""
        self.doing = doing
        yield
        self.doing = COMPUTING
        self.received += 1

    def end_round(self) -> None:
        """Measure the time since the last exchange of messages."""
        now = time.monotonic()
        if self.round_began is not None:
            self.longest = max(self.longest, now - self.round_began)
        self.round_began = now

    def sign(self) -> list[int]:
        """Return a sign of life: what is done, how many messages came, the longest round in ms, and who is awaited."""
        return [self.doing, self.received, int(self.longest * 1000), self.awaited]


class Watch:
    """The watch of a rank over the others and over the processes that started it. All ranks must make one.

    Args:
        transport: All ranks of the job.
        patience: Seconds without a sign of life after which a rank, or a process that started this one, is given up. By
            default 60 seconds, or 20 of the longest rounds so far.
    """

    def __init__(self, transport: "MpiTransport", patience: float | None = None) -> None:
        self.transport, self.rank, self.size = transport, transport.rank, transport.size
        self.patience = None if patience is None else check_positive("patience", patience)
        self.interval = min(BEAT, (patience or SILENT) / 4)
        self.parent, self.starters = os.getppid(), starters()
        self.starters_stopped, self.unchanged, self.told = 0.0, 0.0, False
        self.signs = np.zeros((self.size, SIGN), np.int64)
        self.silence = np.zeros(self.size)  # seconds
        self.requests: dict[int, Any] = {}
        self.over = threading.Event()
        self.peers = transport.concurrent and self.size > 1
        if self.peers:
            self.world = transport.world.Dup()  # all ranks have mapped their shared memory when it returns
            unlink_shared_memory()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """End the watch, when no rank waits for another any more."""
        self.over.set()
        self.thread.join()
        if self.peers:
            self._drain()

    def _run(self) -> None:
        last = time.monotonic()
        while not self.over.wait(self.interval):
            now = time.monotonic()
            # If this process was stopped itself, the others are not blamed for that time.
            elapsed, last = min(now - last, 2 * self.interval), now
            self._watch_starters(elapsed)
            if not self.peers:
                continue
            try:
                self._send(self.transport.pulse.sign())
                self._receive(elapsed)
            except Exception as error:  # the MPI library noticed that a connection is lost
                self.transport.fail(error)
            self._judge()

    @property
    def _others(self) -> range:
        return range(1, self.size) if self.rank == 0 else range(1)

    def _send(self, sign: list[int]) -> None:
        """Send a sign of life, except to ranks that have not received the last one."""
        for other in self._others:
            if other not in self.requests or self.requests[other][0].Test():
                content = np.array(sign, np.int64)
                self.requests[other] = self.world.Isend(content, other, TAG), content

    def _receive(self, elapsed: float) -> None:
        before = self.signs.copy()
        self.signs[self.rank] = self.transport.pulse.sign()
        for other in self._others:
            self.silence[other] += elapsed
            while self.signs[other, 0] != BYE and self.world.Iprobe(other, TAG):
                self.world.Recv(self.signs[other], other, TAG)
                self.silence[other] = 0
            if self.signs[other, 0] == BYE:
                self.silence[other] = 0
        self.unchanged = 0.0 if (before[:, :2] != self.signs[:, :2]).any() else self.unchanged + elapsed
        self.told = self.told and self.unchanged > 0

    def _wait(self, least: float) -> float:
        slowest = self.signs[:, 2].max() / 1000
        return max(least, ROUNDS * slowest) if self.patience is None else self.patience

    def _judge(self) -> None:
        """End all ranks if one is silent, or if all wait for nothing. Say so if all wait for one that computes."""
        patience = self._wait(SILENT)
        # If rank 0 is silent, rank 1 reports it, if that is not silent too.
        if self.silence.max() > patience + 2 * min(max(self.rank - 1, 0), 5):
            silent = np.flatnonzero(self.silence > self.silence.max() - 3 * self.interval)
            self._end(f"{self._names(silent)} given no sign of life for {self.silence.max():.0f} s")
        if self.rank > 0:
            return
        doing = self.signs[:, 0]
        if (doing != COMPUTING).all() and self.unchanged > self._wait(LOST):
            waiting = doing == WAITING if (doing == WAITING).any() else doing >= 0
            last = np.flatnonzero(waiting & (self.signs[:, 1] == self.signs[waiting, 1].min()))
            self._end(
                f"all ranks live and wait, but nothing has arrived for {self.unchanged:.0f} s, and "
                f"{self._names(last)} waited longest: a message or a connection was lost{self._between(last)}"
            )
        busy = np.flatnonzero(doing == COMPUTING)
        if len(busy) and (doing == WAITING).any() and self.unchanged > self._wait(SILENT) and not self.told:
            self.told = True
            logger.warning(f"{self._names(busy)} been computing for {self.unchanged:.0f} s, and others wait")

    def _between(self, ranks: np.ndarray) -> str:
        """Return for whom these ranks wait, in words, if that is known."""
        awaited = ((int(rank), int(self.signs[rank, 3])) for rank in ranks)
        pairs = sorted({(min(pair), max(pair)) for pair in awaited if pair[1] != NOBODY})
        return " between ranks " + ", and ".join(f"{one} and {other}" for one, other in pairs) if pairs else ""

    def _names(self, ranks: np.ndarray) -> str:
        numbers = ", ".join(str(rank) for rank in ranks)
        return f"rank {numbers} of {self.size} has" if len(ranks) == 1 else f"ranks {numbers} of {self.size} have"

    def _end(self, what: str) -> None:
        self.transport.end(f"lessbits: {what}: all ranks end; more patience would wait longer", status=1)

    def _watch_starters(self, elapsed: float) -> None:
        """End this rank if a process that started it has ended, or was stopped for too long."""
        gone = os.getppid() != self.parent or not all(process.alive for process in self.starters)
        stopped = [process for process in self.starters if process.stopped]
        self.starters_stopped = self.starters_stopped + elapsed if stopped else 0.0
        if not gone and self.starters_stopped <= (self.patience or SILENT) + STARTER_MARGIN:
            return
        why = "has ended" if gone else f"({stopped[0].name}) was stopped for {self.starters_stopped:.0f} s"
        if self.rank == 0:
            with contextlib.suppress(OSError):  # it may have been the one that forwarded this
                print(f"lessbits: the process that started the ranks {why}: all end", file=sys.stderr, flush=True)
        os._exit(1)  # MPI would ask the process that started it to end the others, which see this by themselves

    def _drain(self) -> None:
        """Exchange last signs, so that no message is left when the communicator is freed."""
        end = time.monotonic() + DRAIN_SECONDS
        pending = True
        if self.rank > 0:
            self._farewell()
        while pending and time.monotonic() < end:
            self._receive(0.0)
            pending = any(self.signs[other, 0] != BYE for other in self._others)
            time.sleep(0.001 if pending else 0)
        if self.rank == 0:
            self._farewell()
        if not pending:
            self.world.Free()

    def _farewell(self) -> None:
        for other in self._others:
            if other in self.requests:
                self.requests[other][0].Wait()
            self.world.Send(np.array([BYE, *[0] * (SIGN - 1)], np.int64), other, TAG)
