"""What a site of a training run says and hears on its connections, while the model is trained in another thread."""

import asyncio
import secrets
import threading
import time

from lessbits._internal.logging import logger
from lessbits.engines.peers.options import Membership
from lessbits.engines.peers.patience import BEAT
from lessbits.engines.peers.protocol import (
    MOST_TEXT,
    NONE,
    PROTOCOL,
    Farewell,
    Greeting,
    Joiner,
    Kind,
    alive,
    kind_of,
    read_alive,
)
from lessbits.engines.peers.roster import Roster
from lessbits.engines.peers.site_file import SiteFile
from lessbits.engines.peers.stream import Connection
from lessbits.errors import WireError
from lessbits.training.peer_link import PeerLink, difference
from lessbits.version import __version__

GREETING_SECONDS = 10.0
WAITING = 4  # models that may wait in a connection, before its other end is taken for dead


class PeerTalk:
    """The side of `PeerLinks` that the event loop runs; what both sides change is under the lock `changed`."""

    site: SiteFile
    membership: Membership
    roster: Roster
    links: dict[int, PeerLink]
    changed: threading.Condition
    number: int
    computing_since: float | None
    about: dict[str, str] | None
    most_bytes: int

    async def converse(self, connection: Connection, name: str, dialled: bool) -> None:
        """Talk to a neighbour until the connection ends."""
        if self.about is None:
            return  # this site has ended
        link, pulse = self.links[self.roster.number(name)], None
        try:
            if await self._greet(link, connection, dialled):
                pulse = asyncio.ensure_future(self._beat(link, connection))
                await self._listen(link, connection)
        except WireError as error:
            logger.warning(f"{name}: {error}")
            connection.close(str(error))
        finally:
            if pulse is not None:
                pulse.cancel()
            with self.changed:
                gone = link.lose(connection)
                self.changed.notify_all()
            if gone and not link.finished:
                self.leave_out(link, "has gone")

    def leave_out(self, link: PeerLink, why: str) -> None:
        """Say once that a neighbour is left out, unless this site has ended."""
        if self.about is not None and not link.missing:
            link.missing = True
            logger.warning(f"{link.name} {why}: it is left out until it comes back")

    def _greeting(self, link: PeerLink) -> Greeting:
        return Greeting(
            site=self.site.name,
            to=link.name,
            protocol=PROTOCOL,
            version=__version__,
            run=self.membership.link_mark(link.name),
            epoch=0,
            last_epoch=link.last_epoch,
            round=self.number,
            sent=NONE,
            applied=NONE,
            received=NONE,
            early=NONE,
            nonce=secrets.token_hex(8),
            **(self.about or {}),
        )

    async def _greet(self, link: PeerLink, connection: Connection, dialled: bool) -> bool:
        """Exchange greetings, and return whether the link has begun an epoch."""
        mine = self._greeting(link)
        if dialled:
            connection.put(mine.packet())
        try:
            packet = await asyncio.wait_for(connection.read(), GREETING_SECONDS)
        except TimeoutError:
            raise WireError(f"no greeting came in {GREETING_SECONDS:g} s") from None
        if packet is None:
            return False
        if kind_of(packet) is Kind.FAREWELL:
            return self._refuse(link, Farewell.read(packet).text)
        theirs = Greeting.read(packet)
        mine = mine if dialled else self._greeting(link)
        if (wrong := difference(mine, theirs, link.name)) is not None:
            connection.put(Farewell("refused", wrong).packet())
            return self._refuse(link, wrong)
        if not dialled:
            connection.put(mine.packet())
        connection.most_waiting = WAITING * self.most_bytes + MOST_TEXT
        with self.changed:
            link.meet(connection, mine, theirs)
            self.changed.notify_all()
        if link.missing:
            link.missing = False
            logger.warning(f"{link.name} is back")
        return True

    def _hear(self, link: PeerLink, farewell: Farewell) -> None:
        if farewell.reason == "refused":
            self._refuse(link, farewell.text)
        link.finished = farewell.reason == "finished"

    def _refuse(self, link: PeerLink, why: str) -> bool:
        with self.changed:
            if link.outlet is None:
                if link.refused != why:
                    logger.warning(why)
                link.refused = why
            self.changed.notify_all()
        return False

    async def _listen(self, link: PeerLink, connection: Connection) -> None:
        joiner = Joiner(max(self.most_bytes, MOST_TEXT))
        while link.outlet is connection and (packet := await connection.read()) is not None:
            whole = joiner.whole(packet)
            if whole is None:
                link.patience.heard()
                continue
            match kind_of(whole):
                case Kind.ROUND:
                    link.patience.heard()
                    with self.changed:
                        link.take(whole)
                        self.changed.notify_all()
                case Kind.ALIVE:
                    link.patience.heard(read_alive(whole))
                case Kind.FAREWELL:
                    self._hear(link, Farewell.read(whole))
                    return
                case other:
                    raise WireError(f"a {other.name.lower()} came in the middle of a run")

    async def _beat(self, link: PeerLink, connection: Connection) -> None:
        """Give signs of life, and end a connection whose other end gives none."""
        while True:
            since = self.computing_since
            connection.put(alive(0.0 if since is None else time.monotonic() - since))
            await asyncio.sleep(min(BEAT, link.patience.floor / 4))
            if (why := link.patience.exhausted()) is not None:
                self.leave_out(link, f"is {why}")
                connection.close(why)
                connection.abandon()
