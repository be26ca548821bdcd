"""The memory of links that fail, with arrays of JAX: see `lessbits.torch.failing`, which sends the same."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.neural.arithmetic import cut, weighted
from lessbits.neural.memory import Memory, zeros
from lessbits.neural.quantizers import WeightQuantizer
from lessbits.training.failing import FailingLinks
from lessbits.training.peer_links import PeerLinks


class PerLink(FailingLinks, Memory):
    """A memory for each link, [1, size]; `keeps` says whether what was taken is kept, for a dual."""

    def __init__(
        self,
        links: PeerLinks,
        quantizer: WeightQuantizer,
        seed: int,
        run: int,
        start: jax.Array,
        in_turn: bool,
        keeps: bool,
    ) -> None:
        Memory.__init__(self, links, quantizer, seed, run)
        FailingLinks.__init__(self, links, start, in_turn, keeps)
        self.mine: dict[int, jax.Array] = {}  # what was sent in this exchange

    def zeros(self) -> jax.Array:
        """Return an array of zeros."""
        return jnp.zeros_like(self.start)

    def copied(self, vector: jax.Array) -> jax.Array:
        """Return the array: arrays of JAX do not change."""
        return vector

    def on_host(self, vector: jax.Array) -> np.ndarray:
        """Return the numbers of an array."""
        return np.asarray(vector)[0]

    def from_host(self, numbers: np.ndarray) -> jax.Array:
        """Return an array of one row."""
        return jnp.asarray(numbers[None])

    def send(self, x: jax.Array, turn: int) -> dict[int, bytes]:
        """Send Q(x - h) on each open link whose turn it is."""
        bodies: dict[int, bytes] = {}
        self.mine = {}
        for other in self.open_links(turn):
            number = self.links.node * self.links.nodes + other
            bodies[other], self.mine[other] = self.told(x, self.shared[other].own, turn, number, per_link=True)
        return self.seal(bodies, turn)

    def receive(self, frames: Mapping[int, bytes], turn: int) -> None:
        """Count messages on links where both ends have sent one: who was not heard keeps its memory."""
        self.spoke = list(frames)
        for other, frame in frames.items():
            theirs = self.decode(self.open(other, frame, turn))
            shared, mine = self.shared[other], self.mine[other]
            shared.own = shared.own + mine
            shared.gap = (shared.gap + mine) - theirs
            self.take(other, turn)
        self.mine = {}

    def pull(self, turn: int, part: slice) -> jax.Array:
        """Return the weighted disagreement with those that were heard."""
        pull = zeros(part)
        for other in self.spoke:
            weight = self.rounds[turn % len(self.rounds)][other]
            pull = pull + weighted(cut(self.shared[other].gap, part), jnp.full(1, weight, jnp.float32))
        return pull
