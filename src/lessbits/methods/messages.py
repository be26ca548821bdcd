"""The messages that nodes exchange about their vectors v_i, from which each node computes Σ_j w_ij (v_i - v_j).

A vector is sent as its quantized difference to a memory h_i that both ends know. As v and h approach the same point,
the differences vanish, and so does the quantization noise. This is the paper's idea. A node keeps
g_i = Σ_j w_ij (h_i - h_j) next to h_i and updates both by decoded increments. So it needs no copy of each h_j, and the
sum of all g_i stays zero up to rounding (a stored sum over neighbours would drift).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.axes import PerLink
from lessbits._internal.pytrees import on_cpu, pytree, take_rows
from lessbits._internal.randomness import Step, message_draws
from lessbits._internal.summation import Sum, separate
from lessbits.methods.outbox import Message, Outbox
from lessbits.networks.local import LocalNetwork, Slot
from lessbits.quantizers.base import Compressor

Decode = Callable[[Any], jax.Array]


class Memory(NamedTuple):
    """Memory h_i, and its disagreement g_i = Σ_j w_ij (h_i - h_j)."""

    h: jax.Array
    g: jax.Array
    lost: "Memory | None"  # rounding errors of h and g, kept in float32 runs

    def difference(self, vectors: jax.Array) -> jax.Array:
        """Return v_i - h_i."""
        return vectors - self.h if self.lost is None else (vectors - self.h) - self.lost.h


def start_memory(local: LocalNetwork, h: Any, like: jax.Array) -> Memory:
    """Return the memory at h⁰ (one row per node of the network; None for zero), which all neighbours know already."""
    zeros = Memory(jnp.zeros_like(like), jnp.zeros_like(like), None)
    lost = zeros if like.dtype == jnp.float32 else None
    if h is None:
        return zeros._replace(lost=lost)
    h = jnp.asarray(h, like.dtype)
    return Memory(h[local.nodes], local.disagreement(h), lost)


class Messages(ABC):
    """One way to estimate the disagreement Σ_j w_ij (v_i - v_j) of vectors v_i."""

    quantizer: Compressor

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of messages in an outbox."""

    @abstractmethod
    def init(self, local: LocalNetwork, h: Any, like: jax.Array) -> Any:
        """Return the memory before the first iteration."""

    @abstractmethod
    def send(self, step: Step, vectors: jax.Array, memory: Any, local: LocalNetwork) -> Outbox:
        """Return the quantized messages."""

    @abstractmethod
    def receive(self, outbox: Outbox, inbox: Outbox, memory: Any, local: LocalNetwork) -> tuple[jax.Array, Any]:
        """Return the disagreement and the new memory."""


def share(*vectors: jax.Array) -> Outbox:
    """Return an outbox that sends vectors uncompressed, each to every neighbour.

    Args:
        *vectors: Arrays with one row per node.
    """
    return tuple(Message(vector, per_link=False) for vector in vectors)


