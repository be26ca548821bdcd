"""One link of a site, as the event loop sees it: its epoch and round, what was sent, what has arrived, who is heard.

The two ends of a link go through rounds. In each, both send one message, and finish the round when the other's has
arrived, so one end is at most one round ahead. When a connection is made anew, the ends compare where they stand: if
the epochs agree and the rounds differ by at most one, what is missing is sent again. Otherwise a new epoch begins, and
both start the link from zero. A link that is dropped has no epoch, so that the next meeting begins a new one.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lessbits.codecs.base import Codec
from lessbits.codecs.frames import CHECK_BYTES, Place, seal, unseal
from lessbits.engines.peers.patience import Patience
from lessbits.engines.peers.protocol import HEADER_BYTES, MOST_EPOCH, NEVER, NONE, Greeting, Round
from lessbits.errors import WireError

DIGEST_EVERY = 32  # rounds


class Outlet(Protocol):
    """Where packets go: a connection."""

    def put(self, packet: bytes) -> None:
        """Send a packet soon."""

    def announce(self, packet: bytes) -> None:
        """Send a packet soon, unless a newer one replaces it before."""

    def close(self, reason: str) -> None:
        """End the connection."""


@dataclass(frozen=True)
class Control:
    """What a site tells its neighbours with each round."""

    iteration: int = 0
    stop: int = NEVER
    streak: int = 0
    estimate: float = 0.0
    sites: int = 0


@dataclass
class Ends:
    """The two ends of a link.

    Attributes:
        mine: The name of this site.
        theirs: The name of the neighbour.
        link: The number of the link on which this site sends.
        back: The number of the link on which it receives.
        run: 32 bits that the sites of a run share.
        codec: How messages are encoded.
    """

    mine: str
    theirs: str
    link: int
    back: int
    run: int
    codec: Codec


@dataclass
class Edge:
    """A link to a neighbour.

    Attributes:
        ends: The two ends.
        row: The position of the link in the arrays of this site.
        first: Whether this site has the lower number of the two.
        patience: When the neighbour was heard.
        changed: Called when something has happened that a waiting site may want to know.
        epoch: The epoch; 0 for none.
        last_epoch: The highest epoch so far.
        round: Rounds of this epoch that are finished here.
        must_reset: Whether dual and memories are to be set to zero before the next iteration.
        sent: The messages of this round and of the one before, by round.
        applied: CRC of the last message that was applied; -1 for none.
        inbox: Messages that have arrived and are not applied, by round, with the digest that came with them.
        heard: What the neighbour said with its last round.
        iterations: The iteration at which the run ends at the latest; a neighbour that says a higher one is wrong.
        mark: 32 bits for the run and this connection, which are part of the check of each message.
        state: In a word or two, for people; `why` says more.
    """

    ends: Ends
    row: int
    first: bool
    patience: Patience
    changed: Callable[[], None]
    epoch: int = 0
    last_epoch: int = 0
    round: int = 0
    must_reset: bool = False
    sent: dict[int, bytes] = field(default_factory=dict)
    applied: int = -1
    inbox: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    heard: Control = Control(iteration=-1)
    state: str = "away"
    why: str = ""
    iterations: int = 2**31 - 1
    mark: int = 0
    outlet: Outlet | None = None
    sent_bytes: int = 0
    received_bytes: int = 0

    @property
    def live(self) -> bool:
        """Whether the link takes part in the next iteration, even if its connection is broken at the moment."""
        return self.epoch > 0 and self.state != "finished"

    @property
    def returning(self) -> bool:
        """Whether the neighbour was there a moment ago and is expected back: the run does not end without it."""
        return not self.epoch and self.state == "away" and self.patience.silent < self.patience.seconds

    @property
    def most_bytes(self) -> int:
        """The most bytes that a packet on this link may have."""
        return HEADER_BYTES + CHECK_BYTES + self.ends.codec.most_bytes

    def greeting(self, about: dict[str, str | int]) -> Greeting:
        """Return the greeting of this end; `about` is what does not depend on the link."""
        return Greeting(
            site=self.ends.mine,
            to=self.ends.theirs,
            epoch=self.epoch,
            last_epoch=self.last_epoch,
            round=self.round,
            sent=_crc(self.sent.get(self.round)),
            applied=self.applied,
            received=self._arrived(self.round),
            early=self._arrived(self.round + 1),
            **about,  # type: ignore[arg-type]
        )

    def _arrived(self, number: int) -> int:
        return _crc(self.inbox[number][0]) if number in self.inbox else NONE

    def meet(self, outlet: Outlet, mine: Greeting, theirs: Greeting, now: Control) -> bool:
        """Take up the link with a new connection, and return whether it starts from zero.

        Raise a `WireError` if the link was dropped since `mine` was said, which the other end cannot know.
        """
        if (self.epoch, self.last_epoch) != (mine.epoch, mine.last_epoch):
            raise WireError("the link was dropped while its ends greeted each other")
        if self.outlet is not None:
            self.outlet.close("replaced by a newer connection")
        self.outlet, self.state, self.why = outlet, "connected", ""
        nonces = (mine.nonce, theirs.nonce) if self.first else (theirs.nonce, mine.nonce)
        self.mark = zlib.crc32("".join(nonces).encode(), self.ends.run)
        self.patience.restart()
        if agree(mine, theirs):
            for number in sorted(self.sent):
                if number >= theirs.round:
                    self._say(number, self.sent[number], b"", now)
            self.announce(now)
            self.changed()
            return False
        self._forget()
        self.epoch = self.last_epoch = max(mine.last_epoch, theirs.last_epoch) % MOST_EPOCH + 1
        self.changed()
        return True

    def lose(self, outlet: Outlet, why: str) -> None:
        """Note that a connection has ended. The neighbour is still waited for."""
        if self.outlet is outlet:
            self.outlet = None
            if self.state == "connected":
                self.state, self.why = "away", why
            self.changed()

    def drop(self, state: str, why: str) -> None:
        """Forget what the ends shared: dual and memories will be zero, and the next meeting begins a new epoch."""
        self._forget()
        self.epoch, self.state, self.why = 0, state, why
        if self.outlet is not None:
            outlet, self.outlet = self.outlet, None
            outlet.close(why)
        self.changed()

    def _forget(self) -> None:
        self.round, self.applied, self.must_reset, self.heard = 0, -1, True, Control(iteration=-1)
        self.sent.clear()
        self.inbox.clear()

    def post(self, body: bytes, digest: bytes, now: Control) -> None:
        """Send the message of this round, now or when the neighbour is met again."""
        self.sent = {number: each for number, each in self.sent.items() if number == self.round - 1}
        self.sent[self.round] = body
        self._say(self.round, body, digest, now)

    def _say(self, number: int, body: bytes, digest: bytes, now: Control) -> None:
        if self.outlet is not None:
            frame = seal(body, self._place(self.ends.link, number))
            self.outlet.put(self._round(number, now, digest, frame).packet())

    def announce(self, now: Control, last: bool = False) -> None:
        """Say where this site is, without a message; the last time, before a farewell and not after it."""
        if self.outlet is not None and self.epoch:
            said = self._round(self.round, now, b"", b"")
            (self.outlet.put if last else self.outlet.announce)(said.packet())

    def _round(self, number: int, now: Control, digest: bytes, frame: bytes) -> Round:
        return Round(self.epoch, number, now.iteration, now.stop, now.streak, now.sites, now.estimate, digest, frame)

    def take(self, packet: bytes) -> None:
        """Take a round that has arrived, or raise a `WireError`."""
        said = Round.read(packet)
        if said.epoch != self.epoch:
            raise WireError(f"a round of epoch {said.epoch} came, but the link is in epoch {self.epoch}")
        if said.iteration > self.iterations:
            raise WireError(f"a neighbour says iteration {said.iteration}, but the run ends at {self.iterations}")
        if said.frame:
            self._keep(said)
        if said.iteration >= self.heard.iteration:
            self.heard = Control(said.iteration, said.stop, said.streak, said.estimate, said.sites)
        self.changed()

    def _keep(self, said: Round) -> None:
        if not self.round - 1 <= said.number <= self.round + 1:
            raise WireError(f"the message of round {said.number} came out of turn: round {self.round} is due")
        codec, place = self.ends.codec, self._place(self.ends.back, said.number)
        body = unseal(said.frame, place, codec)
        codec.check_length(body)
        if said.number < self.round:
            if _crc(body) != self.applied:
                raise WireError(f"another message of round {said.number} came after that round")
            return  # sent again, because its sender could not know that it had arrived
        held = self.inbox.setdefault(said.number, (body, said.digest))
        if held[0] != body:
            raise WireError(f"two different messages of round {said.number} came")

    def ready(self) -> bool:
        """Return whether the round can be finished: both messages are here, even if the neighbour has left since."""
        return self.epoch > 0 and not self.must_reset and self.round in self.sent and self.round in self.inbox

    def finish_round(self) -> None:
        """Note that the message of this round was applied."""
        body, _ = self.inbox.pop(self.round)
        self.applied = _crc(body)
        self.round += 1

    def _place(self, link: int, number: int) -> Place:
        return Place(self.mark, (self.epoch << 32) | number, link, 0)


def _crc(body: bytes | None) -> int:
    return NONE if body is None else zlib.crc32(body)


def agree(mine: Greeting, theirs: Greeting) -> bool:
    """Return whether two ends can go on from where they stand, if what is missing is sent again."""
    if mine.epoch != theirs.epoch or not mine.epoch or abs(mine.round - theirs.round) > 1:
        return False
    return _follows(mine, theirs) and _follows(theirs, mine)


def _follows(one: Greeting, other: Greeting) -> bool:
    """Return whether the messages that one end has had are those that the other end has sent, as far as it remembers.

    An end that was restored from an older checkpoint does not remember what it has sent since, and may send something
    else in the same rounds.
    """
    had = {one.round - 1: one.applied, one.round: one.received, one.round + 1: one.early}
    last = {number: check for number, check in had.items() if check != NONE and number >= other.round}
    return all(number == other.round and check == other.sent for number, check in last.items())
