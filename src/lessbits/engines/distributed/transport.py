"""Transports, which carry bytes between the processes of a run (the ranks). A single process is the simplest one."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from lessbits._internal.memory import free_memory
from lessbits.errors import InputError, WireError

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


MOST_BYTES = 2**40  # of an array, where it is not known how much memory is free
SMALL_BYTES = 2**20  # which always fit
NUMBERS = "?bBhHiIlLqQfd"  # types of arrays that ranks send each other, as NumPy's characters


def announced_room(header: np.ndarray) -> np.ndarray:
    """Return an empty array for what rank 0 announced: its type, its dimensions and its shape.

    Raise a `WireError` if no rank sends such an array.
    """
    code, dimensions, *sizes = header.tolist()
    text = (code & (2**64 - 1)).to_bytes(8, "little").rstrip(b"\0").decode("latin-1")
    kind = next((np.dtype(letter) for letter in NUMBERS if np.dtype(letter).str == text), None)
    shape = sizes[: max(dimensions, 0)]
    what = f"from rank 0: an array of type {text!r} and shape {shape} was announced"
    if kind is None or not 0 <= dimensions <= len(sizes) or min(sizes) < 0:
        raise WireError(f"{what}, but none has such a type or shape")
    size = math.prod(shape) * kind.itemsize
    if size > SMALL_BYTES and size > (free_memory() or MOST_BYTES):
        raise WireError(f"{what}, which does not fit the free memory")
    return np.empty(shape, kind)


def check_counts(counts: np.ndarray, rows: np.ndarray) -> int:
    """Return the sum of the bytes that ranks announced. Raise a `WireError` if one did not announce whole rows."""
    row_bytes = rows.dtype.itemsize * int(np.prod(rows.shape[1:]))
    for rank, count in enumerate(counts.tolist()):
        if count < 0 or (count % row_bytes if row_bytes else count):
            raise WireError(f"from rank {rank}: {count} bytes were announced, but a row has {row_bytes}")
    return int(counts.sum())
