"""What nodes tell each other about their vectors v_i, so that each learns Σ_j w_ij (v_i - v_j).

Vectors are sent as quantized differences to a memory h_i that both ends know. As v and h approach the same point the
differences vanish, and the quantization noise with them; that is the paper's idea. A node keeps
g_i = Σ_j w_ij (h_i - h_j) next to h_i and updates both by decoded increments: it needs no copy of each h_j, and the sum
of all g_i stays zero to rounding (a sum over neighbours kept instead would drift).
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lessbits.methods.base import Message, Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.pytrees import pytree, take_rows
from lessbits.quantizers.base import Quantizer
from lessbits.randomness import Purpose, Step, draws


class Memory(NamedTuple):
    """h_i, and g_i = Σ_j w_ij (h_i - h_j)."""

    h: jax.Array
    g: jax.Array


def start_memory(local: LocalNetwork, h: Any, like: jax.Array) -> Memory:
    """Take h⁰, rows for all nodes of the network, or zero; neighbours know it by agreement, nothing is sent."""
    if h is None:
        return Memory(jnp.zeros_like(like), jnp.zeros_like(like))
    h = jnp.asarray(h, like.dtype)
    return Memory(h[local.nodes], local.disagreement(h))


class Messages(ABC):
    """One way to estimate the disagreement Σ_j w_ij (v_i - v_j) of vectors v_i."""

    quantizer: Quantizer

    @property
    @abstractmethod
    def count(self) -> int:
        """Messages in an outbox."""

    @abstractmethod
    def init(self, local: LocalNetwork, h: Any, like: jax.Array) -> Any:
        """Return the memory before the first iteration."""

    @abstractmethod
    def send(self, step: Step, vectors: jax.Array, memory: Any, local: LocalNetwork) -> Outbox:
        """Quantize."""

    @abstractmethod
    def receive(self, outbox: Outbox, inbox: Outbox, memory: Any, local: LocalNetwork) -> tuple[jax.Array, Any]:
        """Return the disagreement and the new memory."""


@pytree
class ExactMessages(Messages):
    """The vectors themselves, without a memory."""

    quantizer: Quantizer

    count = 1

    def init(self, local: LocalNetwork, h: Any, like: jax.Array) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def send(self, step: Step, vectors: jax.Array, memory: tuple[()], local: LocalNetwork) -> Outbox:
        """Send v_i to every neighbour."""
        return (Message(vectors, per_link=False),)

    def receive(
        self, outbox: Outbox, inbox: Outbox, memory: tuple[()], local: LocalNetwork
    ) -> tuple[jax.Array, tuple[()]]:
        """Σ_j w_ij (v_i - v_j)."""
        mine, theirs = outbox[0].payload, inbox[0].payload
        return local.weighted_sum(lambda links: mine[local.owner[links]] - theirs[links]), ()


@pytree
class IndependentMessages(Messages):
    """The paper's: v_i - h_i quantized independently for each neighbour, and once more for the memory.

    The independence is what makes compression free on well-connected networks: the noise of many neighbours averages.
    """

    quantizer: Quantizer
    alpha: float

    count = 2

    def init(self, local: LocalNetwork, h: Any, like: jax.Array) -> Memory:
        """h⁰ and its disagreement."""
        return start_memory(local, h, like)

    def send(self, step: Step, vectors: jax.Array, memory: Memory, local: LocalNetwork) -> Outbox:
        """Quantize v_i - h_i for each link (line 13) and for the memory (line 15)."""
        difference = vectors - memory.h
        measure = self.quantizer.measure(difference)
        for_links = self.quantizer.quantize(
            difference[local.owner], take_rows(measure, local.owner), draws(step, local.links, Purpose.DUAL)
        )
        for_memory = self.quantizer.quantize(difference, measure, draws(step, local.nodes, Purpose.MEMORY))
        return Message(for_links, per_link=True), Message(for_memory, per_link=False)

    def receive(self, outbox: Outbox, inbox: Outbox, memory: Memory, local: LocalNetwork) -> tuple[jax.Array, Memory]:
        """Σ_j w_ij (Δ_ij - Δ_ji) with Δ_ij = q_ij + h_i, which is g_i + Σ_j w_ij (q_ij - q_ji)."""
        sent, received = outbox[0].payload, inbox[0].payload
        decode = self.quantizer.decode
        noisy = local.weighted_sum(lambda links: decode(take_rows(sent, links)) - decode(take_rows(received, links)))
        return memory.g + noisy, _advance(memory, self.alpha, *_increments(self.quantizer, outbox[1], inbox[1], local))


@pytree
class BroadcastMessages(Messages):
    """One quantized difference a node, the same to all neighbours, for the dual step and the memory: half the bits.

    Neighbours then share a node's noise, so compression is not free on the star.
    """

    quantizer: Quantizer
    alpha: float

    count = 1

    def init(self, local: LocalNetwork, h: Any, like: jax.Array) -> Memory:
        """h⁰ and its disagreement."""
        return start_memory(local, h, like)

    def send(self, step: Step, vectors: jax.Array, memory: Memory, local: LocalNetwork) -> Outbox:
        """Quantize v_i - h_i once."""
        difference = vectors - memory.h
        draw = draws(step, local.nodes, Purpose.MEMORY)
        return (Message(self.quantizer.quantize(difference, self.quantizer.measure(difference), draw), per_link=False),)

    def receive(self, outbox: Outbox, inbox: Outbox, memory: Memory, local: LocalNetwork) -> tuple[jax.Array, Memory]:
        """g_i + Σ_j w_ij (q_i - q_j)."""
        mine, noisy = _increments(self.quantizer, outbox[0], inbox[0], local)
        return memory.g + noisy, _advance(memory, self.alpha, mine, noisy)


def _increments(
    quantizer: Quantizer, sent: Message, received: Message, local: LocalNetwork
) -> tuple[jax.Array, jax.Array]:
    """Return q_i and Σ_j w_ij (q_i - q_j) of vectors that nodes sent to all their neighbours."""
    mine, theirs = quantizer.decode(sent.payload), received.payload
    spread = local.weighted_sum(lambda links: mine[local.owner[links]] - quantizer.decode(take_rows(theirs, links)))
    return mine, spread


def _advance(memory: Memory, alpha: float, mine: jax.Array, spread: jax.Array) -> Memory:
    """h_i + α q_i, and g_i likewise (line 15)."""
    return Memory(memory.h + alpha * mine, memory.g + alpha * spread)
