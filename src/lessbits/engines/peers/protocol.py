"""What two sites say to each other on the stream of a link: packets of bytes, each with its kind in the first byte.

A stream begins with a greeting from each end. Then come rounds (a message of the method, or none), signs of life, and
a farewell. Greetings and farewells are JSON.
"""

import json
import math
import struct
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple, Self

from lessbits.engines.peers.roster_entries import MOST_SITES
from lessbits.errors import WireError, shown

PROTOCOL = 2
MOST_TEXT = 65_536  # bytes of a packet that is not a round
MOST_WORDS = 500  # characters of the sentence in a farewell
PART_BYTES = 32_768  # longer packets travel in parts, so that signs of life get through on a slow link
NEVER = 0xFFFFFFFF  # the iteration at which a run stops that does not yet
MOST_EPOCH = 2**31  # after which epochs begin at 1 again
NONE = -1  # in place of a CRC
LARGEST_ESTIMATE = 3e38  # of an error, also in place of infinity: it travels as a float32
DIGEST_BYTES = 8
_ROUND = struct.Struct("<BBIIIIIHf")
_ALIVE = struct.Struct("<Bf")
HEADER_BYTES = _ROUND.size + DIGEST_BYTES


class Kind(IntEnum):
    """What a packet is."""

    GREETING = 1
    ROUND = 2
    ALIVE = 3
    FAREWELL = 4
    PART = 5
    LAST_PART = 6


_KINDS = frozenset(int(kind) for kind in Kind)


@dataclass(frozen=True)
class Greeting:
    """The first packet of each end: who it is, what it runs, and where it stands on this link.

    Attributes:
        site: The name of the sender.
        to: The name of the receiver.
        protocol: The version of these packets.
        version: The version of the package.
        run: The run and what its sites share, as 16 hexadecimal digits.
        method: Method, step sizes, seed, precision and stop rule, likewise; empty if they are not agreed on yet.
        code: How messages are encoded, likewise.
        epoch: The epoch of the link; 0 if the link has none, because it was dropped or never began.
        last_epoch: The highest epoch that the link ever had.
        round: Rounds of the epoch that the sender has finished.
        sent: CRC of the message that the sender has sent in this round; -1 for none.
        applied: CRC of the last message that it has applied; -1 for none.
        received: CRC of the message of this round that has arrived and is not applied yet; -1 for none.
        early: CRC of the message of the next round that has arrived already; -1 for none.
        nonce: 16 random hexadecimal digits. Those of both ends are part of the check of each message on the connection,
            so that messages that were recorded on another one do not fit.
    """

    site: str
    to: str
    protocol: int
    version: str
    run: str
    method: str
    code: str
    epoch: int
    last_epoch: int
    round: int
    sent: int
    applied: int
    received: int
    early: int
    nonce: str

    def packet(self) -> bytes:
        """Return the greeting as a packet."""
        return _text(Kind.GREETING, asdict(self))

    @classmethod
    def read(cls, packet: bytes) -> Self:
        """Read a greeting, or raise a `WireError`."""
        facts = read_text(packet, Kind.GREETING)
        if type(facts.get("protocol")) is int and facts["protocol"] != PROTOCOL:
            # What else such a greeting says, nobody here can know.
            raise WireError(
                f"a greeting is in version {shown(facts['protocol'])} of the protocol, not {PROTOCOL}: install the "
                "same version of lessbits at both ends"
            )
        wanted = {entry.name: entry.type for entry in fields(cls)}
        if facts.keys() != wanted.keys():
            raise WireError("a greeting has other entries than this version of lessbits writes: update the older one")
        for name, kind in wanted.items():
            value = facts[name]
            if not (_is_count(name, value) if kind is int else _is_name(value)):
                raise WireError(f"a greeting has {shown(value)} as its {name}")
        return cls(**facts)


class Round(NamedTuple):
    """An iteration of the sender, and its message on this link, if it has one now.

    Attributes:
        epoch: The epoch of the link.
        number: The round of the message.
        iteration: The iteration of the sender.
        stop: The iteration at which the sender has ended, as all are below the target; NEVER if it has not.
        streak: For how many iterations, as far as the sender has heard, all sites have been below the target.
        sites: The most sites that the sender has heard of.
        estimate: The sender's estimate of its error.
        digest: Of what both ends share, before this round; empty in most rounds.
        frame: The sealed message; empty for none.
    """

    epoch: int
    number: int
    iteration: int
    stop: int
    streak: int
    sites: int
    estimate: float
    digest: bytes
    frame: bytes

    def packet(self) -> bytes:
        """Return the round as a packet."""
        *numbers, digest, frame = self
        return _ROUND.pack(Kind.ROUND, bool(digest), *numbers) + digest + frame

    @classmethod
    def read(cls, packet: bytes) -> Self:
        """Read a round, or raise a `WireError`."""
        try:
            kind, has_digest, *numbers = _ROUND.unpack_from(packet)
        except struct.error:
            raise WireError(f"a round has {len(packet)} bytes, but its header alone has {_ROUND.size}") from None
        end = _ROUND.size + DIGEST_BYTES * bool(has_digest)
        if kind != Kind.ROUND or has_digest > 1 or len(packet) < end:
            raise WireError("the header of a round makes no sense")
        if math.isnan(numbers[-1]):
            raise WireError("an estimate of the error is no number")
        epoch, number, iteration, stop, streak, sites, estimate = numbers
        if sites > MOST_SITES:
            raise WireError(f"a neighbour has heard of {sites} sites, but the most is {MOST_SITES}")
        return cls(epoch, number, iteration, stop, streak, sites, estimate, packet[_ROUND.size : end], packet[end:])


