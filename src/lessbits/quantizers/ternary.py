"""Ternary compression: -1, 0 or 1 times the largest entry."""

import math

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Draws
from lessbits.quantizers.base import FLOAT_BITS, SCALE_SLACK, Quantizer, short_scale
from lessbits.quantizers.dither import DitherPayload, from_levels, round_to_levels


@pytree
class Ternary(Quantizer):
    """One level in the maximum norm (TernGrad): coordinate c becomes ±max|x| with probability |x_c| / max|x|.

    The variance is max|x|·‖x‖₁ - ‖x‖², at most (√d - 1)/2 times ‖x‖²: for one entry of 1 and d - 1 entries of 1/(1+√d).
    That is half of dithering with s = 1 in the worst case, and more non-zeros to send. (The scale is up to ε larger
    than max|x|, which makes it (1+ε)(√d + 1)/2 - 1.)
    """

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return "ternary"

    def measure(self, vectors: jax.Array) -> jax.Array:
        """The largest magnitude in each vector, as it is sent."""
        return short_scale(jnp.max(jnp.abs(vectors), axis=-1))

    def quantize(self, vectors: jax.Array, measure: jax.Array, draws: Draws) -> DitherPayload:
        """Round x / max|x| at random to -1, 0 or 1."""
        return round_to_levels(vectors, measure, 1.0, "int8", draws)

    def decode(self, payload: DitherPayload) -> jax.Array:
        """Scale times levels."""
        return from_levels(payload, 1.0)

    def omega(self, dim: int) -> float:
        """(1+ε)(√d + 1)/2 - 1, with ε = 2^-7."""
        return (1 + SCALE_SLACK) * (math.sqrt(dim) + 1) / 2 - 1

    def bits(self, dim: int) -> float:
        """2·d + b bits: three values in a fixed width."""
        return float(2 * dim + FLOAT_BITS)
