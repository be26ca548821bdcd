"""The memory of links that fail: one for each link, begun anew when its two ends meet again.

What the two ends have taken from their disagreement is equal but for its sign. So a node that has lost everything
gets its part of the dual back from its neighbours. While a neighbour is away, what was taken on its link does not act,
so that the duals of those that go on add up to zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lessbits.errors import WireError
from lessbits.torch.memory import Memory, Read
from lessbits.torch.pieces import Piece, Pieces
from lessbits.torch.sums import stream_words
from lessbits.training.partners import PER_LINK, neighbours, turns
from lessbits.training.peer_links import PeerLinks


@dataclass
class Shared:
    """What the two ends of a link share.

    Attributes:
        epoch: The epoch of the link to which it belongs; 0 for none.
        own: What the neighbour knows of this node's model; None until a model was sent, or asked for and received.
        gap: The own memory minus the neighbour's; None until both are known.
        taken: The sum of all that this node has taken from the disagreement, also of earlier epochs; None for nothing.
        asked: Whether the neighbour's model was asked for.
    """

    epoch: int = 0
    own: torch.Tensor | None = None
    gap: torch.Tensor | None = None
    taken: torch.Tensor | None = None
    asked: bool = False


class PerLink(Memory):
    """A memory for each link; `keeps` says whether what was taken is kept, for a dual."""

    links: PeerLinks

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
        super().__init__(links, pieces, seed, run)
        network = links.roster.network()
        order = turns(network, links.node)
        weights = neighbours(network, links.node)
        self.rounds = [{} if other is None else {other: 0.5} for other in order] if in_turn else [weights]
        self.shared = {other: Shared() for other in weights}
        self.start = start.clone()
        self.keeps = keeps
        self.mine: dict[int, list[tuple[Piece, Any]]] = {}  # what was sent in this exchange
        self.spoke: list[int] = []  # who was heard in it
        self.lost = torch.zeros_like(start)  # taken on links lost since the last exchange, less those that came back

    def begin(self, read: Read, turn: int) -> tuple[int, torch.Tensor | None]:
        """Begin links anew where that is needed.

        Return the number of the exchange at which neighbours that came are, and the model of one if this node, which
        has just been started, takes it.
        """
        self.links.number = turn
        if not turn:
            self.links.assemble()
        live, finished = self.links.survey(), self.links.finished
        for other, shared in self.shared.items():
            epoch, fresh = live.get(other, (0, False))
            if shared.epoch != epoch and other not in finished:  # who has done its part keeps its dual, as we do
                self._renew(other, epoch, fresh)
        for other in live:
            if self.shared[other].own is None and not self.shared[other].asked:
                self._offer(other, None if not turn else read(slice(0, len(self.start))))
        return self._accept(turn)

    def _renew(self, other: int, epoch: int, fresh: bool) -> None:
        """Forget what a link shared; two nodes that have not exchanged yet start from the same model."""
        before = self.shared[other]
        if before.taken is not None and before.gap is not None:
            self.lost += before.taken
        self.shared[other] = Shared(epoch, taken=before.taken)
        if fresh:
            self.shared[other] = Shared(epoch, self.start.clone(), torch.zeros_like(self.start))

    def _offer(self, other: int, x: torch.Tensor | None) -> None:
        """Send the model as it is, or ask for the neighbour's if it is None."""
        shared = self.shared[other]
        parts = [] if x is None else [x] if shared.taken is None else [x, shared.taken]
        body = b"".join(part.cpu().numpy().astype("<f4").tobytes() for part in parts)
        shared.asked, shared.own = x is None, x
        self.bits += 8 * len(body)
        self.links.offer(other, body)

    def _accept(self, turn: int) -> tuple[int, torch.Tensor | None]:
        """Take the models that have come; a node that has just been started waits for one."""
        reached, model = turn, None
        for other, (number, body) in self.links.models(wait=not turn).items():
            shared = self.shared[other]
            if shared.gap is not None:
                continue
            theirs, taken = self._read(body)
            if shared.own is None:
                if theirs is None:
                    raise WireError(f"nodes {self.links.node} and {other} have asked for each other's models")
                shared.own, shared.gap = theirs, torch.zeros_like(theirs)
                if not turn and (model is None or number > reached):
                    model = theirs.clone()
            else:
                shared.gap = torch.zeros_like(shared.own) if theirs is None else shared.own - theirs
            self._settle(shared, taken)
            reached = max(reached, number)
        self.links.number = reached
        return reached, model

    def _settle(self, shared: Shared, theirs: torch.Tensor | None) -> None:
        """Agree on what both ends have taken: one may have missed the last message, or know nothing."""
        if theirs is not None:
            shared.taken = -theirs if shared.taken is None else (shared.taken - theirs) / 2
        if shared.taken is not None:
            self.lost -= shared.taken

    def _read(self, body: bytes) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return the model that was sent, and what its sender has taken; None for what was not sent."""
        size = len(self.start)
        if len(body) not in (0, 4 * size, 8 * size):
            raise WireError(f"a neighbour sent a model of {len(body)} bytes, but it has {4 * size}")
        numbers = torch.from_numpy(np.frombuffer(body, "<f4").astype(np.float32)).to(self.start.device)
        if not bool(torch.isfinite(numbers).all()):
            raise WireError("a neighbour sent a model with NaN or infinite numbers")
        return numbers[:size] if body else None, numbers[size:] if len(body) > 4 * size else None

    def send(self, read: Read, turn: int) -> dict[int, bytes]:
        """Send Q(x - h) on each link whose turn it is and that both ends have begun."""
        bodies = {}
        self.mine = {}
        for other in self.rounds[turn % len(self.rounds)]:
            shared = self.shared[other]
            if other in self.links.surveyed and shared.own is not None and shared.gap is not None:
                mine: list[tuple[Piece, Any]] = []
                words = stream_words(self.seed, turn, self.links.node * self.links.nodes + other, PER_LINK)
                bodies[other] = self.encode(read, shared.own, words, lambda *sent, mine=mine: mine.append(sent))
                self.mine[other] = mine
        return self.seal(bodies, turn)

    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Count messages on links where both ends have sent one."""
        partners = self.rounds[turn % len(self.rounds)]
        self.spoke = list(frames)
        for other, frame in frames.items():
            shared, gap = self.shared[other], self.shared[other].gap
            assert shared.own is not None  # a message was sent
            assert gap is not None
            for piece, payload in self.mine[other]:
                piece.add(shared.own, payload)
                piece.add(gap, payload)
            for piece, payload in self.decode(other, frame, turn, gap.device):
                piece.add(gap, payload, -1.0)
            if self.keeps:
                part = gap * partners[other]
                shared.taken = part if shared.taken is None else shared.taken.add_(part)
        self.mine = {}

    def pull(self, turn: int, part: slice) -> torch.Tensor:
        """Return the weighted disagreement with those that were heard."""
        pull = torch.zeros_like(self.start[part])
        for other in self.spoke:
            gap = self.shared[other].gap
            assert gap is not None
            pull += gap[part] * self.rounds[turn % len(self.rounds)][other]
        return pull

    def recover(self) -> torch.Tensor:
        """Return what was taken from neighbours that are lost since the last call, to be given back to the dual."""
        lost, self.lost = self.lost, torch.zeros_like(self.lost)
        return lost

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return nothing: a node that comes back begins all links anew."""
        return {}