def disagreements(outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> list[jax.Array]:
    """Return the disagreement Wv, whose row i is Σ_j w_ij (v_i - v_j), of each vector sent with `share`.

    Args:
        outbox: The messages that were sent.
        inbox: The messages that were received.
        local: The part of the network that the process holds.
    """

    def of(sent: Message, received: Message) -> jax.Array:
        return local.weighted_sum(lambda slot: slot.own(sent.payload) - received.take(slot.links))

    return [of(*pair) for pair in zip(outbox, inbox, strict=True)]


@pytree
class ExactMessages(Messages):
    """Vectors as they are, or rounded to float32, without a memory.

    Attributes:
        quantizer: `exact` or `float32`.
    """

    quantizer: Compressor

    count = 1

    def init(self, local: LocalNetwork, h: Any, like: jax.Array) -> tuple[()]:
        """Return an empty memory."""
        return ()

    def send(self, step: Step, vectors: jax.Array, memory: tuple[()], local: LocalNetwork) -> Outbox:
        """Send v_i to every neighbour."""
        return share(self.quantizer.quantize(vectors, (), message_draws(step, local.nodes, per_link=False)))

    def receive(
        self, outbox: Outbox, inbox: Outbox, memory: tuple[()], local: LocalNetwork
    ) -> tuple[jax.Array, tuple[()]]:
        """Return Σ_j w_ij (v_i - v_j)."""
        (sent,), (received,), decode = outbox, inbox, self.quantizer.decode
        own = decode(sent.payload)
        return local.weighted_sum(lambda slot: slot.own(own) - decode(received.take(slot.links))), ()


@pytree
class IndependentMessages(Messages):
    """The paper's messages: v_i - h_i is quantized independently for each neighbour, and once more for the memory.

    Independence makes compression free on well-connected networks: the noise of many neighbours averages out.

    Attributes:
        quantizer: The compressor of the messages.
        alpha: Step size α of the memory.
    """

    quantizer: Compressor
    alpha: float

    count = 2

    def init(self, local: LocalNetwork, h: Any, like: jax.Array) -> Memory:
        """Return h⁰ and its disagreement."""
        return start_memory(local, h, like)

    def send(self, step: Step, vectors: jax.Array, memory: Memory, local: LocalNetwork) -> Outbox:
        """Quantize v_i - h_i for each link (line 13) and for the memory (line 15)."""
        difference = memory.difference(vectors)
        measure = self.quantizer.measure(difference)
        for_links = self.quantizer.quantize(
            difference[local.owner], take_rows(measure, local.owner), message_draws(step, local.links, per_link=True)
        )
        for_memory = self.quantizer.quantize(difference, measure, message_draws(step, local.nodes, per_link=False))
        return Message(for_links, per_link=True), Message(for_memory, per_link=False)

    def receive(self, outbox: Outbox, inbox: Outbox, memory: Memory, local: LocalNetwork) -> tuple[jax.Array, Memory]:
        """Return Σ_j w_ij (Δ_ij - Δ_ji) with Δ_ij = q_ij + h_i, which is g_i + Σ_j w_ij (q_ij - q_ji)."""
        (sent, for_memory), (received, from_memory) = outbox, inbox
        decode = self.quantizer.decode
        noisy = local.weighted_sum(lambda slot: decode(sent.take(slot.links)) - decode(received.take(slot.links)))
        return memory.g + noisy, _advance(memory, self.alpha, decode, for_memory, from_memory, local)


@pytree
class BroadcastMessages(Messages):
    """One quantized difference per node, sent to all neighbours and used for both dual step and memory: half the bits.

    Neighbours share a node's noise, so compression is not free on the star.

    Attributes:
        quantizer: The compressor of the messages.
        alpha: Step size α of the memory.
    """

    quantizer: Compressor
    alpha: float

    count = 1

    def init(self, local: LocalNetwork, h: Any, like: jax.Array) -> Memory:
        """Return h⁰ and its disagreement."""
        return start_memory(local, h, like)

    def send(self, step: Step, vectors: jax.Array, memory: Memory, local: LocalNetwork) -> Outbox:
        """Quantize v_i - h_i once."""
        difference = memory.difference(vectors)
        draw = message_draws(step, local.nodes, per_link=False)
        if memory.lost is None:
            measure = self.quantizer.measure_difference(vectors, memory.h)
        else:
            measure = self.quantizer.measure(difference)
        return (Message(self.quantizer.quantize(difference, measure, draw), per_link=False),)

    def receive(self, outbox: Outbox, inbox: Outbox, memory: Memory, local: LocalNetwork) -> tuple[jax.Array, Memory]:
        """Return g_i + Σ_j w_ij (q_i - q_j)."""
        (sent,), (received,) = outbox, inbox
        decode = self.quantizer.decode
        mine = decode(sent.payload)
        noisy = local.weighted_sum(lambda slot: slot.own(mine) - decode(received.take(slot.links)))
        if memory.lost is None:
            disagreement, g = _disagreement(memory.g, self.alpha, noisy)
            return disagreement, Memory(memory.h + self.alpha * mine, g, None)
        return memory.g + noisy, _advance(memory, self.alpha, decode, sent, received, local)


class EdgeMemory(NamedTuple):
    """Memory h_ij of each outgoing link, and g_i = Σ_j w_ij (h_ij - h_ji), through which neighbours' memories enter."""

    h: PerLink
    g: jax.Array
    lost: "EdgeMemory | None"  # rounding errors of h and g, kept in float32 runs


@pytree
class EdgeMessages(Messages):
    """One memory per link: v_i - h_ij is quantized once, for both the dual step and the memory of that link.

    Each link has its own noise, as with the paper's messages, but nothing is sent twice: half the bits.

    Attributes:
        quantizer: The compressor of the messages.
        alpha: Step size α of the memory.
    """

    quantizer: Compressor
    alpha: float

    count = 1

    def init(self, local: LocalNetwork, h: Any, like: jax.Array) -> EdgeMemory:
        """Return h⁰_ij = h⁰_i, and its disagreement."""
        start = start_memory(local, h, like)
        own = start.h[local.owner]
        lost = None if start.lost is None else EdgeMemory(jnp.zeros_like(own), start.lost.g, None)
        return EdgeMemory(own, start.g, lost)

    def send(self, step: Step, vectors: jax.Array, memory: EdgeMemory, local: LocalNetwork) -> Outbox:
        """Quantize v_i - h_ij for each link."""
        difference = vectors[local.owner] - memory.h
        if memory.lost is not None:
            difference = difference - memory.lost.h
        draw = message_draws(step, local.links, per_link=True)
        return (Message(self.quantizer.quantize(difference, self.quantizer.measure(difference), draw), per_link=True),)

    def receive(
        self, outbox: Outbox, inbox: Outbox, memory: EdgeMemory, local: LocalNetwork
    ) -> tuple[jax.Array, EdgeMemory]:
        """Return g_i + Σ_j w_ij (q_ij - q_ji). The memories of a link move by α times what the dual step uses."""
        (sent,), (received,) = outbox, inbox
        decode = self.quantizer.decode
        mine = separate(self.alpha * decode(sent.payload))

        def difference(slot: Slot) -> jax.Array:
            return decode(sent.take(slot.links)) - decode(received.take(slot.links))

        def moved(slot: Slot) -> jax.Array:
            return mine[slot.links] - separate(self.alpha * decode(received.take(slot.links)))

        noisy = local.weighted_sum(difference)
        if memory.lost is None:
            disagreement, moved_g = _disagreement(memory.g, self.alpha, noisy)
            return disagreement, EdgeMemory(memory.h + mine, moved_g, None)
        h = Sum(memory.h, memory.lost.h) + Sum.of(mine)
        g = Sum(memory.g, memory.lost.g) + local.exact_weighted_sum(moved)
        return memory.g + noisy, EdgeMemory(h.value, g.value, EdgeMemory(h.lost, g.lost, None))


def one_for_all(quantizer: Compressor, alpha: float) -> Messages:
    """Return the kind of messages for methods that send the same vector to all neighbours."""
    return ExactMessages(quantizer) if quantizer.lossless else BroadcastMessages(quantizer, alpha)


def _disagreement(g: jax.Array, alpha: float, noisy: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return g + noisy and the new g, which moves by α times what the dual step uses: no second sum is needed.

    On a CPU the first is computed from the second. Then the old g has one reader, and is overwritten without a copy.
    """
    moved = g + alpha * noisy
    if not on_cpu():
        return g + noisy, moved
    return moved + (1 - alpha) * noisy, moved


def _advance(
    memory: Memory, alpha: float, decode: Decode, sent: Message, received: Message, local: LocalNetwork
) -> Memory:
    """Return h_i + α q_i, and g_i + Σ_j w_ij (α q_i - α q_j) (line 15).

    In float32 both are kept with twice the digits. The dual step adds g to z in each iteration, so a rounding error of
    1e-6 in Σ g_i, or between g_i and Σ_j w_ij (h_i - h_j), would keep pulling the nodes away from the solution.
    """
    mine = separate(alpha * decode(sent.payload))

    def term(slot: Slot) -> jax.Array:
        return slot.own(mine) - separate(alpha * decode(received.take(slot.links)))

    if memory.lost is None:
        return Memory(memory.h + mine, memory.g + local.weighted_sum(term), None)
    h = Sum(memory.h, memory.lost.h) + Sum.of(mine)
    g = Sum(memory.g, memory.lost.g) + local.exact_weighted_sum(term)
    return Memory(h.value, g.value, Memory(h.lost, g.lost, None))
