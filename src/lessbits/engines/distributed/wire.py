"""Messages as bytes between ranks: encodes what the nodes of a rank send, and decodes what they receive."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from lessbits.codecs.base import Codec
from lessbits.codecs.frames import CHECK_BYTES, Place, body_sum, header_bytes, length_bytes, seal, unseal
from lessbits.engines.distributed.transport import Transport
from lessbits.errors import WireError
from lessbits.methods.outbox import Message, Outbox
from lessbits.networks import Network

LARGEST = 1e30  # magnitude of what ranks send; a run that would need more has diverged, and its sender says so

Keys = Sequence[tuple[Any, Any]]  # for each message the keys of `Codec.keys`, for rows sent and for links received from


class Carried(NamedTuple):
    """The cost of an exchange."""

    messages: np.ndarray  # number of messages, by message of the outbox
    link_bytes: np.ndarray  # bytes with headers on all links, likewise
    rank_bytes: int  # bytes between ranks
    coding_seconds: float
    waiting_seconds: float


class _Sealed(NamedTuple):
    """The encoded rows of a message."""

    bodies: list[bytes | None]  # None where nothing is sent
    sums: list[int]  # the part of the checksum that depends on the body


class Wire:
    """The links of the nodes of this rank.

    Links between nodes of one rank do not use the transport. Their messages are still encoded, and decoded from these
    bytes, so that a run does not depend on which rank holds which node. As the rank has both ends of such a link, it
    also compares what was decoded with what was sent.
    """

    def __init__(
        self, network: Network, held: Sequence[np.ndarray], codecs: Sequence[Codec], transport: Transport, run: int
    ) -> None:
        self.network, self.codecs, self.transport, self.run = network, codecs, transport, run
        rank_of = np.repeat(np.arange(len(held)), [len(nodes) for nodes in held])
        mine = held[transport.rank]
        first = int(mine[0])
        self.links = np.flatnonzero(rank_of[network.owner] == transport.rank)
        self.owner = network.owner[self.links] - first
        self.back = network.reverse[self.links]  # the links that this rank receives on
        other = rank_of[network.neighbor[self.links]]
        self.ranks = sorted(set(other.tolist()) - {transport.rank})
        # Both ends list the links between them in the same order, by the number of the sender's link.
        self.outgoing = {rank: np.flatnonzero(other == rank) for rank in self.ranks}
        self.incoming = {rank: rows[np.argsort(self.back[rows])] for rank, rows in self.outgoing.items()}
        self.inside = np.flatnonzero(other == transport.rank)
        self.near_node = network.neighbor[self.links[self.inside]] - first
        self.near_link = np.searchsorted(self.links, self.back[self.inside])
        transport.connect(self.ranks)

    def carry(self, iteration: int, outbox: Outbox, keys: Keys) -> tuple[Outbox, Carried]:
        """Send an outbox (of NumPy arrays), and return the inbox and the cost of the exchange."""
        clock = time.perf_counter()
        sealed = [self._encode(*row) for row in zip(self.codecs, outbox, keys, strict=True)]
        sizes, bodies = self._pack(iteration, outbox, sealed)
        coded = time.perf_counter() - clock
        received, waited = self._exchange(outbox, sizes, bodies)
        clock = time.perf_counter()
        inbox = tuple(
            self._inbox(iteration, number, message, keys[number][1], received) for number, message in enumerate(outbox)
        )
        for number, message in enumerate(outbox):
            self._decode_inside(number, message, keys[number][1], sealed[number], inbox[number])
        counts = [self._count(*row) for row in zip(self.codecs, outbox, sealed, strict=True)]
        rank_bytes = sum(len(part) for part in (*sizes, *bodies))
        cost = Carried(
            np.array([count for count, _ in counts]),
            np.array([size for _, size in counts]),
            rank_bytes,
            coded + time.perf_counter() - clock,
            waited,
        )
        return inbox, cost

    def sendable(self, outbox: Outbox) -> bool:
        """Return whether receivers accept all values of an outbox."""
        return all(
            codec.largest(message.payload) <= LARGEST for codec, message in zip(self.codecs, outbox, strict=True)
        )

    def _encode(self, codec: Codec, message: Message, keys: tuple[Any, Any]) -> _Sealed:
        leaves, shape = jax.tree.flatten(message.payload)
        rows = len(leaves[0])
        sent: Any = range(rows)
        if message.active is not None:
            links = np.flatnonzero(message.active)
            sent = links if message.per_link else np.unique(self.owner[links])
        bodies: list[bytes | None] = [None] * rows
        for row in sent:
            payload = jax.tree.unflatten(shape, [leaf[row] for leaf in leaves])
            bodies[row] = codec.encode(payload, None if keys[0] is None else keys[0][row])
        return _Sealed(bodies, [0 if body is None else body_sum(body) for body in bodies])

    def _row(self, message: Message, link: int) -> int:
        return link if message.per_link else int(self.owner[link])

    def _pack(self, iteration: int, outbox: Outbox, sealed: Sequence[_Sealed]) -> tuple[list[bytes], list[bytes]]:
        """Return the lengths of the messages to each rank, for codecs whose lengths vary, and the messages."""
        sizes, bodies = [], []
        for rank in self.ranks:
            lengths, frames = [], []
            for number, (codec, message, rows) in enumerate(zip(self.codecs, outbox, sealed, strict=True)):
                width = length_bytes(codec)
                for link in self.outgoing[rank]:
                    row = self._row(message, int(link))
                    body = rows.bodies[row]
                    if body is not None and (message.active is None or message.active[link]):
                        place = Place(self.run, _turn(iteration, message, int(link)), int(self.links[link]), number)
                        frames.append(seal(body, place, rows.sums[row]))
                        lengths.append(len(body).to_bytes(width, "little") if width else b"")
            sizes.append(b"".join(lengths))
            bodies.append(b"".join(frames))
        return sizes, bodies

    def _exchange(
        self, outbox: Outbox, sizes: list[bytes], bodies: list[bytes]
    ) -> tuple[dict[tuple[int, int], memoryview], float]:
        """Return the received frames, by message and link. Lengths are exchanged first, to allocate buffers."""
        due = {rank: self._due(outbox, rank) for rank in self.ranks}
        expected = [sum(length_bytes(self.codecs[number]) for number, _ in due[rank]) for rank in self.ranks]
        clock = time.perf_counter()
        lengths = self.transport.exchange(sizes, expected) if any(self._varies) else [memoryview(b"")] * len(expected)
        frames = [
            self._frame_sizes(rank, due[rank], announced) for rank, announced in zip(self.ranks, lengths, strict=True)
        ]
        contents = self.transport.exchange(bodies, [sum(each) for each in frames])
        waited = time.perf_counter() - clock
        found = {}
        for rank, each, content in zip(self.ranks, frames, contents, strict=True):
            at = 0
            for key, size in zip(due[rank], each, strict=True):
                found[key] = content[at : at + size]
                at += size
        return found, waited

    @property
    def _varies(self) -> list[bool]:
        return [codec.body_bytes is None for codec in self.codecs]

    def _due(self, outbox: Outbox, rank: int) -> list[tuple[int, int]]:
        """Return the messages that a rank sends to this one now, as (message, link of this rank), in its order."""
        return [
            (number, int(link))
            for number, message in enumerate(outbox)
            for link in self.incoming[rank]
            if message.awaited is None or message.awaited[link]
        ]

    def _frame_sizes(self, rank: int, due: list[tuple[int, int]], announced: memoryview) -> list[int]:
        sizes, at = [], 0
        for number, link in due:
            codec = self.codecs[number]
            length = codec.body_bytes
            if length is None:
                width = length_bytes(codec)
                length = int.from_bytes(announced[at : at + width], "little")
                at += width
                if length > codec.most_bytes:  # before a buffer is allocated for it
                    raise WireError(
                        f"{self._where(rank, link)}: a message of {length} bytes was announced, but the most is "
                        f"{codec.most_bytes}"
                    )
            sizes.append(length + CHECK_BYTES)
        return sizes

    def _where(self, rank: int, link: int) -> str:
        back = self.back[link]
        return f"from rank {rank}, node {self.network.owner[back]} to node {self.network.neighbor[back]}"

    def nothing(self, message: Message) -> Message:
        """Return a received message of zeros, with one row per link."""

        def zeros(leaf: np.ndarray) -> np.ndarray:
            return np.zeros((len(self.links), *leaf.shape[1:]), leaf.dtype)

        return replace(message, payload=jax.tree.map(zeros, message.payload))

    def _inbox(
        self, iteration: int, number: int, message: Message, keys: Any, received: dict[tuple[int, int], memoryview]
    ) -> Message:
        """Return a message received from other ranks: for each link, the row of its reverse link."""
        inbox = self.nothing(message)
        arrived = jax.tree.leaves(inbox.payload)
        codec = self.codecs[number]
        for rank in self.ranks:
            for link in self.incoming[rank]:
                frame = received.get((number, int(link)))
                if frame is None:
                    continue
                try:
                    body = unseal(frame, *self._places(_turn(iteration, message, int(link)), number, codec, rank, link))
                    row = codec.decode(body, None if keys is None else keys[link])
                    if not (size := codec.largest(row)) <= LARGEST:
                        raise WireError(
                            f"in iteration {iteration} a message has a value or a scale of {size:g}, but ranks send "
                            f"none beyond {LARGEST:g}"
                        )
                except WireError as error:
                    raise WireError(f"{self._where(rank, link)}: {error}") from None
                for target, value in zip(arrived, jax.tree.leaves(row), strict=True):
                    target[link] = value
        return inbox

    def _decode_inside(self, number: int, message: Message, keys: Any, sealed: _Sealed, inbox: Message) -> None:
        """Add to a received message what nodes of this rank sent each other, decoded once per body."""
        due = slice(None) if message.awaited is None else np.flatnonzero(message.awaited[self.inside])
        links = self.inside[due]
        rows = (self.near_link if message.per_link else self.near_node)[due]
        found, places = np.unique(rows, return_index=True)
        leaves, arrived = jax.tree.leaves(message.payload), jax.tree.leaves(inbox.payload)
        decoded = [np.zeros_like(leaf) for leaf in leaves]
        for row, link in zip(found.tolist(), links[places].tolist(), strict=True):
            try:
                sent = [leaf[row] for leaf in leaves]
                values = _decode_own(
                    self.codecs[number], sealed.bodies[row], None if keys is None else keys[link], sent
                )
            except WireError as error:
                raise WireError(f"{self._where(self.transport.rank, link)}: {error}") from None
            for target, value in zip(decoded, values, strict=True):
                target[row] = value
        for target, leaf in zip(arrived, decoded, strict=True):
            target[links] = leaf[rows]

    def _places(self, turn: int, number: int, codec: Codec, rank: int, link: int) -> tuple[Place, Codec, list[Place]]:
        """Return the place of a message, its codec, and other places that a wrong message might come from."""
        place = Place(self.run, turn, int(self.back[link]), number)
        nearby = [place._replace(iteration=turn + shift) for shift in (-1, 1, -2, 2) if turn + shift >= 0]
        nearby += [place._replace(link=int(self.back[other])) for other in self.incoming[rank] if other != link]
        nearby += [place._replace(message=other) for other in range(len(self.codecs)) if other != number]
        return place, codec, nearby

    def _count(self, codec: Codec, message: Message, sealed: _Sealed) -> tuple[int, int]:
        """Return the number of messages, and their bytes with headers, on all links from this rank."""
        sizes = np.array([0 if body is None else header_bytes(codec) + len(body) for body in sealed.bodies])
        on_links = sizes if message.per_link else sizes[self.owner]
        if message.active is not None:
            on_links = np.where(message.active, on_links, 0)
        return int((on_links > 0).sum()), int(on_links.sum())


def _turn(iteration: int, message: Message, link: int) -> int:
    """Return the number by which both ends check a link's message: that of its round, if links count their own."""
    return iteration if message.round is None else int(message.round[link])


def _decode_own(codec: Codec, body: bytes | None, key: Any, sent: list[Any]) -> list[Any]:
    """Return the arrays of a payload, decoded from its body. Raise if they are not those that were sent."""
    if body is None:
        raise WireError("a message is awaited, but none was sent")
    values = [np.asarray(value) for value in jax.tree.leaves(codec.decode(body, key))]
    for value, original in zip(values, sent, strict=True):
        if value.dtype != original.dtype or value.tobytes() != original.tobytes():
            raise WireError(f"{type(codec).__name__} decodes another payload than it encoded, so this codec is wrong")
    return values
