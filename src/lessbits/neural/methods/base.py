"""The interface of methods that train models: what nodes do after each interval of local steps.

Rows are nodes, and a row is a whole model as a float32 vector. A method is two functions over them:

    start(x, room)                          -> state
    exchange(state, old, x, turn, room)     -> Exchanged(x, state, messages, numbers)

`old` are the models after the last exchange, and `x` what local steps made of them. Exchanges are not compiled as a
whole: quantizers are, once for all methods.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import put
from lessbits._internal.randomness import Step, message_draws
from lessbits.errors import check_number, check_whole
from lessbits.networks import Network
from lessbits.networks.tree import spanning_tree
from lessbits.neural.quantizers import Blocks, Payload, WeightQuantizer, send
from lessbits.training.intervals import Every, Intervals
from lessbits.training.partners import neighbours, rounds
from lessbits.training.pieces import Spelling

State = Any  # a pytree of arrays
SEED_QUANTIZER = "block:0.1"  # 5.4 bits per normal number, with a thousandth of its square as error


class Message(NamedTuple):
    """Messages with one row each, of all nodes or some, and how many copies of each are sent."""

    payload: Payload
    copies: np.ndarray  # [rows]
    quantizer: WeightQuantizer | None = None  # if it is not that of the method


class Exchanged(NamedTuple):
    """What an exchange makes: models, state, compressed messages, and float32 numbers that a node sends besides."""

    x: jax.Array
    state: State
    messages: tuple[Message, ...] = ()
    numbers: float = 0.0


class Levels(NamedTuple):
    """A spanning tree with a central root, for sums up it."""

    parent: np.ndarray
    levels: tuple[np.ndarray, ...]  # nodes of the same depth, the deepest first, without the root
    root: np.ndarray  # [1]


class Room:
    """Where methods exchange: the quantizer, the network as tables, and the shapes of the model's arrays."""

    def __init__(
        self, network: Network, quantizer: WeightQuantizer, shapes: list[tuple[int, ...]], seed: jax.Array
    ) -> None:
        self.nodes, self.quantizer, self.shapes, self.seed = network.nodes, quantizer, shapes, seed
        self.network, self.size = network, quantizer.dim
        around = [neighbours(network, node) for node in range(self.nodes)]
        self.degree = np.array([len(each) for each in around], np.float32)
        slots = int(self.degree.max(initial=0))
        self.neighbours = np.zeros((self.nodes, slots), np.int32)
        self.weights = np.zeros((self.nodes, slots), np.float32)  # zero where a node has fewer neighbours
        for node, each in enumerate(around):
            self.neighbours[node, : len(each)] = list(each)
            self.weights[node, : len(each)] = list(each.values())
        self.total = np.array([sum(each.values()) for each in around], np.float32)
        pairs = rounds(network) or [{}]
        self.partners = np.array([[each.get(node, node) for node in range(self.nodes)] for each in pairs], np.int32)
        self.speaks = self.partners != np.arange(self.nodes)[None]
        self.link_weights = np.array(
            [[around[node].get(int(other), 0.0) for node, other in enumerate(row)] for row in self.partners], np.float32
        )

    @property
    def ring(self) -> float:
        """Messages that a node sends where all are added on a ring, 2(n-1)/n, if sums were no longer than terms."""
        return 2 * (self.nodes - 1) / self.nodes

    @cached_property
    def tree(self) -> Levels:
        """The tree of shortest paths to a central node."""
        found = spanning_tree(self.network)
        levels = (np.flatnonzero(found.depth == depth) for depth in range(found.height, 0, -1))
        return Levels(found.parent, tuple(levels), np.flatnonzero(found.depth == 0))

    def other(self, spelling: str) -> WeightQuantizer:
        """Return another quantizer of the same models."""
        return WeightQuantizer(spelling, [math.prod(shape) for shape in self.shapes])

    def send(
        self, x: jax.Array, known: jax.Array | None, turn: int, others: np.ndarray | None = None, number: int = 0
    ) -> tuple[jax.Array, Payload]:
        """Quantize x, or its difference to what is known, at all nodes; return what is decoded, and the payload.

        `others` are the receivers of messages on single links, and `number` counts messages of an exchange.
        """
        nodes = np.arange(self.nodes, dtype=np.uint32)
        ids = nodes + number * self.nodes if others is None else nodes * self.nodes + others
        draws = message_draws(self.step(turn), put(ids, np.uint32), per_link=others is not None)
        payload, decoded = self.quantizer.send(x, jnp.zeros_like(x) if known is None else known, draws)
        return decoded, payload

    def tell(self, x: jax.Array, nodes: np.ndarray, turn: int, quantizer: WeightQuantizer) -> tuple[jax.Array, Payload]:
        """Quantize a row for each of some nodes; return what is decoded, and the payload."""
        return told(quantizer.inner, x, nodes, self.step(turn), quantizer.blocks)

    def step(self, turn: int) -> Step:
        """Return where the random numbers of an exchange are."""
        return Step(self.seed, put(turn, np.int32))

    def disagreement(self, vectors: jax.Array) -> jax.Array:
        """Return Σ_j w_ij (v_i - v_j) of each node."""
        return _disagreement(vectors, self.neighbours, self.weights)


