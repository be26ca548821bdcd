"""Lengths of messages with a scale per block, computed inside a compiled loop without encoding."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import put, pytree, static
from lessbits.quantizers.base import Payload

WORD = 32


@pytree
class BlockLengths:
    """The bits of each block under its best model, and of far levels under the frequencies of the message."""

    digit_bits: jax.Array  # float32 [models, 3]
    fixed_bytes: jax.Array  # scales, models and headers
    sizes: tuple[int, ...] = static()
    last_tail: int = static(default=15)

    @classmethod
    def of(cls, sizes: np.ndarray, digit_bits: np.ndarray, fixed_bytes: int, last_tail: int) -> "BlockLengths":
        """Take the blocks and the models of the codec."""
        return cls(put(digit_bits, np.float32), put(fixed_bytes, np.float32), tuple(map(int, sizes)), last_tail)

    def __call__(self, payload: Payload) -> jax.Array:
        """Return the length of each row, float32 [rows]."""
        sizes = jnp.abs(payload[0].astype(jnp.int32))
        owner = np.repeat(np.arange(len(self.sizes)), self.sizes)

        def count(chosen: jax.Array) -> jax.Array:
            added = jax.ops.segment_sum(chosen.astype(jnp.int32).T, owner, len(self.sizes), indices_are_sorted=True)
            return added.T.astype(jnp.float32)

        zeros, far = count(sizes == 0), count(sizes > 1)
        padding = jnp.asarray([[-size % 4 for size in self.sizes]], jnp.float32)
        ones = jnp.asarray([self.sizes], jnp.float32) - zeros - far
        counts = jnp.stack([zeros + padding, ones, far], axis=-1)
        bits = jnp.min(counts @ self.digit_bits.T, axis=-1).sum(axis=-1)
        bits = bits + self._tail(sizes)
        words = jnp.where(bits > 0, jnp.maximum(jnp.ceil((bits + WORD / 2) / WORD), 1), 0)
        further = jnp.sum(sizes >= 2 + self.last_tail, axis=-1, dtype=jnp.float32)
        return (self.fixed_bytes + 4 * words + 2 * further).astype(jnp.float32)

    def _tail(self, sizes: jax.Array) -> jax.Array:
        """Return the entropy of far levels in bits, with a bit for each sign."""
        short = jnp.minimum(sizes - 2, self.last_tail)
        tail = jnp.stack([jnp.sum(short == size, axis=-1) for size in range(self.last_tail + 1)], axis=-1)
        tail = tail.astype(jnp.float32)  # of at most 16 million far levels exactly
        total = tail.sum(axis=-1, keepdims=True)
        shares = jnp.where(tail > 0, tail / jnp.maximum(total, 1), 1)
        return jnp.sum(tail * (1 - jnp.log2(shares)), axis=-1)


@pytree
class JoinedLengths:
    """The sum of the lengths of several pieces."""

    models: tuple[Any, ...]
    head_bytes: jax.Array

    @classmethod
    def of(cls, models: Sequence[Any], head_bytes: int) -> "JoinedLengths":
        """Take the models of the pieces, and the bytes that all their lengths take."""
        return cls(tuple(models), put(head_bytes, np.float32))

    def __call__(self, payload: Sequence[Payload]) -> jax.Array:
        """Return the length of each row, float32 [rows]."""
        total = self.head_bytes
        for model, part in zip(self.models, payload, strict=True):
            total = total + model(part)
        return total
