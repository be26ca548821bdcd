"""Published methods that add over all nodes, and what they are compared with: all gradients, or nothing.

Bytes of a node are those of a ring all-reduce, 2(n-1)/n messages, as if compressed messages could be added on their
way at no cost, which favours these methods.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.errors import InputError, check_whole
from lessbits.neural.arithmetic import nesterov
from lessbits.neural.methods.base import Exchanged, Message, NeuralMethod, Room
from lessbits.training.pieces import Spelling


class Outer(NamedTuple):
    """Errors of compression, and momentum over intervals."""

    error: jax.Array
    momentum: jax.Array


def _float32(*numbers: float) -> list[jax.Array]:
    return [jnp.float32(number) for number in numbers]


def _average(vectors: jax.Array) -> jax.Array:
    return jnp.broadcast_to(jnp.mean(vectors, axis=0, keepdims=True), vectors.shape)


@dataclass(frozen=True)
class DiLoCo(NeuralMethod):
    """DiLoCo: the mean change of all nodes and outer Nesterov momentum (Douillard and others, 2023).

    Changes are compressed with error feedback, as later systems do.

    Attributes:
        rate: The outer learning rate.
        momentum: The outer momentum.
    """

    rate: float = 0.7
    momentum: float = 0.9

    def start(self, x: jax.Array, room: Room) -> Outer:
        """Nothing is lost yet."""
        return Outer(jnp.zeros_like(x), jnp.zeros_like(x))

    def exchange(self, state: Outer, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Send Q(e + x_old - x)."""
        change = state.error + old - x
        sent, payload = room.send(change, None, turn)
        x, momentum = nesterov(old, _average(sent), state.momentum, *_float32(self.rate, self.momentum, self.momentum))
        message = Message(payload, np.full(room.nodes, room.ring))
        return Exchanged(x, Outer(change - sent, momentum), (message,))


@dataclass(frozen=True)
class SparseLoCo(NeuralMethod):
    """SparseLoCo: as DiLoCo, with the momentum in the error feedback of each node (Sarfi and others, 2025).

    Attributes:
        rate: The outer learning rate.
        decay: How much of what was not sent is kept.
    """

    quantizer: Spelling = "block-top:256"
    rate: float = 1.0
    decay: float = 0.95

    def start(self, x: jax.Array, room: Room) -> jax.Array:
        """Nothing is left yet."""
        return jnp.zeros_like(x)

    def exchange(self, state: jax.Array, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Send the largest of the change and of what is left."""
        change = jnp.float32(self.decay) * state + old - x
        sent, payload = room.send(change, None, turn)
        message = Message(payload, np.full(room.nodes, room.ring))
        return Exchanged(old - jnp.float32(self.rate) * _average(sent), change - sent, (message,))


class LowRank(NamedTuple):
    """Errors, momentum, and the last right factor of each matrix."""

    error: jax.Array
    momentum: jax.Array
    bases: tuple[jax.Array, ...]


@dataclass(frozen=True)
class PowerSgd(NeuralMethod):
    """PowerSGD: one power iteration of low rank for each matrix of the mean change (Vogels and others, 2019).

    An array is a matrix with its last axis as columns; those of no higher rank than `rank` are sent as they are.

    Attributes:
        rank: The rank of what is sent.
        rate: The outer learning rate.
        momentum: The outer momentum.
    """

    rank: int = 4
    rate: float = 1.0
    momentum: float = 0.3

    def __post_init__(self) -> None:
        """Check the rank too."""
        super().__post_init__()
        check_whole("rank", self.rank, 1)

    def start(self, x: jax.Array, room: Room) -> LowRank:
        """Right factors begin at random."""
        keys = jax.random.split(jax.random.key(7), len(room.shapes))
        bases = (
            jax.random.normal(key, (_matrix(shape)[1], self.rank), jnp.float32)
            for key, shape in zip(keys, room.shapes, strict=True)
        )
        return LowRank(jnp.zeros_like(x), jnp.zeros_like(x), tuple(bases))

    def exchange(self, state: LowRank, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Send left factors, then right ones."""
        change = state.error + old - x
        mean, bases, sent, begin, numbers = jnp.mean(change, axis=0), [], [], 0, 0
        for shape, base in zip(room.shapes, state.bases, strict=True):
            dims = _matrix(shape)
            matrix = mean[begin : begin + math.prod(dims)].reshape(dims)
            begin += math.prod(dims)
            if min(dims) <= self.rank:
                sent.append(matrix.ravel())
                numbers += math.prod(dims)
            else:
                left, _ = jnp.linalg.qr(matrix @ base)
                base = matrix.T @ left
                sent.append((left @ base.T).ravel())
                numbers += self.rank * sum(dims)
            bases.append(base)
        step = jnp.broadcast_to(jnp.concatenate(sent)[None], x.shape)
        x, momentum = nesterov(old, step, state.momentum, *_float32(self.rate, self.momentum, self.momentum))
        return Exchanged(x, LowRank(change - step, momentum, tuple(bases)), (), room.ring * numbers)


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the two dimensions of an array as a matrix."""
    return (math.prod(shape[:-1]), shape[-1]) if shape else (1, 1)


@dataclass(frozen=True)
class NoExchange(NeuralMethod):
    """Every node trains alone."""

    def due(self, step: int) -> bool:
        """Never."""
        return False

    def start(self, x: jax.Array, room: Room) -> tuple[()]:
        """Nothing is kept."""
        return ()

    def exchange(self, state: tuple[()], old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Send nothing."""
        return Exchanged(x, state)


@dataclass(frozen=True)
class Ddp(NoExchange):
    """All nodes average their gradients at every step, as DistributedDataParallel of PyTorch does."""

    averages_gradients = True

    def __post_init__(self) -> None:
        """Refuse intervals: there are none."""
        super().__post_init__()
        if self.every != Ddp.every or self.alone:
            raise InputError(
                "every and alone are for methods with intervals of steps, but Ddp has none: leave them out"
            )