@partial(jax.jit, static_argnames="blocks")
def told(inner: Any, x: jax.Array, nodes: jax.Array, step: Step, blocks: Blocks) -> tuple[jax.Array, Payload]:
    """Do what `Room.tell` does, with the quantizer's `inner` and `blocks`."""
    draws = message_draws(step, nodes.astype(jnp.uint32), per_link=False)
    payload, decoded = send(inner, x, jnp.zeros_like(x), draws, blocks)
    return decoded, payload


@jax.jit
def _disagreement(vectors: jax.Array, neighbours: jax.Array, weights: jax.Array) -> jax.Array:
    pull = jnp.zeros_like(vectors)
    for slot in range(neighbours.shape[1]):
        pull = pull + weights[:, slot][:, None] * (vectors - vectors[neighbours[:, slot]])
    return pull


@dataclass(frozen=True)
class NeuralMethod(ABC):
    """A method that trains models with exchanges between intervals of local steps.

    Attributes:
        every: Local steps between two exchanges, or a function that returns them, given the step of the last exchange,
            such as `Shrinking(longest=60, steps=2400)`. Steps are counted from the seeding.
        quantizer: `block:Δ`, `block-dither:Δ`, `block-top:K` or `exact`, or a mapping from patterns of names to these.
        alone: Local steps before the first exchange.
        seeded: Local steps after which all nodes take the model of one of them, and the method begins; 0 for none. The
            model is sent down a spanning tree, with `SEED_QUANTIZER`. What other nodes did until then is lost.
    """

    every: Every = 20
    quantizer: Spelling = "block:1.0"
    alone: int = 0
    seeded: int = 0

    averages_gradients = False  # of all nodes, at every step, 2(n-1)/n models of float32 numbers

    def __post_init__(self) -> None:
        """Check every number."""
        check_whole("alone", self.alone, 0)
        check_whole("seeded", self.seeded, 0)
        for name in ("rate", "momentum", "theta", "decay"):
            if hasattr(self, name):
                check_number(name, getattr(self, name), 0, 10)
        self.intervals.words()

    @cached_property
    def intervals(self) -> Intervals:
        """When nodes exchange."""
        return Intervals(self.every, self.alone)

    def due(self, step: int) -> bool:
        """Return whether an exchange follows this step, counted from the seeding."""
        return self.intervals.due(step)

    def fitted(self, network: Network, quantizer: str) -> Self:
        """Return the method with the numbers that were left open, for a network and the name of a quantizer."""
        return self

    def drift(self, state: State, step: int) -> tuple[jax.Array, float] | None:
        """Return rows, and what share of them is added to the models at each local step of the interval of this one."""
        return None

    @abstractmethod
    def start(self, x: jax.Array, room: Room) -> State:
        """Return the state before the first exchange: all nodes know that they began alike."""

    @abstractmethod
    def exchange(self, state: State, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Send, receive and step once."""
