"""Magnitudes as symbols and low bits: small ones have a symbol each, larger ones share a symbol with their neighbours.

1 + |l| is written like a floating-point number with 4 bits after the leading one. The exponent and these 4 bits are the
symbol, which is modelled. The remaining low bits are nearly uniform and are sent as they are. So no table has more than
a few hundred entries, whatever the number of levels.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

MANTISSA_BITS = 4
FIRST_SHARED = (2 << MANTISSA_BITS) - 1  # magnitudes below this are their own symbols, and have no low bits
_EXACT = (1 << MANTISSA_BITS) - 1  # below this the symbol is the magnitude, without a logarithm
_ONE = 0x3F800000  # the bits of 1 in float32


class Buckets(NamedTuple):
    """The symbols for magnitudes 0 … s."""

    starts: np.ndarray  # the smallest magnitude of each
    low_bits: np.ndarray

    @property
    def middles(self) -> np.ndarray:
        """The mean magnitude of each."""
        return self.starts + (2.0**self.low_bits - 1) / 2


def logarithm(magnitudes: Any) -> Any:
    """Return log2(1 + |l|) in units of 1/16, rounded down, for integers below 2^24, in NumPy or JAX.

    Exponent and mantissa of a float32, read as one integer, are a piecewise linear approximation of the logarithm.
    """
    if isinstance(magnitudes, np.ndarray):
        bits: Any = (magnitudes + 1).astype(np.float32).view(np.int32)
    else:
        bits = jax.lax.bitcast_convert_type((magnitudes + 1).astype(jnp.float32), jnp.int32)
    return (bits - _ONE) >> (23 - MANTISSA_BITS)


def symbols_of(magnitudes: np.ndarray) -> np.ndarray:
    """Return the symbol of each magnitude."""
    skipped = (MANTISSA_BITS << MANTISSA_BITS) - _EXACT
    return np.where(magnitudes < _EXACT, magnitudes, logarithm(magnitudes) - skipped)


@cache
def buckets(most: int) -> Buckets:
    """Return the symbols of magnitudes 0 … s."""
    count = int(symbols_of(np.array([most]))[0]) + 1
    beyond = np.maximum(np.arange(count) - _EXACT, 0)
    low_bits = beyond >> MANTISSA_BITS
    starts = ((beyond & _EXACT) + _EXACT + 1 << low_bits) - 1
    return Buckets(np.where(np.arange(count) < _EXACT, np.arange(count), starts), low_bits)
