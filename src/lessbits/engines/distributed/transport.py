"""What carries bytes between the processes of a run, the ranks; one process alone is the simplest case."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from lessbits.errors import InputError

Answer = TypeVar("Answer")


class Transport(ABC):
    """Ranks that exchange bytes with their neighbours, and now and then tell all of them something.

    `exchange` carries the messages of a run; the rest is for agreeing and keeping score. Every rank must call the same
    functions in the same order.
    """

    rank: int
    size: int

    @abstractmethod
    def connect(self, neighbors: Sequence[int]) -> None:
        """Say which ranks this one exchanges messages with."""

    @abstractmethod
    def exchange(self, outgoing: Sequence[bytes], sizes: Sequence[int]) -> list[memoryview]:
        """Send bytes to each neighbour, and return what came from each: as many bytes as `sizes` says."""

    @abstractmethod
    def gather(self, rows: np.ndarray) -> np.ndarray | None:
        """Join the rows of all ranks, in the order of the ranks, at rank 0; elsewhere return None."""

    @abstractmethod
    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Return rank 0's array at every rank."""

    @abstractmethod
    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Let one rank after the other add to what the ranks before have, and return the last one's at every rank."""

    def all_gather(self, rows: np.ndarray) -> np.ndarray:
        """Join the rows of all ranks at every rank."""
        return self.broadcast(self.gather(rows))

    def all_say(self, text: str | None) -> list[str | None]:
        """Tell all ranks a line, or nothing, and hear theirs."""
        content = np.frombuffer((text or "").encode(), np.uint8)
        lengths = self.all_gather(np.array([-1 if text is None else len(content)]))
        joined = self.all_gather(content).tobytes()
        ends = np.cumsum(np.maximum(lengths, 0))
        return [
            None if length < 0 else joined[end - length : end].decode()
            for length, end in zip(lengths, ends, strict=True)
        ]

    def at_first(self, function: Callable[[], Answer]) -> Answer | None:
        """Call a function at rank 0 alone, and return its answer there; what it refuses, all ranks refuse."""
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
        """Whether any rank says so."""
        return bool(self.all_gather(np.array([said])).any())

    def close(self) -> None:
        """Give back what `connect` took."""
        return


class SingleProcess(Transport):
    """One process that holds all nodes."""

    rank, size = 0, 1

    def connect(self, neighbors: Sequence[int]) -> None:
        """There is nobody else."""
        assert not neighbors

    def exchange(self, outgoing: Sequence[bytes], sizes: Sequence[int]) -> list[memoryview]:
        """Nothing to send."""
        return []

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """All rows are here."""
        return rows

    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Everybody has it."""
        assert array is not None
        return array

    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Nobody is before or after."""
        return add(start)


def held_nodes(nodes: int, ranks: int) -> list[np.ndarray]:
    """Deal the nodes to the ranks in blocks of consecutive numbers, whose sizes differ by one at most."""
    return np.array_split(np.arange(nodes), ranks)
