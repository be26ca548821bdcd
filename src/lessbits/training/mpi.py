"""Links over MPI: each process is a node.

A process that ends tells its neighbours how many exchanges it has begun with each, so that one that waits for another
exchange ends too: MPI itself would wait forever.
"""

import atexit
import math
import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from lessbits._internal.logging import logger, warn_once
from lessbits.engines.distributed.launch import check_company
from lessbits.errors import InputError, WireError
from lessbits.training.links import EndedError, Links, NoLinks, Reached

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is installed, but no MPI library
    MPI, MISSING = None, str(error)  # type: ignore[assignment]

MOST_BYTES = 2**31 - 1  # of one MPI message
PAUSE = 0.001  # seconds between two looks at messages under way: MPI itself would keep a core busy meanwhile
LOOK_SECONDS = 0.1  # between two looks at whether neighbours have ended
END_SECONDS = 60.0  # for which a process that ends waits for an exchange in another thread
NOTICE_SECONDS = 20.0  # of waiting for neighbours, after which it is said
ALONE_SECONDS = 1.0  # for which a process that ends without links waits for others to end, too
MESSAGE, FAREWELL = 0, 1  # tags
LEFT, FAILED = 31_999, 31_998  # tags on the communicator of all processes, for those that end
_PROCESS = os.getpid()
FAILED_SECONDS = 0.5  # in which processes that fail hear of each other

_made: list["MpiLinks"] = []  # all links of this process
_told: list[Any] = []  # messages under way from a process that fails
_left: dict[int, int] = {}  # how many links between all processes those had made that have ended


class MpiLinks(Links):
    """Frames as buffers of bytes, on a communicator of their own."""

    reaches_all = True

    def __init__(self, communicator: Any = None) -> None:
        if MPI is None:
            raise InputError(
                f"nodes that are MPI processes need mpi4py and an MPI library ({MISSING}): "
                "pip install 'lessbits[mpi]' brings both"
            )
        given = MPI.COMM_WORLD if communicator is None else communicator
        self.node, self.nodes = given.Get_rank(), given.Get_size()
        self.whole = given == MPI.COMM_WORLD
        _assemble(given, self.whole)
        self.world = given.Dup()
        self.pause = 0.0
        self.begun: dict[int, int] = {}  # exchanges with each neighbour
        self.ended: dict[int, np.ndarray] = {}  # what neighbours said when they ended
        self.kept: list[Any] = []  # buffers of messages that nobody will take
        _made.append(self)

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
        self.check_open()
        for other, frame in frames.items():
            if len(frame) > MOST_BYTES:
                raise InputError(f"a message to node {other} has {len(frame)} bytes, but MPI carries {MOST_BYTES}")
        for other in frames:
            self.begun[other] = self.begun.get(other, 0) + 1
        lengths = self._swap({other: np.array([len(frame)], np.int64) for other, frame in frames.items()}, None)
        wanted = {other: int(length.view(np.int64)[0]) for other, length in lengths.items()}
        for other, length in wanted.items():
            if not 0 <= length <= MOST_BYTES:
                raise WireError(f"node {other} announced a message of {length} bytes")
        received = self._swap({other: np.frombuffer(frame, np.uint8) for other, frame in frames.items()}, wanted)
        return {other: part.tobytes() for other, part in received.items()}

    def close(self) -> None:
        """Tell neighbours that this node has ended, wait until they have too, and free the communicator."""
        if self.closed:
            return
        self.closed = True
        if self.under_way is not None:
            self.under_way.join(END_SECONDS)
        notices = [(other, np.array([begun, *self.reached], np.int64)) for other, begun in self.begun.items()]
        requests = [self.world.Isend(notice, other, FAREWELL) for other, notice in notices]
        barrier = self.world.Ibarrier()
        while not barrier.Test():
            time.sleep(PAUSE)
        for other in self.begun:
            if other not in self.ended:
                self.world.Recv(np.empty(3, np.int64), other, FAREWELL)
        MPI.Request.Waitall(requests)
        self.world.Free()

    def _swap(self, outgoing: Mapping[int, np.ndarray], sizes: Mapping[int, int] | None) -> dict[int, np.ndarray]:
        """Send buffers and receive as many; without sizes 8 bytes each, for which neighbours may take their time."""
        rooms = {other: np.empty(8 if sizes is None else sizes[other], np.uint8) for other in outgoing}
        awaited = {other: room for other, room in rooms.items() if room.size}
        requests = [self.world.Irecv([room, MPI.BYTE], other, MESSAGE) for other, room in awaited.items()]
        parts = {other: part.view(np.uint8) for other, part in outgoing.items()}
        requests += [self.world.Isend([part, MPI.BYTE], other, MESSAGE) for other, part in parts.items() if part.size]
        began = looked = time.monotonic()
        while (self.pause or sizes is None) and not MPI.Request.Testall(requests):
            time.sleep(PAUSE)
            if sizes is None and time.monotonic() > looked + LOOK_SECONDS:
                looked = time.monotonic()
                self._check_ended(dict(zip(awaited, requests, strict=False)), [requests, parts, rooms])
                if looked > began + NOTICE_SECONDS:
                    began = math.inf
                    late = [str(other) for other, each in zip(awaited, requests, strict=False) if not each.Test()]
                    logger.warning(f"node {self.node} has waited {NOTICE_SECONDS:g} s for node {' and '.join(late)}")
        MPI.Request.Waitall(requests)
        return rooms

    def _check_ended(self, awaited: Mapping[int, Any], kept: list[Any]) -> None:
        """Raise if a neighbour has ended before the exchange that is awaited."""
        for other, request in awaited.items():
            if other not in self.ended and self.world.Iprobe(other, FAREWELL):
                self.ended[other] = np.empty(3, np.int64)
                self.world.Recv(self.ended[other], other, FAREWELL)
            if other in self.ended and self.ended[other][0] < self.begun[other]:
                request.Cancel()
                self.kept.append(kept)
                raise self.missed(other, Reached(*self.ended[other][1:].tolist()))