def alive(busy: float) -> bytes:
    """Return a sign of life; `busy` is for how many seconds the site has been computing, 0 if it waits for others."""
    return _ALIVE.pack(Kind.ALIVE, busy)


def read_alive(packet: bytes) -> float:
    """Return for how many seconds the sender has been computing."""
    if len(packet) != _ALIVE.size or not 0 <= (busy := _ALIVE.unpack(packet)[1]) < math.inf:
        raise WireError("a sign of life makes no sense")
    return busy


class Farewell(NamedTuple):
    """Why an end leaves: "finished", "leaving", "refused" or "reset"; and a sentence."""

    reason: str
    text: str

    def packet(self) -> bytes:
        """Return the farewell as a packet."""
        return _text(Kind.FAREWELL, {"reason": self.reason, "text": words(self.text)})

    @classmethod
    def read(cls, packet: bytes) -> Self:
        """Read a farewell, or raise a `WireError`."""
        facts = read_text(packet, Kind.FAREWELL)
        reason, text = facts.get("reason"), facts.get("text")
        if reason not in ("finished", "leaving", "refused", "reset") or not isinstance(text, str):
            raise WireError("a farewell makes no sense")
        return cls(reason, words(text))  # it is shown to people: no control characters, no line that looks like ours


def split(packet: bytes) -> list[bytes]:
    """Return a packet in parts, if it is long."""
    if len(packet) <= PART_BYTES:
        return [packet]
    *parts, last = (packet[at : at + PART_BYTES] for at in range(0, len(packet), PART_BYTES))
    return [*(bytes([Kind.PART]) + part for part in parts), bytes([Kind.LAST_PART]) + last]


class Joiner:
    """Puts packets together that came in parts.

    Args:
        most: The most bytes that a packet may have.
    """

    def __init__(self, most: int) -> None:
        self.most, self.parts, self.size = most, list[bytes](), 0

    def whole(self, packet: bytes) -> bytes | None:
        """Return a packet that is whole now; None if more is to come. Raise a `WireError` if it grows too large."""
        kind = kind_of(packet)
        if kind not in (Kind.PART, Kind.LAST_PART):
            if self.parts and kind is not Kind.ALIVE:
                raise WireError("a packet came in the middle of another")
            return self._checked(packet)
        if not 1 < len(packet) <= PART_BYTES + 1 or (kind is Kind.PART and len(packet) != PART_BYTES + 1):
            # Else parts without content could come for ever, and never be too large.
            raise WireError(f"a part has {len(packet) - 1} bytes, but all but the last have {PART_BYTES}")
        self.size += len(packet) - 1
        self.parts.append(packet[1:])
        self._checked(b"", self.size)
        if kind is Kind.PART:
            return None
        joined, self.parts, self.size = b"".join(self.parts), [], 0
        if kind_of(joined) in (Kind.PART, Kind.LAST_PART):
            raise WireError("a packet in parts has parts itself")
        return joined

    def _checked(self, packet: bytes, size: int = 0) -> bytes:
        size = size or len(packet)
        if size > self.most:
            raise WireError(f"a packet has {size} bytes or more, but the most is {self.most}")
        return packet


def kind_of(packet: Any) -> Kind:
    """Return the kind of a packet, or raise a `WireError`."""
    if not isinstance(packet, bytes) or not packet or packet[0] not in _KINDS:
        raise WireError("a packet is of no kind that this version of lessbits knows")
    return Kind(packet[0])


def read_text(packet: bytes, kind: Kind) -> dict[str, Any]:
    """Return the table that a packet of JSON holds, or raise a `WireError`."""
    if kind_of(packet) is not kind:
        raise WireError(f"a {kind.name.lower()} was due, but a {kind_of(packet).name.lower()} came")
    if len(packet) > MOST_TEXT:
        raise WireError(f"a {kind.name.lower()} has {len(packet)} bytes, but the most is {MOST_TEXT}")
    try:
        found = json.loads(packet[1:].decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise WireError(f"a {kind.name.lower()} cannot be read") from None
    if not isinstance(found, dict):
        raise WireError(f"a {kind.name.lower()} is no table")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def _text(kind: Kind, facts: dict[str, Any]) -> bytes:
    return bytes([kind]) + json.dumps(facts, separators=(",", ":"), allow_nan=False).encode()


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 100 and value.isascii() and value.isprintable()


def _is_count(name: str, value: Any) -> bool:
    least = NONE if name in ("sent", "applied", "received", "early") else 0
    most = MOST_EPOCH if name in ("epoch", "last_epoch") else 2**32 - 1
    return type(value) is int and least <= value <= most


def words(text: str) -> str:
    """Return what another has said so that it can be shown: no control characters, and not too long."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text[:MOST_WORDS])
