"""Random numbers as a pure function of (seed, iteration, node or link, stream, coordinate).

A counter goes through a 32-bit finalizer of two multiplications, keyed with two words per row. No state is carried from
one iteration to the next. So 1 rank and 16 ranks draw the same numbers, a receiver can draw the sender's numbers again,
and a sweep over step sizes shares its coin flips. XLA fuses it into the loop that uses it; `jax.random` is four times
slower there.
"""

from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import put
from lessbits.errors import InputError

GOLDEN = 0x9E3779B9  # 2^32 divided by the golden ratio; it spreads consecutive ids over all 32 bits
FIRST_MULTIPLIER = 0x7FEB352D
SECOND_MULTIPLIER = 0x846CA68B


class Purpose(IntEnum):
    """The purpose of a random number. Streams for different purposes are independent."""

    DUAL = 1
    MEMORY = 2
    SAMPLE = 3
    COIN = 4
    COMPOSITION = 5


class Step(NamedTuple):
    """The position of a run.

    Attributes:
        seed: The seed of the run, as two words of 32 bits.
        iteration: The number of the iteration.
    """

    seed: jax.Array
    iteration: jax.Array


def make_seed(seed: int) -> jax.Array:
    """Return a seed of up to 64 bits as two words."""
    if not 0 <= seed < 2**64:
        raise InputError(f"seed is {seed}, but it must be a whole number from 0 to 2^64 - 1")
    return put([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], np.uint32)


def _word(value: int) -> jax.Array:
    return jnp.uint32(value)


def _mix(value: jax.Array, key: jax.Array | int = 0) -> jax.Array:
    """Mix 32 bits. A second key enters between the multiplications, so that 64 bits distinguish rows."""
    value = (value ^ (value >> 16)) * _word(FIRST_MULTIPLIER) ^ key
    value = (value ^ (value >> 15)) * _word(SECOND_MULTIPLIER)
    return value ^ (value >> 16)


class Draws(NamedTuple):
    """The random numbers of some rows (nodes or links) in one iteration."""

    low: jax.Array  # uint32 [rows]
    high: jax.Array  # uint32 [rows]
    iteration: jax.Array | int = 0  # its number, which both ends of a link know

    def bits(self, count: int) -> jax.Array:
        """Return 32 random bits for each row and coordinate, [rows, count]."""
        counter = lax.broadcast_to_rank(lax.iota(jnp.uint32, count) * _word(GOLDEN), self.low.ndim + 1)
        return _mix(counter + self.low[..., None], self.high[..., None])

    def uniform(self, count: int, dtype: jnp.dtype) -> jax.Array:
        """Return numbers strictly between 0 and 1, symmetric around 1/2, [rows, count].

        Signed integers convert to floating point in one instruction, unsigned ones do not.
        """
        word_bits = 32 if dtype == jnp.float64 else 23  # every value, including 1 - 2^-(bits+1), is exact in its type
        signed = lax.bitcast_convert_type(self.bits(count), jnp.int32) >> (32 - word_bits)
        return signed.astype(dtype) * 2.0**-word_bits + (0.5 + 2.0 ** -(word_bits + 1))

    def integers(self, count: int, bound: jax.Array) -> jax.Array:
        """Return integers 0 … bound - 1 for each row, [rows, count]; `bound` is a scalar or has one entry per row."""
        bound = jnp.asarray(bound, jnp.uint32)
        return (self.bits(count) % (bound[..., None] if bound.ndim else bound)).astype(jnp.int32)

    def split(self, stream: Purpose) -> "Draws":
        """Return another, independent stream of the same rows."""
        low = _mix(self.low + _word(int(stream) * GOLDEN & 0xFFFFFFFF), self.high)
        return Draws(low, _mix(self.high, self.low), self.iteration)


def draws(step: Step, ids: jax.Array, stream: Purpose) -> Draws:
    """Return the random numbers of the nodes or links `ids` (global numbers) for one purpose in this iteration."""
    base = _mix(step.seed[..., 0] + _word(int(stream) * GOLDEN & 0xFFFFFFFF), step.seed[..., 1])
    base = _mix(base + step.iteration.astype(jnp.uint32) * _word(GOLDEN), step.seed[..., 1])
    low = _mix(base + ids.astype(jnp.uint32) * _word(GOLDEN), base)
    # Not derived from `low`, so that two iterations of one row never share both words.
    high = _mix(base ^ _word(FIRST_MULTIPLIER), ids.astype(jnp.uint32))
    return Draws(low, high, step.iteration)


def message_draws(step: Step, ids: jax.Array, per_link: bool) -> Draws:
    """Return the random numbers for messages.

    Args:
        step: Seed and iteration.
        ids: Global numbers of the links, or of the sending nodes.
        per_link: Whether each link has its own message. Otherwise a node sends one message to all neighbours.
    """
    return draws(step, ids, Purpose.DUAL if per_link else Purpose.MEMORY)
