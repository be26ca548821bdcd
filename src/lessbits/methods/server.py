"""What methods with a server share: the hub of a star is the server, and a worker too; the leaves are the workers.

Up and down take one exchange each. In even iterations the leaves send, in odd ones the hub does. All nodes start at the
hub's x⁰, or at zero, and know it beforehand. The hub's own contribution to a sum is not sent.
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


class ServerMethod(Method):
    """Base class of methods with a server."""

    options: ClassVar[tuple[str, ...]] = ("B",)
    takes_turns = True  # up, then down
    needs_star = True
    mixes = False  # a server adds, and does not mix

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError unless the network is a star."""
        super().check(problem, network)
        if network.nodes < 3 or network.edges != network.nodes - 1 or network.maximal_degree != network.nodes - 1:
            raise InputError(
                f"{self.name} needs a server that all others are linked to, but the network is {network.name} of "
                f"{network.nodes} nodes: take a star of at least 3"
            )

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


def up_and_down(step: Step, local: LocalNetwork, ups: tuple[Payload, ...], down: jax.Array) -> Outbox:
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


def told_by_hub(own: jax.Array, received: Message, local: LocalNetwork) -> jax.Array:
    """Return the hub's vector at every node: its own, or what a leaf received on its only link."""
    return jnp.where(is_hub(local)[:, None], own, own.at[local.owner].set(received.take(slice(None))))


def link_count(local: LocalNetwork) -> jax.Array:
    """Return the number of links of each node."""
    return jnp.zeros(local.nodes.shape[0], jnp.int32).at[local.owner].add(1)


def is_hub(local: LocalNetwork) -> jax.Array:
    """Return whether each node is the hub of the star."""
    return link_count(local) > 1
