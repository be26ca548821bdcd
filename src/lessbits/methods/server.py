"""What methods with a server share: the hub of a star is the server, and a worker too; the leaves are the workers.

Up and down take one exchange each. In even iterations the leaves send, in odd ones the hub does. All nodes start at the
hub's x⁰, or at zero, and know it beforehand. The hub's own contribution to a sum is not sent.

Messages down are not compressed, but rounded to float32, so that a number has 32 bits, unless messages up are exact.
They tell how far to move, not where to, and the hub moves as far as it tells. So no digits of the solution are lost.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from lessbits._internal.randomness import Step, message_draws
from lessbits.errors import InputError
from lessbits.methods.base import Method, Start
from lessbits.methods.common import start_at
from lessbits.methods.outbox import Message, Outbox
from lessbits.networks.local import LocalNetwork, Slot
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Payload
from lessbits.quantizers.float32 import Float32


class ServerMethod(Method):
    """Base class of methods with a server."""

    options: ClassVar[tuple[str, ...]] = ("B",)
    takes_turns = True  # up, then down
    needs_star = True
    mixes = False  # a server adds, and does not mix
    quantizer: Compressor

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError unless the network is a star."""
        super().check(problem, network)
        if not network.is_star:
            raise InputError(
                f"{self.name} needs a server that all others are linked to, but the network is {network.name} of "
                f"{network.nodes} nodes: take a star of at least 3"
            )

    @property
    def downlink(self) -> Compressor:
        """What rounds messages down: to float32, or not at all if messages up are exact."""
        return self.quantizer if self.quantizer.lossless else Float32()

    def passes(self, problem: Problem) -> float:
        """Return the share of samples per iteration: one gradient every other iteration."""
        return self.gradients.passes(problem) / 2


def goes_up(step: Step) -> jax.Array:
    """Return whether the leaves send in this iteration."""
    return step.iteration % 2 == 0


def start_at_hub(problem: Problem, local: LocalNetwork, start: Start) -> jax.Array:
    """Return x⁰ of every node: that of the hub, or zero."""
    other = jnp.zeros_like(local.nodes).at[local.owner].max(local.neighbor)  # a leaf's only neighbour
    hub = jnp.where(is_hub(local), local.nodes, other)
    return jnp.zeros_like(problem.start()) if start.x is None else start_at(problem, hub, start)


def compressed(step: Step, quantizer: Compressor, vectors: jax.Array, local: LocalNetwork) -> Payload:
    """Return the payload of each node's vector."""
    return quantizer.quantize(vectors, quantizer.measure(vectors), message_draws(step, local.nodes, per_link=False))


def rounded(compressor: Compressor, vectors: jax.Array) -> jax.Array:
    """Return vectors as `downlink` rounds them. Those that are rounded already do not change."""
    return compressor.decode(as_payload(compressor, vectors))


def as_payload(compressor: Compressor, vectors: jax.Array) -> Payload:
    """Return the payload of a compressor that draws no random numbers."""
    none = message_draws(Step(jnp.zeros(2, jnp.uint32), jnp.int32(0)), jnp.arange(vectors.shape[0]), per_link=False)
    return compressor.quantize(vectors, compressor.measure(vectors), none)


def up_and_down(step: Step, local: LocalNetwork, ups: tuple[Payload, ...], down: Payload) -> Outbox:
    """Return the messages of the leaves in even iterations, and of the hub in odd ones."""
    going_up = goes_up(step)
    # Links of the hub receive from leaves, and links of leaves from the hub.
    from_leaf = is_hub(local)[local.owner]
    active, awaited = ~from_leaf & going_up, from_leaf & going_up
    sent = [Message(payload, per_link=False, active=active, awaited=awaited) for payload in ups]
    active, awaited = from_leaf & ~going_up, ~from_leaf & ~going_up
    return (*sent, Message(down, per_link=False, active=active, awaited=awaited))


def mean_at_hub(mine: jax.Array, quantizer: Compressor, received: Message, local: LocalNetwork) -> jax.Array:
    """Return the mean of all nodes' vectors at the hub. Rows of leaves mean nothing."""

    def term(slot: Slot) -> jax.Array:
        return quantizer.decode(received.take(slot.links))

    total = mine + local.sum(term)
    return total / (1 + link_count(local)[:, None]).astype(total.dtype)


def told_by_hub(own: jax.Array, downlink: Compressor, received: Message, local: LocalNetwork) -> jax.Array:
    """Return the hub's vector at every node: its own, or what a leaf received on its only link."""
    heard = downlink.decode(received.take(slice(None)))
    return jnp.where(is_hub(local)[:, None], own, own.at[local.owner].set(heard))


def link_count(local: LocalNetwork) -> jax.Array:
    """Return the number of links of each node."""
    return jnp.zeros(local.nodes.shape[0], jnp.int32).at[local.owner].add(1)


def is_hub(local: LocalNetwork) -> jax.Array:
    """Return whether each node is the hub of the star."""
    return link_count(local) > 1
