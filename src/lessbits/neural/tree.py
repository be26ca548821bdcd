"""Sums of changes up a spanning tree and their mean down it, with arrays of JAX: see `lessbits.torch.tree`."""

import jax
import jax.numpy as jnp

from lessbits.networks import Network
from lessbits.neural.memory import Messages
from lessbits.neural.quantizers import WeightQuantizer
from lessbits.training.links import Links
from lessbits.training.partners import Family

NOTHING = b""  # goes the other way while a message goes up or down


class TreeSums(Messages):
    """What this node has not told of its sums. The root's message is passed on unchanged."""

    def __init__(
        self, links: Links, quantizer: WeightQuantizer, seed: int, run: int, start: jax.Array, network: Network
    ) -> None:
        super().__init__(links, quantizer, seed, run)
        self.family = Family.of(network, links.node)
        self.arrays = {"error": jnp.zeros_like(start)}

    def exchange(self, change: jax.Array, turn: int) -> jax.Array:
        """Add up what this node and those below it changed, pass it on, and return the mean of all, [1, size]."""
        total, none = self.arrays["error"] + change, jnp.zeros_like(change)
        parent, children = self.family
        frames = self.carry(dict.fromkeys(children, NOTHING)) if children else {}
        for other, frame in sorted(frames.items()):
            total = total + self.decode(self.open(other, frame, turn))
        if parent is None:
            nodes = jnp.float32(self.links.nodes)
            body, mean = self.told(total / nodes, none, turn, self.links.node, per_link=False)
            self.arrays["error"] = total - nodes * mean
        else:
            up, sent = self.told(total, none, turn, self.links.node, per_link=False)
            self.arrays["error"] = total - sent
            self.carry(self.seal({parent: up}, turn))
            body = self.open(parent, self.carry({parent: NOTHING})[parent], turn)
            mean = self.decode(body)
        if children:
            self.carry(self.seal(dict.fromkeys(children, body), turn))
        return mean
