"""Runs on MPI processes: each rank holds some nodes, and MPI carries their messages as bytes.

This is the only module that imports mpi4py.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

import numpy as np

from lessbits._internal.keyword_options import read_options, takes_options
from lessbits._internal.logging import logger
from lessbits._internal.wording import counted
from lessbits.engines.distributed.stepwise import run_stepwise
from lessbits.engines.distributed.transport import Transport, announced_room, check_counts
from lessbits.engines.distributed.watch import DONE, NOBODY, Pulse, Watch
from lessbits.engines.interrupts import Interrupted, Interrupts
from lessbits.engines.options import RunKeywords, RunOptions
from lessbits.engines.recording.trace import Trace
from lessbits.errors import InputError, WireError, mistake_line
from lessbits.methods.base import Method
from lessbits.networks import Network
from lessbits.problems.base import Problem

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is installed, but no MPI library
    MPI, MISSING = None, str(error)  # type: ignore[assignment]

GRACE = 1.0  # seconds that other ranks wait for rank 0 to report the same error
FLUSH_SECONDS = 0.25  # until the launcher has forwarded what was printed
POLL_INTERVAL = 0.01  # seconds between two tests of a barrier


class MpiTransport(Transport):
    """Transport between the ranks of an MPI communicator, of byte buffers.

    `given` counts the bytes of all messages passed to MPI. `pulse` says whether this rank waits for others.
    """

    def __init__(self, communicator: Any = None, pulse: Pulse | None = None) -> None:
        if MPI is None:
            raise InputError(
                f"the MPI engine needs mpi4py and an MPI library ({MISSING}): pip install 'lessbits[mpi]' brings both"
            )
        self.world = MPI.COMM_WORLD if communicator is None else communicator
        self.rank, self.size = self.world.Get_rank(), self.world.Get_size()
        self.links: Any = None  # a communicator of its own for messages
        self.neighbors: list[int] = []
        self.given = 0
        self.pulse = pulse or Pulse()

    @property
    def concurrent(self) -> bool:
        """Whether the MPI library may be called by several threads at the same time."""
        return MPI.Query_thread() == MPI.THREAD_MULTIPLE

    def connect(self, neighbors: Sequence[int]) -> None:
        """Create a communicator, so that messages meet no others."""
        self.close()
        self.links, self.neighbors = self.world.Dup(), list(neighbors)

    def close(self) -> None:
        """Free the communicator of messages."""
        if self.links is not None:
            self.links.Free()
            self.links = None

    def exchange(self, outgoing: Sequence[bytes], sizes: Sequence[int]) -> list[memoryview]:
        """Exchange bytes with all neighbours at the same time.

        A collective would do the same, but could not tell whose message is missing if one is lost.
        """
        self.given += sum(len(part) for part in outgoing)
        received = [np.empty(size, np.uint8).data for size in sizes]
        requests = [
            (neighbor, start([part, MPI.BYTE], neighbor))
            for start, parts in ((self.links.Irecv, received), (self.links.Isend, outgoing))
            for neighbor, part in zip(self.neighbors, parts, strict=True)
            if len(part)
        ]
        with self.pulse.waiting():
            for self.pulse.awaited, request in requests:
                _complete(request, self.pulse.awaited)
            self.pulse.awaited = NOBODY
        self.pulse.end_round()
        return received

    def gather(self, rows: np.ndarray) -> np.ndarray | None:
        """Gather the rows at rank 0, as bytes."""
        content = np.ascontiguousarray(rows).view(np.uint8).reshape(-1)
        counts = np.zeros(self.size, np.int64) if self.rank == 0 else None
        with self.pulse.waiting():
            self.world.Gather(np.array([len(content)], np.int64), counts)
            if counts is None:
                self.world.Gatherv([content, MPI.BYTE], None)
                return None
            room = np.empty(check_counts(counts, rows), np.uint8)
            self.world.Gatherv([content, MPI.BYTE], [room, counts, None, MPI.BYTE])
        return room.view(rows.dtype).reshape(-1, *rows.shape[1:])

    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Broadcast type and shape, then the bytes."""
        header = np.zeros(16, np.int64)
        if self.rank == 0:
            assert array is not None
            array = np.require(array, requirements=["C", "W"])
            header[: 2 + array.ndim] = [int.from_bytes(array.dtype.str.encode(), "little"), array.ndim, *array.shape]
        with self.pulse.waiting():
            self.world.Bcast(header)
            room = array if self.rank == 0 and array is not None else announced_room(header)
            self.world.Bcast([room, MPI.BYTE])
        return room

    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Pass the total from rank to rank."""
        total = np.ascontiguousarray(start)
        if self.rank > 0:
            total = np.empty_like(total)
            with self.pulse.waiting():
                self.world.Recv([total, MPI.BYTE], source=self.rank - 1)
        total = np.require(add(total), requirements=["C", "W"])
        with self.pulse.waiting():
            if self.rank < self.size - 1:
                self.world.Send([total, MPI.BYTE], dest=self.rank + 1)
            self.world.Bcast([total, MPI.BYTE], root=self.size - 1)
        return total

    def ranks_with_nodes(self, nodes: int) -> "MpiTransport | None":
        """Return the transport of the ranks that have nodes, or None at ranks without nodes, which is said."""
        if self.size <= nodes:
            return self
        if self.rank == 0:
            logger.warning(
                f"{self.size} ranks share {counted(nodes, 'node')}: those without a node only wait, and slow down "
                f"others on the same cores; start at most {nodes}"
            )
        ranks = self.world.Split(0 if self.rank < nodes else MPI.UNDEFINED, self.rank)
        return None if ranks == MPI.COMM_NULL else MpiTransport(ranks, self.pulse)

    def fail(self, error: BaseException, details: str = "") -> None:
        """End all ranks, with one line that says why, after `details`.

        An error that all ranks share is reported only by rank 0: the others wait for it, and are ended by it.
        """
        if self.rank > 0:
            time.sleep(GRACE + 0.02 * self.rank)
        mistake = mistake_line(error)
        text = " ".join(str(error).split()) if mistake is None else mistake
        who = "" if mistake is not None and self.rank == 0 else f"rank {self.rank} of {self.size}: "
        kind = "" if isinstance(error, InputError) or mistake is not None else f"{type(error).__name__}: "
        status = 1 if mistake is None else 2
        if isinstance(error, KeyboardInterrupt):
            who, kind, text, status = "", "", "interrupted", 130
        self.end(f"{details}lessbits: {who}{kind}{text}", status)

    def end(self, line: str, status: int) -> None:
        """Print a line, and end all ranks."""
        print(line, file=sys.stderr, flush=True)
        time.sleep(FLUSH_SECONDS)
        self.world.Abort(status)
        os._exit(status)  # after MPI's abort this process may continue for a moment

    def wait(self) -> None:
        """Wait at a barrier for all ranks, without keeping a core busy. The first signal meanwhile is ignored."""
        with Interrupts(), self.pulse.waiting(DONE):
            barrier = self.world.Ibarrier()
            while not barrier.Test():
                time.sleep(POLL_INTERVAL)


def _complete(request: Any, other: int) -> None:
    """Wait until a message is sent or received. Say with whom if that fails, as when the one before it was lost."""
    try:
        request.Wait()
    except MPI.Exception as error:
        raise WireError(f"from or to rank {other}: {str(error).partition(', error stack')[0]}") from None


@takes_options(RunOptions)
def run_mpi(
    problem: Problem,
    network: Network,
    method: Method,
    *,
    communicator: Any = None,
    patience: float | None = None,
    **options: Unpack[RunKeywords],
) -> Trace | None:
    """Run a method as `simulate` does, on the ranks of an MPI communicator. All ranks must call this function.

    Each rank holds a block of nodes. All ranks return the same trace, except for ranks without nodes, which return None
    when the others are done. If one rank raises, all end with its message.

    Args:
        problem: The whole problem, of which a rank keeps its own nodes, or a `PartitionedProblem`.
        network: The links between nodes, with their weights.
        method: The method, with its step sizes.
        communicator: An mpi4py communicator; by default all processes that the launcher started.
        patience: Seconds without a sign of life from a rank after which all ranks end. By default 60, or 20 times the
            longest iteration so far.
        **options: The fields of `RunOptions`, the same at every rank.
    """
    run_options = read_options(RunOptions, options, "run_mpi")
    with all_ranks(communicator, patience) as world:
        transport = world.ranks_with_nodes(network.nodes)
        return None if transport is None else run_stepwise(problem, network, method, transport, run_options)


@contextmanager
def all_ranks(communicator: Any = None, patience: float | None = None) -> Iterator[MpiTransport]:
    """Yield the transport of all ranks. If one of several ranks raises inside or is silent, all end with its message.

    At the end ranks wait for the others. A rank without work that was ended by a signal would end the whole run.
    """
    world = MpiTransport(communicator)
    watch = Watch(world, patience)
    try:
        yield world
        world.wait()
    except Interrupted:  # raised at all ranks
        world.wait()
        raise
    except BaseException as error:
        if world.size == 1:
            raise
        world.fail(error)
    finally:
        watch.stop()
