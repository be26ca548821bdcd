"""Sums of changes up a spanning tree, and the mean of all nodes down it: `Rule(tree=True)`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from lessbits.codecs.frames import body_sum
from lessbits.networks import Network
from lessbits.torch.memory import Messages, Read
from lessbits.torch.pieces import Piece, Pieces
from lessbits.torch.quantizers import Words
from lessbits.torch.sums import stream_words
from lessbits.training.links import Links
from lessbits.training.partners import PER_NODE, Family

NOTHING = b""  # goes the other way while a message goes up or down


class TreeSums(Messages):
    """What this node has not told of its sums, and the mean change of the last exchange.

    The root's message is passed on unchanged, so that all nodes decode the same bytes and have the same model.
    """

    def __init__(
        self, links: Links, pieces: Pieces, seed: int, run: int, start: torch.Tensor, network: Network
    ) -> None:
        super().__init__(links, pieces, seed, run)
        self.family = Family.of(network, links.node)
        self.error = torch.zeros_like(start)
        self.mean = torch.zeros_like(start)

    def talk(
        self, read: Read, old: torch.Tensor, turn: int, waiting: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Add up what this node and those below it changed, pass it on, and hear the mean of all."""
        for part in self.pieces.parts():
            self.error[part] += old[part] - read(part)
        children = dict.fromkeys(self.family.children, NOTHING)
        with waiting():
            frames = self.links.exchange(children) if children else {}
        for other, frame in sorted(frames.items()):
            for piece, payload in self.decode(other, frame, turn, self.error.device):
                piece.add(self.error, payload)
        self.mean.zero_()
        parent = self.family.parent
        body = self._root(turn) if parent is None else self._above(parent, turn, waiting)
        if children:
            self.links.exchange(self.seal(dict.fromkeys(children, body), turn))

    def _root(self, turn: int) -> tuple[bytes, int]:
        """Take the mean of all, and return it as a message."""
        nodes = float(self.links.nodes)

        def take(piece: Piece, payload: Any) -> None:
            piece.add(self.error, payload, -nodes)
            piece.add(self.mean, payload)

        return self.write(lambda part: self.error[part] / nodes, self._words(turn), take)

    def _above(self, parent: int, turn: int, waiting: Callable[[], AbstractContextManager[None]]) -> tuple[bytes, int]:
        """Send the sum up, and return the message that comes down, with the mean taken."""
        up = self.write(
            lambda part: self.error[part].clone(),
            self._words(turn),
            lambda piece, payload: piece.add(self.error, payload, -1.0),
        )
        with waiting():
            self.links.exchange(self.seal({parent: up}, turn))
            frame = self.links.exchange({parent: NOTHING})[parent]
        body = self.open(parent, frame, turn)
        for piece, payload in self.cut(body, self.mean.device):
            piece.add(self.mean, payload)
        return body, body_sum(body)

    def _words(self, turn: int) -> Words:
        return stream_words(self.seed, turn, self.links.node, PER_NODE)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return what has not been told."""
        return {"error": self.error}
