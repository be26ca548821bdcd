"""Detection of processes that end while others still wait for their messages. All processes are then ended."""

import atexit
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from lessbits.engines.distributed.watch import DONE

if TYPE_CHECKING:
    from lessbits.engines.distributed.mpi import MpiTransport

POLL_INTERVAL = 1.0  # seconds
TAG = 1


class DepartureNotice:
    """Notifies the neighbours when this process ends, and receives their notices in a thread.

    Without it MPI waits forever for the message of a process that left its loop before the others, or called
    `sys.exit`.
    """

    def __init__(self, transport: "MpiTransport", neighbors: Sequence[int]) -> None:
        self.transport, self.neighbors = transport, neighbors
        self.iteration, self.waiting = 0, False
        if transport.size == 1:
            return
        self.world = transport.world.Dup()  # keeps these notices apart from the user's own MPI messages
        self.ending = threading.Event()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        atexit.register(self._leave)

    @contextmanager
    def expecting(self, iteration: int) -> Iterator[None]:
        """Mark a block of code that waits for the messages of an iteration."""
        self.iteration, self.waiting = iteration, True
        yield
        self.iteration, self.waiting = iteration + 1, False

    def _listen(self) -> None:
        notice = np.zeros(2, np.int64)
        left: dict[int, tuple[int, int]] = {}
        while not self.ending.wait(POLL_INTERVAL):
            for neighbor in self.neighbors:
                if neighbor not in left and self.world.Iprobe(neighbor, TAG):
                    self.world.Recv(notice, neighbor, TAG)
                    left[neighbor] = int(notice[0]), int(notice[1])
            for neighbor, (iterations, turn) in left.items():
                if self.waiting and self.iteration >= iterations:
                    time.sleep(turn * POLL_INTERVAL)  # so that only one of its neighbours prints the line
                    self.transport.end(
                        f"lessbits: node {neighbor} has ended after {iterations} iterations, but node "
                        f"{self.transport.rank} waits for its message of iteration {self.iteration}: all end",
                        status=1,
                    )

    def _leave(self) -> None:
        """Notify the neighbours, and wait until all processes end."""
        self.ending.set()
        self.listener.join()
        notices = [np.array([self.iteration, turn]) for turn in range(len(self.neighbors))]
        requests = [self.world.Isend(*pair, TAG) for pair in zip(notices, self.neighbors, strict=True)]
        with self.transport.pulse.waiting(DONE):
            barrier = self.world.Ibarrier()
            while not barrier.Test():
                time.sleep(POLL_INTERVAL / 20)
        for request in requests:
            request.Wait()
