"""Our method of few bits: sums up a spanning tree of the network, and one answer down it.

Changes that nodes make in an interval hardly resemble each other: most of them is the noise of batches, or the pull of
a node's own data. The mean of all nodes is what they have in common, and a tree finds it with one message per link and
direction, where gossip needs many exchanges. What a message leaves out stays in the error of its sender, and is part of
its next one. So messages may be much coarser than those of gossip, which must tell a model, not a change.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.randomness import Step
from lessbits.neural.arithmetic import nesterov
from lessbits.neural.methods.base import Exchanged, Message, NeuralMethod, Room, told
from lessbits.neural.quantizers import Blocks, Payload
from lessbits.training.pieces import Spelling
from lessbits.training.rule import Numbers


class Unsent(NamedTuple):
    """What nodes have not told of their sums, and momentum over intervals."""

    error: jax.Array
    momentum: jax.Array


@dataclass(frozen=True)
class TreeSums(NeuralMethod):
    """Our method: sums of the changes of all nodes up a spanning tree with a central root, the mean back down.

    All nodes have the same model after an exchange.

        s_i = e_i + x_old - x_i + Σ q_c over the children c of i
        q_i = Q(s_i) to the parent;  e_i ← s_i - q_i         the leaves first
        q = Q(s/n) from the root;  e ← s - n q               forwarded unchanged to all nodes
        m ← μ m + q;  x ← x_old - r (q + μ m)

    `block:Δ` sends zeros for what is below Δ/2 root mean squares. `block:3.25` has 0.6 bits per normal number,
    `block:4` 0.3 and `block:5` 0.1.

    Attributes:
        rate: r, the step along the mean change.
        momentum: μ, momentum of it.
    """

    quantizer: Spelling = "block:3.25"
    rate: float = 1.0
    momentum: float = 0.6

    def start(self, x: jax.Array, room: Room) -> Unsent:
        """Nothing is left out yet."""
        return Unsent(jnp.zeros_like(x), jnp.zeros_like(x))

    def exchange(self, state: Unsent, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Add up from the deepest nodes to the root, and send the mean to all."""
        sums, messages = state.error + (old - x), []
        error = sums
        inner, blocks, step = room.quantizer.inner, room.quantizer.blocks, room.step(turn)
        for nodes in room.tree.levels:
            sums, error, payload = _up(inner, sums, error, nodes, room.tree.parent[nodes], step, blocks)
            messages.append(Message(payload, np.ones(len(nodes))))
        root = room.tree.root
        mean, payload = room.tell(sums[root] / jnp.float32(room.nodes), root, turn, room.quantizer)
        error = error.at[root].set(sums[root] - jnp.float32(room.nodes) * mean)
        messages.append(Message(payload, np.array([room.nodes - 1])))
        numbers = Numbers(0.0, self.rate, self.momentum, 1.0, self.momentum).at(turn, self.alone)
        more = map(jnp.float32, (numbers.rate, numbers.momentum, numbers.kept))
        x, momentum = nesterov(old, jnp.broadcast_to(mean, x.shape), state.momentum, *more)
        return Exchanged(x, Unsent(error, momentum), tuple(messages))


@partial(jax.jit, static_argnames="blocks")
def _up(
    inner: Any, sums: jax.Array, error: jax.Array, nodes: jax.Array, parents: jax.Array, step: Step, blocks: Blocks
) -> tuple[jax.Array, jax.Array, Payload]:
    """Send the sums of some nodes to their parents."""
    own = sums[nodes]
    sent, payload = told(inner, own, nodes, step, blocks)
    return sums.at[parents].add(sent), error.at[nodes].set(own - sent), payload