def _assemble(communicator: Any, whole: bool) -> None:
    """Wait until all processes make links, or raise if one of them has ended."""
    barrier, looked = communicator.Ibarrier(), time.monotonic()
    while not barrier.Test():
        time.sleep(PAUSE)
        if whole and time.monotonic() > looked + LOOK_SECONDS:
            looked = time.monotonic()
            _check_left(communicator.Get_rank())


def _check_left(here: int) -> None:
    """Raise if a process has ended that had made no more links than this one."""
    status, made = MPI.Status(), np.empty(1, np.int64)
    while MPI.COMM_WORLD.Iprobe(MPI.ANY_SOURCE, LEFT, status):
        MPI.COMM_WORLD.Recv(made, status.Get_source(), LEFT)
        _left[status.Get_source()] = int(made[0])
    mine = sum(links.whole for links in _made)
    for other, theirs in _left.items():
        if theirs <= mine:
            count = "a Gossip" if not theirs else f"Gossip number {theirs + 1}"
            raise EndedError(
                f"node {other} has ended without {count}, but node {here} waits for it: unless that node tells of an "
                "error of its own, make the same number of them at all nodes"
            )


def _leave() -> None:
    """Tell all processes that this one ends, as they may wait for it, and close its links."""
    if MPI.Is_finalized() or os.getpid() != _PROCESS:
        return  # a child that was forked is no node
    world, made = MPI.COMM_WORLD, np.array([sum(links.whole for links in _made)])
    others = [other for other in range(world.Get_size()) if other != world.Get_rank()]
    requests = [world.Isend(made, other, LEFT) for other in others]
    for links in _made:
        links.close()
    theirs = [world.Irecv(np.empty(1, np.int64), other, LEFT) for other in others if other not in _left]
    last = math.inf if made[0] else time.monotonic() + ALONE_SECONDS  # else others may know nothing of this
    while not MPI.Request.Testall(requests + theirs) and time.monotonic() < last:
        time.sleep(PAUSE)
    for request in theirs:
        if not request.Test():
            request.Cancel()
            request.Wait()


def speaks_for_all() -> bool:
    """Return whether this process, which fails, is the first of those that fail at about the same time.

    Two ends of a link find the same mistake, and one line about it is enough.
    """
    if MPI is None or MPI.Is_finalized() or MPI.COMM_WORLD.Get_size() == 1:
        return True
    world = MPI.COMM_WORLD
    others = [other for other in range(world.Get_size()) if other != world.Get_rank()]
    _told.extend(world.Isend([b"", MPI.BYTE], other, FAILED) for other in others)
    last = time.monotonic() + FAILED_SECONDS
    while time.monotonic() < last:  # messages move on only while MPI is asked for them
        if any(world.Iprobe(other, FAILED) for other in others if other < world.Get_rank()):
            return False
        time.sleep(PAUSE)
    return True


if MPI is not None and MPI.COMM_WORLD.Get_size() > 1:
    atexit.register(_leave)


def default_links() -> Links:
    """Return links over MPI if there are several processes, else none."""
    if MPI is None or MPI.COMM_WORLD.Get_size() == 1:
        check_company()
        warn_once("this process trains alone: start several of it with lessbits launch --nodes N")
        return NoLinks()
    return MpiLinks()
