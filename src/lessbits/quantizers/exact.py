"""No compression."""

import jax

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Draws
from lessbits.quantizers.base import FLOAT_BITS, Quantizer


@pytree
class Exact(Quantizer):
    """Send the vector itself (ω = 0): the baseline that compression is measured against."""

    lossless = True
    random = False

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return "exact"

    def quantize(self, vectors: jax.Array, measure: tuple[()], draws: Draws) -> jax.Array:
        """Return the vectors."""
        return vectors

    def decode(self, payload: jax.Array) -> jax.Array:
        """Return the vectors."""
        return payload

    def omega(self, dim: int) -> float:
        """No variance."""
        return 0.0

    def bits(self, dim: int) -> float:
        """d·b bits."""
        return float(dim * FLOAT_BITS)
