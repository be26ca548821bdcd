"""A hostile neighbour: it has a proper identity, and sends what it likes."""

import asyncio
import secrets
import zlib
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import grpc

from lessbits.codecs.frames import Place, seal
from lessbits.engines.peers.connections import SERVICE
from lessbits.engines.peers.protocol import NEVER, PROTOCOL, Farewell, Greeting, Joiner, Kind, Round, kind_of, split
from lessbits.engines.peers.stream import BROKEN
from lessbits.version import __version__

SECONDS = 60.0  # nothing waits that long unless it hangs


class Hostile:
    """A client that speaks as `name` to the site `victim`, which runs in this process as `run`.

    Args:
        town: The files and keys.
        name: A neighbour of the victim.
        run: The victim.
    """

    def __init__(self, town, name, run, own=None):
        self.town, self.name, self.run = town, name, run
        self.victim = run.site.membership.name
        self.own = own or town.identities[name]
        self.recorded = []

    @property
    def edge(self):
        """The victim's end of the link."""
        return self.run.site.edges[self.name]

    @asynccontextmanager
    async def stream(self):
        """Open a stream to the victim."""
        victim = self.town.identities[self.victim]
        credentials = grpc.ssl_channel_credentials(victim.pem, self.own.key, self.own.pem)
        options = (("grpc.ssl_target_name_override", self.victim), ("grpc.use_local_subchannel_pool", 1))
        async with grpc.aio.secure_channel(
            f"127.0.0.1:{self.town.ports[self.victim]}", credentials, options
        ) as channel:
            call = channel.stream_stream(f"/{SERVICE}/Link")()
            try:
                async with asyncio.timeout(SECONDS):
                    yield call
            finally:
                call.cancel()

    def greeting(self, **changes):
        """Return a greeting that the victim takes, with changes."""
        about = self.run.meetings.about
        right = Greeting(
            site=self.name,
            to=self.victim,
            protocol=PROTOCOL,
            version=__version__,
            run=self.run.site.membership.link_mark(self.name),
            method=about["method"],
            code=about["code"],
            epoch=0,
            last_epoch=self.edge.last_epoch,
            round=0,
            sent=-1,
            applied=-1,
            received=-1,
            early=-1,
            nonce=secrets.token_hex(8),
        )
        return replace(right, **changes)

    async def greet(self, call, **changes):
        """Say a greeting, and return the answer: a greeting or a farewell."""
        mine = self.greeting(**changes)
        await self.write(call, mine.packet())
        packet = await self.read(call)
        if packet is None or kind_of(packet) is Kind.FAREWELL:
            return None if packet is None else Farewell.read(packet)
        theirs = Greeting.read(packet)
        nonces = (mine.nonce, theirs.nonce) if not self.edge.first else (theirs.nonce, mine.nonce)
        self.mark = zlib.crc32("".join(nonces).encode(), self.edge.ends.run)
        self.epoch = max(mine.last_epoch, theirs.last_epoch) + 1
        return theirs

    def round(self, number, body, **changes):
        """Return the packet of a round with a right check."""
        ends = self.edge.ends
        frame = seal(body, Place(self.mark, (self.epoch << 32) | number, ends.back, 0))
        # In lockstep a message is applied when its sender is as far as the victim.
        right = Round(self.epoch, number, self.run.site.iteration + 1, NEVER, 0, 2, 0.0, b"", frame)
        return right._replace(**changes).packet()

    async def write(self, call, packet):
        """Send a packet as it is."""
        self.recorded.append(packet)
        await call.write(packet)

    async def read(self, call):
        """Return the next packet; None at the end."""
        with suppress(*BROKEN, asyncio.CancelledError):
            packet = await call.read()
            return packet if isinstance(packet, bytes) else None
        return None

    async def last_words(self, call):
        """Read until the victim ends the stream, and return its farewell; None if there was none."""
        farewell = None
        while (packet := await self.read(call)) is not None:
            if kind_of(packet) is Kind.FAREWELL:
                farewell = Farewell.read(packet)
        return farewell

    async def attack(self, *packets, **changes):
        """Greet properly, send packets, and return the farewell of the victim."""
        async with self.stream() as call:
            theirs = await self.greet(call, **changes)
            assert isinstance(theirs, Greeting), theirs
            with suppress(*BROKEN):
                for packet in packets:
                    await self.write(call, packet(self) if callable(packet) else packet)
            return await self.last_words(call)

    async def play_along(self, call, body, rounds, iteration=lambda number: number):
        """Answer each message of the victim with a message of its own, in turn; return how many it applied."""
        joiner, number = Joiner(2**22), 0
        while number < rounds:
            packet = await self.read(call)
            if packet is None:
                break
            whole = joiner.whole(packet)
            if whole is not None and kind_of(whole) is Kind.ROUND and (said := Round.read(whole)).frame:
                number = said.number + 1
                for part in split(self.round(said.number, body(said), iteration=iteration(said.iteration))):
                    await self.write(call, part)
        return number
