"""Random sparsification: k random coordinates, whose positions the receiver can rebuild from the seed."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Draws
from lessbits._internal.summation import separate
from lessbits.errors import InputError, is_whole, shown
from lessbits.quantizers.base import FLOAT_BITS, LARGEST_DIM, Quantizer

MOST_STEPS = 4096  # number of strides to choose from; more of them make no visible difference


def coprime_strides(dim: int) -> np.ndarray:
    """Numbers coprime to d, and small enough that their product with any coordinate fits 32 bits."""
    candidates = np.arange(1, max(2, min(dim, (2**32 - 1) // dim, 1 << 20)), dtype=np.int64)
    units = candidates[np.gcd(candidates, dim) == 1]
    return units[np.linspace(0, len(units) - 1, min(len(units), MOST_STEPS)).astype(int)].astype(np.uint32)


def draw_pattern(dim: int, draws: Draws) -> tuple[jax.Array, jax.Array]:
    """Return the stride A, coprime to d, and the shift B of each row. They determine the chosen coordinates."""
    strides = jnp.asarray(coprime_strides(dim))
    bits = draws.bits(2)
    return strides[bits[:, 0] % strides.shape[0]], bits[:, 1] % jnp.uint32(dim)


def chosen(dim: int, count: jax.Array | float, draws: Draws) -> jax.Array:
    """Return a mask [rows, dim] of `count` coordinates per row, each chosen with probability count/dim.

    Coordinate c is chosen if (A·c + B) mod d < k with a random A coprime to d and a random B: exactly k of them,
    without a sort, for a k that may be traced. B alone makes every coordinate equally likely, which is all that
    unbiasedness and ω = d/k - 1 ask for; A makes the pattern differ from row to row.
    """
    stride, shift = draw_pattern(dim, draws)
    position = stride[:, None] * lax.iota(jnp.uint32, dim)[None] % jnp.uint32(dim) + shift[:, None]
    position = jnp.where(position >= dim, position - jnp.uint32(dim), position)
    return position.astype(jnp.int32) < jnp.asarray(count, jnp.int32)


@pytree
class RandK(Quantizer):
    """Keep k coordinates chosen at random and scale them by d/k (ω = d/k - 1).

    A payload is the scaled vector with zeros where nothing is sent, so that no sort and no scatter is needed. Only
    the k values are sent, because both ends know the positions. Prefer dithering unless the vectors are very sparse.
    """

    kept: float  # k; traced, so that a sweep over k compiles once

    @classmethod
    def make(cls, kept: int) -> "RandK":
        """Check k. `check` compares it with d, which is not known here."""
        if not is_whole(kept, 1, LARGEST_DIM):
            raise InputError(f"rand-{shown(kept)} was given, but k must be an integer from 1 to the dimension d")
        return cls(float(kept))

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return f"rand-{int(self.kept)}"

    def check(self, dim: int) -> None:
        """k must be an integer, and at most d."""
        if not (1 <= self.kept <= dim and float(self.kept).is_integer()):
            raise InputError(
                f"rand-{self.kept:.17g} was given, but vectors have {dim} coordinates: choose a whole k from 1 to {dim}"
            )

    def quantize(self, vectors: jax.Array, measure: tuple[()], draws: Draws) -> jax.Array:
        """Return (d/k)·x on the chosen coordinates and zero elsewhere."""
        dim = vectors.shape[-1]
        return jnp.where(chosen(dim, self.kept, draws), separate(vectors * (dim / self.kept)), 0)

    def decode(self, payload: jax.Array) -> jax.Array:
        """Return the vectors as they are."""
        return payload

    def omega(self, dim: int) -> float:
        """d/k - 1."""
        return dim / self.kept - 1

    def bits(self, dim: int) -> float:
        """k·b + k·log2 d bits, as the paper counts them: values and their positions."""
        return self.kept * (FLOAT_BITS + math.log2(dim))
