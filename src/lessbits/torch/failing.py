"""The memory of links that fail: one for each link, begun anew when its two ends meet again."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from lessbits.torch.memory import Memory, Read
from lessbits.torch.pieces import Piece, Pieces
from lessbits.torch.sums import stream_words
from lessbits.training.failing import FailingLinks
from lessbits.training.partners import PER_LINK
from lessbits.training.peer_links import PeerLinks


class PerLink(FailingLinks, Memory):
    """A memory for each link; `keeps` says whether what was taken is kept, for a dual."""

    def __init__(
        self,
        links: PeerLinks,
        pieces: Pieces,
        seed: int,
        run: int,
        start: torch.Tensor,
        in_turn: bool,
        keeps: bool,
    ) -> None:
        Memory.__init__(self, links, pieces, seed, run)
        FailingLinks.__init__(self, links, start.clone(), in_turn, keeps)
        self.mine: dict[int, list[tuple[Piece, Any]]] = {}  # what was sent in this exchange

    def zeros(self) -> torch.Tensor:
        """Return a tensor of zeros."""
        return torch.zeros_like(self.start)

    def copied(self, vector: torch.Tensor) -> torch.Tensor:
        """Return a clone: memories change in place."""
        return vector.clone()

    def on_host(self, vector: torch.Tensor) -> np.ndarray:
        """Return the numbers of a tensor."""
        return vector.cpu().numpy()

    def from_host(self, numbers: np.ndarray) -> torch.Tensor:
        """Return a tensor on the model's device."""
        return torch.from_numpy(numbers.copy()).to(self.start.device)

    def send(self, read: Read, turn: int) -> dict[int, bytes]:
        """Send Q(x - h) on each link whose turn it is and that both ends have begun."""
        bodies = {}
        self.mine = {}
        for other in self.open_links(turn):
            mine: list[tuple[Piece, Any]] = []
            words = stream_words(self.seed, turn, self.links.node * self.links.nodes + other, PER_LINK)
            bodies[other] = self.encode(read, self.shared[other].own, words, lambda *sent, mine=mine: mine.append(sent))
            self.mine[other] = mine
        return self.seal(bodies, turn)

    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Count messages on links where both ends have sent one."""
        self.spoke = list(frames)
        for other, frame in frames.items():
            own, gap = self.shared[other].own, self.shared[other].gap
            for piece, payload in self.mine[other]:
                piece.add(own, payload)
                piece.add(gap, payload)
            for piece, payload in self.decode(other, frame, turn, gap.device):
                piece.add(gap, payload, -1.0)
            self.take(other, turn)
        self.mine = {}

    def pull(self, turn: int, part: slice) -> torch.Tensor:
        """Return the weighted disagreement with those that were heard."""
        pull = torch.zeros_like(self.start[part])
        for other in self.spoke:
            pull += self.shared[other].gap[part] * self.rounds[turn % len(self.rounds)][other]
        return pull

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return nothing: a node that comes back begins all links anew."""
        return {}
