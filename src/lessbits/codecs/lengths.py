"""Lengths of message bodies, computed inside a compiled loop without encoding.

These are pytrees: what depends on the number of levels is a leaf, so that another number of levels does not recompile.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import on_cpu, put, pytree, static
from lessbits._internal.randomness import Draws
from lessbits._internal.summation import separate, squared_norms, sum_pairwise
from lessbits.codecs.codebooks import Codebook, features
from lessbits.codecs.dither_bins import bins_of, distances
from lessbits.codecs.range_coding import LOST_BITS, WORD
from lessbits.quantizers.base import Payload

LARGEST_SUM = 2**31  # largest sum in int32
STEPS = 16  # steps per bit in which lengths are computed


@pytree
class SameLength:
    """One length for all."""

    length: jax.Array

    def __call__(self, payload: Payload) -> jax.Array:
        """Return it for each row, float32 [rows]."""
        return jnp.full(jax.tree.leaves(payload)[0].shape[0], self.length, jnp.float32)


@pytree
class LevelLengths:
    """The length under the best model, with the mean length of the last byte.

    Results do not depend on the number of rows: sums of integers are exact, and others have a fixed order. Models of
    levels whose dither is known have a normalizer for each bin u of it, which here is a polynomial in u of degree 2:
    off by a few hundredths of a bit, with mean zero over the bins.
    """

    rates: jax.Array  # bits for each unit of a feature, float32 [features, models]
    base: jax.Array  # bits of d coordinates of level 0 under each model, float32 [models]
    lost: jax.Array  # bits that the coder loses by rounding, at most
    smallest: jax.Array  # bytes besides the code
    largest: jax.Array  # bytes at most
    whole: tuple[bool, ...] = static()  # whether the sum of each feature fits int32
    bins: int = static(default=1)  # of the dither, whose words are the last two parts of a payload; 1 if not known

    @classmethod
    def of(cls, codebook: Codebook, dim: int, norm: float, columns: int, limits: tuple[int, int]) -> "LevelLengths":
        """Take the models, the dimension, the norm of levels before rounding, and how many features are used.

        `limits` are the bytes besides the code, and the bytes at most.
        """
        # Σv ≤ √d·‖v‖ and Σv² = ‖v‖², where ‖v‖ is at most the norm and √d, in bins; the others are sums of d terms.
        root, bins = math.sqrt(dim), codebook.bins
        size = bins * (norm + root)
        bounds = (dim, root * size, size**2, dim * codebook.statistics[..., 3].max())[:columns]
        constant, slopes = _polynomials(codebook.normalizers)
        bounds += (dim * bins, dim * bins**2)[: len(slopes)]
        return cls(
            put(np.concatenate([codebook.rates[:, :columns].T, slopes]) / math.log(2), np.float32),
            put(dim * constant / math.log(2), np.float32),
            put(dim * LOST_BITS, np.float32),
            put(limits[0], np.float32),
            put(limits[1], np.float32),
            tuple(bool(bound < LARGEST_SUM) for bound in bounds),
            bins,
        )

    def __call__(self, payload: Payload) -> jax.Array:
        """Return the length of each row, float32 [rows]."""
        sums = self._sums(*self._features(payload))
        bits = self.base[None]
        for column, total in enumerate(sums):
            bits = bits + separate(total[:, None] * self.rates[column][None])
        shortest = _smallest(bits)
        shortest = shortest + separate(self.lost * jnp.maximum(1 - WORD / jnp.maximum(shortest, 1), 0))
        steps = jnp.floor(jnp.maximum(shortest, 0) * STEPS).astype(jnp.int32)
        code = (steps // (8 * STEPS)).astype(jnp.float32) + jnp.asarray(_ENDINGS)[steps % (8 * STEPS)]
        empty = jnp.where(payload[1] == 0, 1, self.smallest)
        return jnp.where(sums[0] > 0, jnp.minimum(code + self.smallest, self.largest), empty).astype(jnp.float32)

    def _features(self, payload: Payload) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Return the distance of each level from zero, and its features."""
        levels = payload[0].astype(jnp.int32)
        if self.bins == 1:
            magnitudes = jnp.abs(levels)
            return magnitudes, features(magnitudes)[: len(self.whole)]
        words = Draws(payload[-2], payload[-1]).bits(levels.shape[-1])
        numbers = bins_of(words, self.bins).astype(jnp.int32)
        away, joined = distances(levels, numbers, self.bins), jnp.minimum(numbers, self.bins - 1 - numbers)
        return away, (*features(away), joined, joined * joined)

    def _sums(self, magnitudes: jax.Array, values: Sequence[jax.Array]) -> list[jax.Array]:
        """Sum each feature over the coordinates of each row, float32 [rows].

        One reduction for all is several times faster than one for each, which would repeat the quantization.
        """
        together = [each.astype(jnp.int32) for each, fits in zip(values, self.whole, strict=True) if fits]

        def add(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
            return [one + other for one, other in zip(left, right, strict=True)]

        added = iter(lax.reduce(together, [jnp.int32(0)] * len(together), add, [magnitudes.ndim - 1]))
        sums = []
        for column, fits in enumerate(self.whole):
            if fits:
                sums.append(next(added).astype(jnp.float32))
            elif column == 2:  # even one square may be too large
                sums.append(squared_norms(magnitudes.astype(jnp.float32)))
            else:
                sums.append(sum_pairwise(values[column].astype(jnp.float32)))
        return sums


def _polynomials(normalizers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the constant term of each model, and if there are bins, the factors of u and u², [2, models]."""
    if normalizers.shape[1] == 1:
        return normalizers[:, 0], np.zeros((0, len(normalizers)))
    squares, slopes, constant = np.polyfit(np.arange(normalizers.shape[1]), normalizers.T, 2)
    return constant, np.stack([slopes, squares])


def _smallest(values: jax.Array) -> jax.Array:
    """Return the smallest number of each row; on a CPU by halving, because `min` is slow there."""
    if not on_cpu():
        return jnp.min(values, axis=-1)
    while (length := values.shape[-1]) > 1:
        half = (length + 1) // 2
        values = jnp.minimum(values[:, :half], values[:, length - half :])
    return values[:, 0]


def _endings() -> np.ndarray:
    """Return the mean length in bytes of a last, partial byte: 1 - 2^-bits, as trailing zero bytes are left out."""
    bits = (np.arange(8 * STEPS) + 0.5) / STEPS
    return (1 - 2.0**-bits).astype(np.float32)


_ENDINGS = _endings()
