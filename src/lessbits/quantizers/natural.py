"""Natural compression: random rounding to powers of two."""

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Draws
from lessbits.quantizers.base import Quantizer

SMALLEST_EXPONENT = -126  # of float32's normal numbers; code 1 stands for 2^-126, code 254 for 2^127
OFFSET = 127


@pytree
class Natural(Quantizer):
    """Round each coordinate to one of the two powers of two around it, without a scale (Horváth et al. 2019).

    Between p and 2p a number p(1+t) goes up with probability t; the variance p²t(1-t) is at most 1/8 of its square, so
    ω = 1/8 in every dimension. A coordinate costs 9 bits: sign and exponent of a float32.
    """

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return "natural"

    def quantize(self, vectors: jax.Array, measure: tuple[()], draws: Draws) -> jax.Array:
        """Return ±(exponent + 127) for each coordinate, or 0 for zero (int16)."""
        mantissa, exponent = jnp.frexp(jnp.abs(vectors))  # |x| = mantissa · 2^exponent, mantissa in [1/2, 1)
        uniform = draws.uniform(vectors.shape[-1], vectors.dtype)
        code = exponent - 1 + OFFSET + (uniform < 2 * mantissa - 1).astype(exponent.dtype)
        # Below 2^-126 the choice is between that and zero.
        smallest = 2.0**SMALLEST_EXPONENT
        tiny = (uniform * smallest < jnp.abs(vectors)).astype(code.dtype)
        code = jnp.where(jnp.abs(vectors) < smallest, tiny, code)
        # Values beyond float32 get the code of infinity, so that the run reports divergence.
        return (jnp.sign(vectors) * jnp.minimum(code, 255).astype(vectors.dtype)).astype(jnp.int16)

    def decode(self, payload: jax.Array) -> jax.Array:
        """Put the sign and the exponent back into the bits of a float32."""
        code = payload.astype(jnp.int32)
        power = lax.bitcast_convert_type(jnp.abs(code) << 23, jnp.float32)
        return (jnp.sign(code).astype(power.dtype) * power).astype(jnp.result_type(float))

    def omega(self, dim: int) -> float:
        """1/8."""
        return 0.125

    def bits(self, dim: int) -> float:
        """9·d bits."""
        return 9.0 * dim
