"""Links over MPI: each process is a node."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from lessbits.errors import InputError, WireError
from lessbits.training.links import Links, NoLinks

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is installed, but no MPI library
    MPI, MISSING = None, str(error)  # type: ignore[assignment]

MOST_BYTES = 2**31 - 1  # of one MPI message
PAUSE = 0.001  # seconds between two looks at messages under way: MPI itself would keep a core busy meanwhile


class MpiLinks(Links):
    """Frames as buffers of bytes, on a communicator of their own."""

    def __init__(self, communicator: Any = None) -> None:
        if MPI is None:
            raise InputError(
                f"nodes that are MPI processes need mpi4py and an MPI library ({MISSING}): "
                "pip install 'lessbits[mpi]' brings both"
            )
        self.world = (MPI.COMM_WORLD if communicator is None else communicator).Dup()
        self.node, self.nodes = self.world.Get_rank(), self.world.Get_size()
        self.pause = 0.0

    def allow_overlap(self) -> None:
        """Leave cores to training, while messages are under way in another thread."""
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise InputError(
                "overlap needs an MPI that may be called by several threads, but it was started without "
                "(MPI_THREAD_MULTIPLE): leave out mpi4py.rc settings, or overlap"
            )
        self.pause = PAUSE

    def exchange(self, frames: Mapping[int, bytes]) -> dict[int, bytes]:
        """Send lengths, then bytes, to all at the same time."""
        for other, frame in frames.items():
            if len(frame) > MOST_BYTES:
                raise InputError(f"a message to node {other} has {len(frame)} bytes, but MPI carries {MOST_BYTES}")
        lengths = self._swap({other: np.array([len(frame)], np.int64) for other, frame in frames.items()}, None)
        wanted = {other: int(length.view(np.int64)[0]) for other, length in lengths.items()}
        for other, length in wanted.items():
            if not 0 <= length <= MOST_BYTES:
                raise WireError(f"node {other} announced a message of {length} bytes")
        received = self._swap({other: np.frombuffer(frame, np.uint8) for other, frame in frames.items()}, wanted)
        return {other: part.tobytes() for other, part in received.items()}

    def close(self) -> None:
        """Free the communicator."""
        self.world.Free()

    def _swap(self, outgoing: Mapping[int, np.ndarray], sizes: Mapping[int, int] | None) -> dict[int, np.ndarray]:
        rooms = {other: np.empty(8 if sizes is None else sizes[other], np.uint8) for other in outgoing}
        requests = [self.world.Irecv([room, MPI.BYTE], other) for other, room in rooms.items() if room.size]
        parts = {other: part.view(np.uint8) for other, part in outgoing.items()}
        requests += [self.world.Isend([part, MPI.BYTE], other) for other, part in parts.items() if part.size]
        while self.pause and not MPI.Request.Testall(requests):
            time.sleep(self.pause)
        MPI.Request.Waitall(requests)
        return rooms


def default_links() -> Links:
    """Return links over MPI if there are several processes, else none."""
    if MPI is None or MPI.COMM_WORLD.Get_size() == 1:
        return NoLinks()
    return MpiLinks()
