"""Transports, which carry bytes between the processes of a run (the ranks). A single process is the simplest one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from lessbits.errors import InputError

Answer = TypeVar("Answer")


class Transport(ABC):
    """Communication between ranks. Every rank must call the same functions in the same order.

    `exchange` carries the messages of a run. The other functions serve set-up, metrics and checkpoints.
    """

    rank: int
    size: int

    @abstractmethod
    def connect(self, neighbors: Sequence[int]) -> None:
        """Connect to the ranks that this one exchanges messages with."""

    @abstractmethod
    def exchange(self, outgoing: Sequence[bytes], sizes: Sequence[int]) -> list[memoryview]:
        """Send bytes to each neighbour, and return the bytes received from each, whose lengths are `sizes`."""

    @abstractmethod
    def gather(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the rows of all ranks, in the order of the ranks, at rank 0; return None elsewhere."""

    @abstractmethod
    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Return rank 0's array at every rank."""

    @abstractmethod
    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Apply `add` at one rank after the other, each to the result of the previous one; return the last result."""

    def all_gather(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of all ranks, in the order of the ranks, at every rank."""
        return self.broadcast(self.gather(rows))

    def all_say(self, text: str | None) -> list[str | None]:
        """Send a text or None to all ranks, and return those of all ranks."""
        content = np.frombuffer((text or "").encode(), np.uint8)
        lengths = self.all_gather(np.array([-1 if text is None else len(content)]))
        joined = self.all_gather(content).tobytes()
        ends = np.cumsum(np.maximum(lengths, 0))
        return [
            None if length < 0 else joined[end - length : end].decode()
            for length, end in zip(lengths, ends, strict=True)
        ]

    def at_first(self, function: Callable[[], Answer]) -> Answer | None:
        """Call a function only at rank 0, and return its result there. If it raises an `InputError`, all ranks do."""
        answer, refused = None, None
        if self.rank == 0:
            try:
                answer = function()
            except InputError as error:
                refused = str(error)
        refused = self.all_say(refused)[0]
        if refused is not None:
            raise InputError(refused)
        return answer

    def any(self, said: bool) -> bool:
        """Return whether the argument is true at any rank."""
        return bool(self.all_gather(np.array([said])).any())

    def close(self) -> None:
        """Release what `connect` acquired."""
        return


class SingleProcess(Transport):
    """One process that holds all nodes."""

    rank, size = 0, 1

    def connect(self, neighbors: Sequence[int]) -> None:
        """Do nothing: there are no other ranks."""
        assert not neighbors

    def exchange(self, outgoing: Sequence[bytes], sizes: Sequence[int]) -> list[memoryview]:
        """Return nothing: there are no neighbours."""
        return []

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows, which are all here."""
        return rows

    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Return the array."""
        assert array is not None
        return array

    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Apply `add` once."""
        return add(start)


def held_nodes(nodes: int, ranks: int) -> list[np.ndarray]:
    """Return the nodes of each rank: blocks of consecutive numbers, whose sizes differ by at most one."""
    return np.array_split(np.arange(nodes), ranks)
