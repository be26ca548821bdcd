"""One stream of gRPC's between two sites, with a queue of bounded length for what is to be sent."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc

from lessbits.engines.peers.protocol import MOST_TEXT, Kind, split

CLOSE_SECONDS = 2.0  # in which the other end must take the last packets of a connection that is closed
BROKEN = (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError)


@contextmanager
def until_broken() -> Iterator[None]:
    """Leave the block quietly when a call of gRPC's breaks.

    gRPC cancels a call if a task that reads from it is cancelled, and then raises a CancelledError in every task that
    uses the call. That must not end those tasks, which nobody has cancelled.
    """
    try:
        yield
    except BROKEN:
        pass
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise


class Connection:
    """One stream to a neighbour. Packets are sent in order by a task of its own, so that nobody waits for the link.

    Args:
        call: A call of gRPC's, of the client or of the server: it has `read` and `write`.
    """

    def __init__(self, call: Any) -> None:
        self.call, self.queue = call, deque[bytes]()
        self.newest: bytes | None = None
        self.waiting, self.most_waiting = 0, MOST_TEXT  # bytes in the queue
        self.wake, self.ended, self.reason = asyncio.Event(), asyncio.Event(), ""
        self.sent = self.received = 0  # bytes
        self.writer = asyncio.ensure_future(self._write())

    @property
    def closed(self) -> bool:
        """Whether nothing more is sent than what waits."""
        return self.ended.is_set()

    def put(self, packet: bytes) -> None:
        """Send a packet after those before it. A connection whose other end does not read is ended."""
        if packet[0] == Kind.ALIVE and self.queue and self.queue[-1][0] == Kind.ALIVE:
            self.queue[-1] = packet  # one sign of life is enough
            return
        parts = split(packet)
        self.queue.extend(parts)
        self.waiting += sum(map(len, parts))
        self.wake.set()
        if self.waiting > self.most_waiting:
            self.close("its other end does not read")
            self.abandon()

    def announce(self, packet: bytes) -> None:
        """Send a packet when all others are sent; a newer one replaces it."""
        self.newest = packet
        self.wake.set()

    async def read(self) -> bytes | None:
        """Return the next packet; None at the end of the stream."""
        with until_broken():
            packet = await self.call.read()
            if isinstance(packet, bytes):
                self.received += len(packet)
                return packet
        return None

    async def _write(self) -> None:
        with until_broken():
            while not self.closed or self.queue or self.newest:
                await self.wake.wait()
                self.wake.clear()
                while self.queue or self.newest:
                    if self.queue:
                        packet = self.queue.popleft()
                        self.waiting -= len(packet)
                    else:
                        packet, self.newest = self.newest or b"", None
                    await self.call.write(packet)
                    self.sent += len(packet)

    def close(self, reason: str = "") -> None:
        """End the connection once all packets are sent, or their receiver has had enough time for them."""
        self.reason = self.reason or reason
        self.ended.set()
        self.wake.set()

    async def drain(self) -> None:
        """Wait until all packets of a connection that was closed are sent, but not for long; then say that it ends."""
        await asyncio.wait([self.writer], timeout=CLOSE_SECONDS)
        if self.writer.done() and hasattr(self.call, "done_writing"):  # the end that has dialled
            with until_broken(), suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.call.done_writing()

    def abandon(self) -> None:
        """End the connection now."""
        self.ended.set()
        self.queue.clear()
        self.newest, self.waiting = None, 0
        self.writer.cancel()
