"""A process that ends while others still wait for its messages says so, and all end."""

import atexit
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lessbits.engines.distributed.mpi import MpiTransport

LOOK_EVERY = 1.0  # seconds
TAG = 1


class DepartureNotice:
    """Tells the neighbours when this process ends, and listens for theirs while it waits for a message.

    MPI would wait for ever for the message of a process that has left its loop earlier than the others, or that was
    ended by `sys.exit`.
    """

    def __init__(self, transport: "MpiTransport", neighbors: Sequence[int]) -> None:
        self.transport, self.neighbors = transport, neighbors
        self.iteration, self.waiting = 0, False
        if transport.size == 1:
            return
        self.world = transport.world.Dup()  # so that no message of ours is taken for one of the user's
        self.ending = threading.Event()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        atexit.register(self._leave)

    @contextmanager
    def expecting(self, iteration: int) -> Iterator[None]:
        """Mark the time in which messages of an iteration are waited for."""
        self.iteration, self.waiting = iteration, True
        yield
        self.iteration, self.waiting = iteration + 1, False

    def _listen(self) -> None:
        notice = np.zeros(2, np.int64)
        left: dict[int, tuple[int, int]] = {}
        while not self.ending.wait(LOOK_EVERY):
            for neighbor in self.neighbors:
                if neighbor not in left and self.world.Iprobe(neighbor, TAG):
                    self.world.Recv(notice, neighbor, TAG)
                    left[neighbor] = int(notice[0]), int(notice[1])
            for neighbor, (iterations, turn) in left.items():
                if self.waiting and self.iteration >= iterations:
                    time.sleep(turn * LOOK_EVERY)  # one of its neighbours says it for all
                    self.transport.end(
                        f"lessbits: node {neighbor} has ended after {iterations} iterations, but node "
                        f"{self.transport.rank} waits for its message of iteration {self.iteration}: all end",
                        status=1,
                    )

    def _leave(self) -> None:
        """Tell the neighbours, and wait for all to come to their end."""
        self.ending.set()
        self.listener.join()
        parting = [np.array([self.iteration, turn]) for turn in range(len(self.neighbors))]
        notice = [self.world.Isend(*pair, TAG) for pair in zip(parting, self.neighbors, strict=True)]
        everybody = self.world.Ibarrier()
        while not everybody.Test():
            time.sleep(LOOK_EVERY / 20)
        for message in notice:
            message.Wait()
