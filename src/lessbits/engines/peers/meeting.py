"""What happens on a connection: greetings, the packets of the run, and farewells."""

import asyncio
import secrets
import time
from collections import deque
from typing import TYPE_CHECKING

from lessbits.engines.peers.edge import Edge, agree
from lessbits.engines.peers.protocol import MOST_TEXT, PROTOCOL, Farewell, Greeting, Joiner, Kind, kind_of, read_alive
from lessbits.engines.peers.result import differing_parts
from lessbits.engines.peers.stream import Connection
from lessbits.errors import WireError
from lessbits.version import __version__

if TYPE_CHECKING:
    from lessbits.engines.peers.site import Site

GREETING_SECONDS = 10.0
FAULT_PAUSE = (0.05, 5.0)  # seconds before a neighbour is listened to again after a fault, at first and at most
FAULTS_KEPT = 16  # of a neighbour, in the last minute
MESSAGES_WAITING = 4  # more cannot wait in a connection, unless its other end goes on without reading
FINISHED = Farewell("finished", "the run has ended")
LATER = Farewell("reset", "the run is about to end: come again in a moment")


class RefusedError(WireError):
    """The two ends do not fit together; the message says in what."""


class Meetings:
    """The conversations of a site with its neighbours.

    Args:
        site: The site.
        method: Method, step sizes, seed, precision and stop rule, as 16 hexadecimal digits.
    """

    def __init__(self, site: "Site", method: str) -> None:
        self.site = site
        self.about: dict[str, str | int] = {
            "protocol": PROTOCOL,
            "version": __version__,
            "method": method,
            "code": site.node.codec.mark().hex(),
        }
        self.faults: dict[str, deque[float]] = {}  # when the last ones were, by neighbour

    async def converse(self, connection: Connection, name: str, dialled: bool) -> None:
        """Talk to a neighbour until the connection ends."""
        edge = self.site.edges.get(name)
        if edge is None or edge.state == "finished":
            text = "there is no link between us" if edge is None else "we said farewell already"
            ended = edge is not None and self.site.state == "finished"
            connection.put((FINISHED if ended else Farewell("refused", text)).packet())
            connection.close()
            return
        try:
            if not dialled and (pause := self._pause(name)):
                await asyncio.sleep(pause)  # who does nonsense without end must not fill logs, nor take all the time
            if await self._greet(edge, connection, dialled):
                await self._listen(edge, connection)
        except WireError as error:
            self._note_fault(name)
            if edge.outlet is connection and not isinstance(error, RefusedError):
                self.site.fault(edge, error)
            else:
                self._refuse(edge, connection, error)
            connection.close(str(error))
        finally:
            edge.lose(connection, connection.reason or "the connection ended")

    def _note_fault(self, name: str) -> None:
        self.faults.setdefault(name, deque(maxlen=FAULTS_KEPT)).append(time.monotonic())

    def _pause(self, name: str) -> float:
        """Return how long a neighbour must wait before it is listened to, after what it has sent lately."""
        lately = sum(time.monotonic() - at < 60 for at in self.faults.get(name, ()))
        return min(FAULT_PAUSE[0] * 2**lately, FAULT_PAUSE[1]) if lately else 0.0

    def _refuse(self, edge: Edge, connection: Connection, error: WireError) -> None:
        """Say at both ends why they do not fit together."""
        if edge.why != str(error):
            self.site.tell(f"{edge.ends.theirs} is refused: {error}")
        if edge.outlet in (None, connection):  # else an older connection goes on: this one was of another process
            edge.drop("refused", str(error))
        connection.put(Farewell("refused", str(error)).packet())

    async def _greet(self, edge: Edge, connection: Connection, dialled: bool) -> bool:
        """Exchange greetings, take up the link, and return whether the neighbour is ready for that."""
        about = {
            **self.about,
            "run": self.site.membership.link_mark(edge.ends.theirs),
            "nonce": secrets.token_hex(8),
        }
        mine = edge.greeting(about)
        if dialled:
            connection.put(mine.packet())
        try:
            packet = await asyncio.wait_for(connection.read(), GREETING_SECONDS)
        except TimeoutError:
            raise WireError(f"no greeting came in {GREETING_SECONDS:g} s") from None
        if packet is None:
            return False  # it is still making its problem
        if kind_of(packet) is Kind.FAREWELL:
            return self._not_met(edge, Farewell.read(packet))
        theirs = Greeting.read(packet)
        self._compare(edge, mine, theirs)
        mine = mine if dialled else edge.greeting(about)
        if self.site.closed and not agree(mine, theirs):
            self._turn_away(edge, connection)
            return False
        if not dialled:
            connection.put(mine.packet())
        connection.most_waiting = MESSAGES_WAITING * edge.most_bytes + MOST_TEXT
        began = edge.meet(connection, mine, theirs, self.site.now)
        self.site.turned_away.discard(edge.ends.theirs)
        if self.site.state == "finished":
            connection.put(FINISHED.packet())  # the connection on which it was said before is gone
        how = "the link starts from zero" if began else f"the link goes on in round {edge.round}"
        self.site.tell(f"{edge.ends.theirs} is connected; {how}")
        return True

    def _not_met(self, edge: Edge, farewell: Farewell) -> bool:
        """Hear a farewell in place of a greeting."""
        if farewell.reason == "reset":  # it asks to come again
            edge.why = farewell.text
        elif farewell.reason == "finished":
            self.site.tell(f"{edge.ends.theirs} has finished without this site")
            edge.drop("finished", farewell.text)
        else:
            raise RefusedError(farewell.text)
        return False

    def _turn_away(self, edge: Edge, connection: Connection) -> None:
        """Let a neighbour wait that came back near the end: either this site ends soon, or all go on after all."""
        ended = self.site.state == "finished"
        connection.put((FINISHED if ended else LATER).packet())
        edge.drop("away", "it came back when the end was being agreed on")
        (self.site.turned_away.discard if ended else self.site.turned_away.add)(edge.ends.theirs)

    def _compare(self, edge: Edge, mine: Greeting, theirs: Greeting) -> None:
        """Raise a `RefusedError` if the two ends do not fit together."""
        name = edge.ends.theirs
        if (theirs.site, theirs.to) != (name, edge.ends.mine):
            raise RefusedError(
                f"{name} greets as {theirs.site!r} and means {theirs.to!r}, not {edge.ends.mine!r}: the rosters differ"
            )
        words = {
            "version": ("runs lessbits {}", "install the same version"),
            "run": ("is in another run, or has another roster ({})", "give both the same roster"),
            "method": ("has other settings ({})", "give both the same settings"),
            "code": ("encodes messages in another way ({})", "install the same versions, or choose code = 'fixed'"),
        }
        for entry, (differs, advice) in words.items():
            ours, other = getattr(mine, entry), getattr(theirs, entry)
            if ours != other and entry == "method" and (parts := differing_parts(ours, other)):
                raise RefusedError(
                    f"{name} and {edge.ends.mine} differ in {', '.join(parts)}: give both the same settings"
                )
            if ours != other:
                raise RefusedError(f"{name} {differs.format(other)}, not {ours} as {edge.ends.mine}: {advice}")

    async def _listen(self, edge: Edge, connection: Connection) -> None:
        """Take packets until the connection ends."""
        joiner = Joiner(max(edge.most_bytes, 4096))
        before = connection.received, connection.sent
        while edge.outlet is connection:
            packet = await connection.read()
            edge.received_bytes += connection.received - before[0]
            edge.sent_bytes += connection.sent - before[1]
            before = connection.received, connection.sent
            if packet is None or edge.outlet is not connection:
                return
            whole = joiner.whole(packet)
            if whole is None:
                edge.patience.heard()
                continue
            match kind_of(whole):
                case Kind.ROUND:
                    edge.patience.heard()
                    edge.take(whole)
                case Kind.ALIVE:
                    edge.patience.heard(read_alive(whole))
                case Kind.FAREWELL:
                    self._part(edge, connection, Farewell.read(whole))
                case other:
                    raise WireError(f"a {other.name.lower()} came in the middle of a run")

    def _part(self, edge: Edge, connection: Connection, farewell: Farewell) -> None:
        name = edge.ends.theirs
        match farewell.reason:
            case "finished":
                self.site.tell(f"{name} has finished")
                edge.state, edge.why = "finished", farewell.text
                edge.changed()  # the connection stays, for the farewell of this site
            case "refused":
                raise RefusedError(farewell.text)
            case reason:
                self.site.tell(f"{name} {'leaves' if reason == 'leaving' else 'begins the link anew'}: {farewell.text}")
                edge.drop("away", farewell.text)
