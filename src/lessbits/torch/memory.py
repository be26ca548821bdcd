"""What neighbours know of each other's models, and the messages that keep it so.

Both ends of a link add the same decoded message to their copies, so that these stay equal without being sent.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from lessbits.codecs.frames import Place, body_sum, seal, unseal
from lessbits.networks import Network
from lessbits.torch.pieces import Piece, Pieces
from lessbits.torch.quantizers import Words
from lessbits.torch.sums import stream_words
from lessbits.training.links import Links
from lessbits.training.partners import PER_LINK, PER_NODE, neighbours, turns

Read = Callable[[slice], torch.Tensor]  # returns a copy of a part of the model


class Messages(ABC):
    """What passes between neighbours in an exchange, piece by piece of a model."""

    def __init__(self, links: Links, pieces: Pieces, seed: int, run: int) -> None:
        self.links, self.pieces, self.codec = links, pieces, pieces.codec
        self.seed, self.run, self.bits = seed, run, 0

    @abstractmethod
    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all that persists, by name."""

    def write(self, read: Read, words: Words, take: Callable[[Piece, Any], None]) -> tuple[bytes, int]:
        """Return the body of a message with Q of what is read, and its checksum; `take` is given each payload."""

        def bodies() -> Iterator[bytes]:
            for piece in self.pieces:
                payload = piece.quantizer.quantize(read(piece.part), words)
                yield piece.codec.encode(piece.quantizer.to_host(payload))
                take(piece, payload)

        body = self.codec.join(bodies())
        return body, body_sum(body)

    def seal(self, bodies: Mapping[int, tuple[bytes, int]], turn: int) -> dict[int, bytes]:
        """Return frames of bodies, and count the bits of this node."""
        here, nodes = self.links.node, self.links.nodes
        frames = {
            other: seal(body, Place(self.run, turn, here * nodes + other, 0), summed)
            for other, (body, summed) in bodies.items()
        }
        self.bits += 8 * sum(map(len, frames.values()))
        return frames

    def open(self, other: int, frame: bytes, turn: int) -> bytes:
        """Return the body of a neighbour's message, checked."""
        return unseal(frame, Place(self.run, turn, other * self.links.nodes + self.links.node, 0), self.codec)

    def cut(self, body: bytes, device: torch.device) -> Iterator[tuple[Piece, Any]]:
        """Yield the pieces of a message and their payloads."""
        for piece, part in zip(self.pieces, self.codec.cut(body), strict=True):
            yield piece, piece.quantizer.from_host(piece.codec.decode(part), device)

    def decode(self, other: int, frame: bytes, turn: int, device: torch.device) -> Iterator[tuple[Piece, Any]]:
        """Yield the pieces of a neighbour's message and their payloads, checked."""
        return self.cut(self.open(other, frame, turn), device)


class Memory(Messages):
    """Sends the difference of a model to what neighbours know, and finds the disagreement with them.

    An exchange is `send`, what the links do, and `receive`. All three go through a model piece by piece.
    """

    @abstractmethod
    def send(self, read: Read, turn: int) -> dict[int, bytes]:
        """Return a frame for each neighbour with which this node speaks in this turn."""

    @abstractmethod
    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Take the frames of neighbours; who is gone has none."""

    @abstractmethod
    def pull(self, turn: int, part: slice) -> torch.Tensor:
        """Return a part of Σ_j w_ij (h_i - h_j) over those that spoke in this turn, after `receive`."""

    def encode(
        self, read: Read, known: torch.Tensor, words: Words, take: Callable[[Piece, Any], None]
    ) -> tuple[bytes, int]:
        """Return the body of a message with Q(x - h), and its checksum; `take` is given the payload of each piece."""
        return self.write(lambda part: read(part).sub_(known[part]), words, take)


class Broadcast(Memory):
    """One message to all neighbours. Only the sum of what neighbours sent is kept, whatever their number."""

    def __init__(
        self, links: Links, pieces: Pieces, seed: int, run: int, start: torch.Tensor, network: Network
    ) -> None:
        super().__init__(links, pieces, seed, run)
        self.weights = neighbours(network, links.node)
        self.own = start.clone()
        self.others = start * sum(self.weights.values())

    def send(self, read: Read, turn: int) -> dict[int, bytes]:
        """Send Q(x - h) to all."""
        words = stream_words(self.seed, turn, self.links.node, PER_NODE)
        body = self.encode(read, self.own, words, lambda piece, payload: piece.add(self.own, payload))
        return self.seal(dict.fromkeys(self.weights, body), turn)

    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Add what neighbours sent to the sum."""
        for other, frame in frames.items():
            for piece, theirs in self.decode(other, frame, turn, self.own.device):
                piece.add(self.others, theirs, self.weights[other])

    def pull(self, turn: int, part: slice) -> torch.Tensor:
        """Return the disagreement with all."""
        return self.own[part] * sum(self.weights.values()) - self.others[part]

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the own memory and the weighted sum of the others'."""
        return {"own": self.own, "others": self.others}


class InTurn(Memory):
    """One neighbour at a time, and a memory for each link."""

    def __init__(
        self, links: Links, pieces: Pieces, seed: int, run: int, start: torch.Tensor, network: Network
    ) -> None:
        super().__init__(links, pieces, seed, run)
        self.order = turns(network, links.node)
        partners = [other for other in self.order if other is not None]
        self.own = {other: start.clone() for other in partners}
        self.gap = {other: torch.zeros_like(start) for other in partners}  # own memory minus the neighbour's

    def send(self, read: Read, turn: int) -> dict[int, bytes]:
        """Send Q(x - h) to the neighbour whose turn it is."""
        other = self.order[turn % len(self.order)]
        if other is None:
            return {}

        def take(piece: Piece, payload: Any) -> None:
            piece.add(self.own[other], payload)
            piece.add(self.gap[other], payload)

        words = stream_words(self.seed, turn, self.links.node * self.links.nodes + other, PER_LINK)
        return self.seal({other: self.encode(read, self.own[other], words, take)}, turn)

    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Add what the neighbour sent to its memory."""
        for other, frame in frames.items():
            for piece, theirs in self.decode(other, frame, turn, self.gap[other].device):
                piece.add(self.gap[other], theirs, -1.0)

    def pull(self, turn: int, part: slice) -> torch.Tensor:
        """Return half of the disagreement: the other half is the neighbour's."""
        other = self.order[turn % len(self.order)]
        if other is None:
            return torch.zeros_like(next(iter(self.gap.values()))[part])
        return 0.5 * self.gap[other][part]

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the memory and the gap of each link."""
        own = {f"own.{other}": tensor for other, tensor in self.own.items()}
        return own | {f"gap.{other}": tensor for other, tensor in self.gap.items()}
