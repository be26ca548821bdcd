"""What the two ends of a link between sites share, and how it begins anew when they meet again.

What the two ends have taken from their disagreement is equal but for its sign. So a node that has lost everything gets
its part of the dual back from its neighbours. While a neighbour is away, what was taken on its link does not act, so
that the duals of those that go on add up to zero.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lessbits.errors import WireError
from lessbits.training.partners import neighbours, turns
from lessbits.training.peer_links import PeerLinks

Vector = Any  # of the library in which the model is written


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
    own: Any = None
    gap: Any = None
    taken: Any = None
    asked: bool = False


class FailingLinks(ABC):
    """The links of a site with what they share.

    Args:
        links: The links.
        start: The model at the start.
        in_turn: Whether the node speaks with one neighbour at a time.
        keeps: Whether what was taken is kept, for a dual.
    """

    bits: int  # that this node has sent

    def __init__(self, links: PeerLinks, start: Vector, in_turn: bool, keeps: bool) -> None:
        network = links.network()
        order, weights = turns(network, links.node), neighbours(network, links.node)
        self.sites, self.start, self.keeps = links, start, keeps
        self.rounds = [{} if other is None else {other: 0.5} for other in order] if in_turn else [weights]
        self.shared = {other: Shared() for other in weights}
        self.spoke: list[int] = []  # who was heard in the last exchange
        self.lost = self.zeros()  # taken on links lost since the last exchange, less those that came back

    @abstractmethod
    def zeros(self) -> Vector:
        """Return a vector of zeros."""

    @abstractmethod
    def copied(self, vector: Vector) -> Vector:
        """Return a vector that does not change when the given one does."""

    @abstractmethod
    def on_host(self, vector: Vector) -> np.ndarray:
        """Return the numbers of a vector."""

    @abstractmethod
    def from_host(self, numbers: np.ndarray) -> Vector:
        """Return the vector of these numbers, float32 [size]."""

    def begin(self, model: Callable[[], Vector], turn: int) -> tuple[int, Vector | None]:
        """Begin links anew where that is needed.

        Return the number of the exchange at which neighbours that came are, and the model of one if this node, which
        has just been started, takes it.
        """
        self.sites.number = turn
        if not turn:
            self.sites.assemble()
        live, finished = self.sites.survey(), self.sites.finished
        for other, shared in self.shared.items():
            epoch, fresh = live.get(other, (0, False))
            if shared.epoch != epoch and other not in finished:  # who has done its part keeps its dual, as we do
                self._renew(other, epoch, fresh)
        for other in live:
            if self.shared[other].own is None and not self.shared[other].asked:
                self._offer(other, model() if turn else None)
        return self._accept(turn)

    def open_links(self, turn: int) -> list[int]:
        """Return the neighbours whose turn it is, on links that both ends have begun."""
        return [
            other
            for other in self.rounds[turn % len(self.rounds)]
            if other in self.sites.surveyed
            and self.shared[other].own is not None
            and self.shared[other].gap is not None
        ]

    def take(self, other: int, turn: int) -> None:
        """Keep what this node takes of the disagreement with a neighbour that was heard."""
        if self.keeps:
            shared = self.shared[other]
            part = shared.gap * self.rounds[turn % len(self.rounds)][other]
            shared.taken = part if shared.taken is None else shared.taken + part

    def recover(self) -> Vector:
        """Return what was taken from neighbours that are lost since the last call, to be given back to the dual."""
        lost, self.lost = self.lost, self.zeros()
        return lost

    def _renew(self, other: int, epoch: int, fresh: bool) -> None:
        """Forget what a link shared; two nodes that have not exchanged yet start from the same model."""
        before = self.shared[other]
        if before.taken is not None and before.gap is not None:
            self.lost = self.lost + before.taken
        self.shared[other] = Shared(epoch, taken=before.taken)
        if fresh:
            self.shared[other] = Shared(epoch, self.copied(self.start), self.zeros())

    def _offer(self, other: int, x: Vector | None) -> None:
        """Send the model as it is, or ask for the neighbour's if it is None."""
        shared = self.shared[other]
        parts = [] if x is None else [x] if shared.taken is None else [x, shared.taken]
        body = b"".join(self.on_host(part).astype("<f4").tobytes() for part in parts)
        shared.asked, shared.own = x is None, x
        self.bits += 8 * len(body)
        self.sites.offer(other, body)

    def _accept(self, turn: int) -> tuple[int, Vector | None]:
        """Take the models that have come; a node that has just been started waits for one."""
        reached, model = turn, None
        for other, (number, body) in self.sites.models(wait=not turn).items():
            shared = self.shared[other]
            if shared.gap is not None:
                continue
            theirs, taken = self._read(body)
            if shared.own is None:
                if theirs is None:
                    raise WireError(f"nodes {self.sites.node} and {other} have asked for each other's models")
                shared.own, shared.gap = theirs, self.zeros()
                if not turn and (model is None or number > reached):
                    model = self.copied(theirs)
            else:
                shared.gap = self.zeros() if theirs is None else shared.own - theirs
            self._settle(shared, taken)
            reached = max(reached, number)
        self.sites.number = reached
        return reached, model

    def _settle(self, shared: Shared, theirs: Vector | None) -> None:
        """Agree on what both ends have taken: one may have missed the last message, or know nothing."""
        if theirs is not None:
            shared.taken = -theirs if shared.taken is None else (shared.taken - theirs) / 2
        if shared.taken is not None:
            self.lost = self.lost - shared.taken

    def _read(self, body: bytes) -> tuple[Vector | None, Vector | None]:
        """Return the model that was sent, and what its sender has taken; None for what was not sent."""
        size = self.on_host(self.start).size
        if len(body) not in (0, 4 * size, 8 * size):
            raise WireError(f"a neighbour sent a model of {len(body)} bytes, but it has {4 * size}")
        numbers = np.frombuffer(body, "<f4").astype(np.float32)
        if not np.isfinite(numbers).all():
            raise WireError("a neighbour sent a model with NaN or infinite numbers")
        model = self.from_host(numbers[:size]) if body else None
        return model, self.from_host(numbers[size:]) if len(body) > 4 * size else None
