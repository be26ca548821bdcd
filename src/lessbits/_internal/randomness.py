"""Random numbers as a pure function of (seed, iteration, node or link, stream, coordinate).

A counter goes through a 32-bit finalizer of two multiplications that is keyed with two words for each row. There is no
state between iterations: 1 rank and 16 ranks draw the same numbers, a receiver can repeat what a sender drew, and all
runs of a sweep over step sizes draw the same. XLA fuses this into the loop that uses it; `jax.random` is four times
slower there.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import put
from lessbits.errors import check_seed

GOLDEN = 0x9E3779B9  # 2^32 divided by the golden ratio; it spreads consecutive ids over all 32 bits
FIRST_MULTIPLIER = 0x7FEB352D
SECOND_MULTIPLIER = 0x846CA68B


class Purpose(IntEnum):
    """What a number is drawn for. Streams of one node or link for different purposes are independent."""

    DUAL = 1
    MEMORY = 2
    SAMPLE = 3
    COIN = 4
    COMPOSITION = 5
    SILENCE = 6
    PART = 7
    DELAY = 8
    EXCHANGE = 9


class Step(NamedTuple):
    """The seed of a run (two words of 32 bits) and the iteration number."""

    seed: jax.Array
    iteration: jax.Array


def make_seed(seed: int) -> jax.Array:
    """Return a seed of up to 64 bits as two words."""
    seed = check_seed(seed)
    return put([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], np.uint32)


def _word(value: int) -> np.uint32:
    return np.uint32(value)


def _mix(value: Any, key: Any = 0) -> Any:
    """Scramble 32 bits, in JAX or NumPy.

    A second key enters between the multiplications, so that rows differ in 64 bits.
    """
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
        word_bits = 32 if dtype == jnp.float64 else 23  # all values, up to 1 - 2^-(bits+1), are exact
        signed = lax.bitcast_convert_type(self.bits(count), jnp.int32) >> (32 - word_bits)
        return signed.astype(dtype) * 2.0**-word_bits + (0.5 + 2.0 ** -(word_bits + 1))

    def integers(self, count: int, bound: jax.Array) -> jax.Array:
        """Return integers 0 … bound - 1 for each row, [rows, count]; `bound` is one for all or one per row."""
        bound = jnp.asarray(bound, jnp.uint32)
        return (self.bits(count) % (bound[..., None] if bound.ndim else bound)).astype(jnp.int32)

    def later(self, first: jax.Array) -> "Draws":
        """Return the numbers from the coordinate `first` on, uint32."""
        return self._replace(low=self.low + first * _word(GOLDEN))

    def split(self, stream: Purpose) -> "Draws":
        """Return another, independent stream of the same rows."""
        low = _mix(self.low + _word(int(stream) * GOLDEN & 0xFFFFFFFF), self.high)
        return Draws(low, _mix(self.high, self.low), self.iteration)


def host_bits(low: Any, high: Any, count: int) -> np.ndarray:
    """Return `Draws.bits` of one row, computed with NumPy."""
    counter = np.arange(count, dtype=np.uint32) * _word(GOLDEN)
    mixed: np.ndarray = _mix(counter + np.uint32(low), np.uint32(high))
    return mixed


def draws(step: Step, ids: jax.Array, stream: Purpose) -> Draws:
    """Return the random numbers of the nodes or links `ids` (global numbers) for one purpose in this iteration."""
    base = _mix(step.seed[..., 0] + _word(int(stream) * GOLDEN & 0xFFFFFFFF), step.seed[..., 1])
    base = _mix(base + step.iteration.astype(jnp.uint32) * _word(GOLDEN), step.seed[..., 1])
    low = _mix(base + ids.astype(jnp.uint32) * _word(GOLDEN), base)
    # Not derived from `low`, so that two iterations of one row never have both words in common.
    high = _mix(base ^ _word(FIRST_MULTIPLIER), ids.astype(jnp.uint32))
    return Draws(low, high, step.iteration)


def message_draws(step: Step, ids: jax.Array, per_link: bool) -> Draws:
    """Return the random numbers of messages: per link if each link has its own message, else per sending node."""
    return draws(step, ids, Purpose.DUAL if per_link else Purpose.MEMORY)
