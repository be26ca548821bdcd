"""One link to another site of a training run, and what its two ends say to each other.

Each connection begins an epoch of its own: what the ends know of each other begins anew. Two sites that have both not
exchanged yet start from the same model; otherwise each sends its model once, as it is, and a site that has just been
started asks for the other's. Then each says for every exchange that it either sends a message or skips it, and a
message counts if both ends have sent one.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Self

from lessbits.engines.peers.patience import Patience
from lessbits.engines.peers.protocol import MOST_EPOCH, Greeting, Kind
from lessbits.engines.peers.stream import Connection
from lessbits.errors import WireError
from lessbits.training.links import differ

_HEADER = struct.Struct("<BBII")
HEADER_BYTES = _HEADER.size
MOST_WAITING = 8  # messages that have arrived and are not used; the two ends are never that far apart


class Word(IntEnum):
    """What a site says for one exchange."""

    MESSAGE = 1
    SKIP = 2  # no message for this exchange, nor for earlier ones that were not sent
    MODEL = 3  # the whole model, float32; empty: take yours


class Said(NamedTuple):
    """A word, the epoch of the link, the number of the exchange, and the bytes of a message or a model."""

    word: Word
    epoch: int
    number: int
    body: bytes

    def packet(self) -> bytes:
        """Return it as a packet."""
        return _HEADER.pack(Kind.ROUND, self.word, self.epoch, self.number) + self.body

    @classmethod
    def read(cls, packet: bytes) -> Self:
        """Read a packet, or raise a `WireError`."""
        try:
            _, word, epoch, number = _HEADER.unpack_from(packet)
            return cls(Word(word), epoch, number, packet[HEADER_BYTES:])
        except (struct.error, ValueError):
            raise WireError("a packet of a training run makes no sense") from None


class Model(NamedTuple):
    """A model that came, and the exchange at which it was sent; no bytes: the other end takes ours."""

    number: int
    body: bytes


@dataclass
class PeerLink:
    """A link. All is changed by the event loop, and read by the training thread under a lock.

    Attributes:
        name: The name of the neighbour.
        patience: When it was heard.
        epoch: The epoch; 0 while there is no connection.
        last_epoch: The highest epoch so far, to which `inbox` and `model` belong.
        fresh: Whether both ends said that they have not exchanged yet, so that no model is sent.
        heard: The number of the last exchange that the neighbour has spoken of.
        inbox: Messages that have arrived, by the number of the exchange.
        model: The model that has arrived.
        missing: Whether it was said that the neighbour is left out, and it has not come back.
        finished: Whether the neighbour said that it has done its part, and has not come back.
        refused: Why the two ends do not fit together; empty if they do.
    """

    name: str
    patience: Patience
    epoch: int = 0
    last_epoch: int = 0
    fresh: bool = False
    heard: int = -1
    inbox: dict[int, bytes] = field(default_factory=dict)
    model: Model | None = None
    outlet: Connection | None = None
    missing: bool = False
    finished: bool = False
    refused: str = ""

    def meet(self, outlet: Connection, mine: Greeting, theirs: Greeting) -> None:
        """Begin an epoch with a new connection."""
        if self.last_epoch != mine.last_epoch:
            raise WireError("another connection was made while the ends greeted each other")
        if self.outlet is not None:
            self.outlet.close("replaced by a newer connection")
        self.epoch = self.last_epoch = max(mine.last_epoch, theirs.last_epoch) % MOST_EPOCH + 1
        self.fresh = mine.round == theirs.round == 0
        self.finished = False
        self.outlet, self.heard, self.model, self.refused = outlet, theirs.round - 1, None, ""
        self.inbox.clear()
        self.patience.restart()

    def lose(self, outlet: Connection) -> bool:
        """Note that a connection has ended, and return whether the link has no other one.

        What has arrived on it may still be used.
        """
        if self.outlet is not outlet:
            return False
        self.outlet, self.epoch = None, 0
        return True

    def take(self, packet: bytes) -> None:
        """Take what the neighbour says, or raise a `WireError`."""
        said = Said.read(packet)
        if said.epoch != self.epoch:
            raise WireError(f"{self.name} speaks of epoch {said.epoch}, but the link is in epoch {self.epoch}")
        if said.word is Word.MODEL:
            self.model = Model(said.number, said.body)
            return
        if said.number <= self.heard or len(self.inbox) >= MOST_WAITING:
            raise WireError(f"{self.name} speaks of exchange {said.number} out of turn")
        self.heard = said.number
        if said.word is Word.MESSAGE:
            self.inbox[said.number] = said.body

    def answered(self, epoch: int, number: int) -> bool:
        """Return whether the message of an exchange is here, or will never come."""
        return self.epoch != epoch or self.heard >= number

    def pick(self, epoch: int, number: int) -> bytes | None:
        """Return the message of an exchange, and forget older ones; None if there is none."""
        found = self.inbox.get(number) if self.last_epoch == epoch else None
        self.inbox = {other: body for other, body in self.inbox.items() if other > number}
        return found


def difference(mine: Greeting, theirs: Greeting, name: str) -> str | None:
    """Return why two ends do not fit together, in one line; None if they do."""
    if (theirs.site, theirs.to) != (name, mine.site):
        return f"{name} greets as {theirs.site!r} and means {theirs.to!r}, not {mine.site!r}: the rosters differ"
    if theirs.version != mine.version:
        return f"{name} runs lessbits {theirs.version}, not {mine.version} as {mine.site}: install the same version"
    if theirs.run != mine.run:
        return f"{name} is in another run, or has another roster than {mine.site}: give both the same roster"
    parts = {"model": (mine.code[:16], theirs.code[:16]), "settings": (mine.method, theirs.method)}
    if mine.round == theirs.round == 0:
        parts["start"] = (mine.code[16:], theirs.code[16:])
    wrong = next((what for what, (one, other) in parts.items() if one != other), None)
    return None if wrong is None else differ(wrong, " and ".join(sorted((mine.site, name))))
