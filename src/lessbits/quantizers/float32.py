"""Rounding to single precision: what is usually sent if nothing is compressed."""

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Draws
from lessbits.quantizers.base import FLOAT_BITS, Quantizer

RELATIVE_ERROR = 2.0**-24  # of a number that is rounded to the nearest float32


@pytree
class Float32(Quantizer):
    """Round each coordinate to the nearest float32, even in float64 runs. `exact` sends the working precision.

    Rounding is not random. Its bias is below 2^-24 of each coordinate, and is neglected: methods that require an
    unbiased quantizer accept it. Where differences to a memory are sent, as nearly everywhere, the rounding errors
    vanish with them, so that runs converge to any precision. Coordinates below 2^-126 become zero, and those beyond
    float32 infinite.
    """

    random = False

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return "float32"

    def quantize(self, vectors: jax.Array, measure: tuple[()], draws: Draws) -> jax.Array:
        """Round."""
        rounded = vectors.astype(jnp.float32)
        # Some processors keep smaller numbers, and others do not.
        return jnp.where(jnp.abs(rounded) < jnp.finfo(jnp.float32).tiny, jnp.float32(0), rounded)

    def decode(self, payload: jax.Array) -> jax.Array:
        """Return the same numbers in the working precision."""
        return payload.astype(jnp.result_type(float))

    def omega(self, dim: int) -> float:
        """2^-48, the square of the largest relative error."""
        return RELATIVE_ERROR**2

    def bits(self, dim: int) -> float:
        """d·b bits."""
        return float(dim * FLOAT_BITS)
