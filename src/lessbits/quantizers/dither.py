"""Random dithering (QSGD): each coordinate rounded at random to one of s levels of the vector's norm."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Draws
from lessbits.errors import InputError, is_whole, shown
from lessbits.quantizers.base import FLOAT_BITS, SCALE_SLACK, Quantizer, distances, norms, short_scale

MOST_LEVELS = 2**23 - 1  # float32 holds every level exactly


class DitherPayload(NamedTuple):
    """Integer levels -s … s of each coordinate, and the scale that level s stands for."""

    levels: jax.Array  # int8, int16 or int32 [rows, dim]
    scale: jax.Array  # [rows], 16 bits of a float32 in the working precision


def round_to_levels(
    vectors: jax.Array, scale: jax.Array, level_count: float | jax.Array, level_type: str, draws: Draws
) -> DitherPayload:
    """Round s·x/scale to one of its two neighbouring integers, up with the probability of its fractional part."""
    # Divide here, per row: XLA would otherwise move the division into the loop over coordinates.
    levels_per_unit = (level_count / jnp.where(scale > 0, scale, jnp.inf))[:, None]
    exact, uniform = vectors * levels_per_unit, draws.uniform(vectors.shape[-1], vectors.dtype)
    if vectors.dtype == jnp.float64:
        levels = jnp.floor(exact + uniform)
    else:
        # In float32 the sum of a large level and ξ would be rounded, mostly up.
        below = jnp.floor(exact)
        levels = below + (uniform > 1 - (exact - below)).astype(below.dtype)
    # A level of s may come out one ulp above s.
    most = jnp.asarray(level_count, jnp.int32)
    return DitherPayload(jnp.clip(to_integers(levels), -most, most).astype(level_type), scale)


def to_integers(levels: jax.Array) -> jax.Array:
    """Convert floating-point numbers with integer values to int32.

    In float64 this reads the bits: after adding 1.5·2^52, an integer below 2^51 is in the last bits. The usual
    conversion checks for overflow, which takes longer than all the rest of quantizing.
    """
    if levels.dtype != jnp.float64:
        return levels.astype(jnp.int32)
    return lax.bitcast_convert_type(levels + 1.5 * 2.0**52, jnp.int64).astype(jnp.int32)


def from_levels(payload: DitherPayload, level_count: float | jax.Array) -> jax.Array:
    """(scale / s) · levels."""
    return payload.levels.astype(payload.scale.dtype) * level_unit(payload.scale, level_count)[:, None]


def level_unit(scale: jax.Array, level_count: float | jax.Array) -> jax.Array:
    """Return Δ = scale/s as a product, because compilers may replace a division by a scalar with one."""
    return scale * (1 / jnp.asarray(level_count, scale.dtype))


@pytree
class Dither(Quantizer):
    """Dithering with s levels: Q(x) = (‖x‖/s) ⌊s·x/‖x‖ + ξ⌋ with ξ uniform in [0, 1)^d (the paper's Example 1).

    For negative numbers, rounding down after adding ξ has the same distribution as the paper's sign(x)·⌊|x| + ξ⌋, and
    is faster.
    ω = min(d/s², √d/s). Prefer it to `rand-k` at equal bits: its error is smaller on all but very sparse vectors.
    """

    level_count: float  # s; traced, so that a sweep over s compiles once for each integer type
    level_type: str = static(default="int8")

    @classmethod
    def make(cls, level_count: int) -> "Dither":
        """Check s and pick the smallest integer type that holds -s … s."""
        if not is_whole(level_count, 1, MOST_LEVELS):
            raise InputError(
                f"dithering was given s = {shown(level_count)} levels, but s must be an integer from 1 to {MOST_LEVELS}"
            )
        level_type = next(kind for kind in ("int8", "int16", "int32") if level_count <= jnp.iinfo(kind).max)
        return cls(float(level_count), level_type)

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads: dit-k where s = 2^(k-1), else dither:s."""
        exponent = math.log2(self.level_count)
        return f"dit-{int(exponent) + 1}" if exponent == int(exponent) else f"dither:{int(self.level_count)}"

    def check(self, dim: int) -> None:
        """s must be an integer that the type of the levels holds."""
        most = min(MOST_LEVELS, jnp.iinfo(self.level_type).max)
        if not (1 <= self.level_count <= most and float(self.level_count).is_integer()):
            raise InputError(
                f"dithering was given s = {self.level_count:g} levels as {self.level_type}, but s must be an integer "
                f"from 1 to {most}: Dither.make picks a type that fits"
            )

    def measure(self, vectors: jax.Array) -> jax.Array:
        """The norm of each vector, as it is sent."""
        return short_scale(norms(vectors))

    def measure_difference(self, vectors: jax.Array, origin: jax.Array) -> jax.Array:
        """The distance of each vector from its origin, as it is sent."""
        return short_scale(distances(vectors, origin))

    def quantize(self, vectors: jax.Array, measure: jax.Array, draws: Draws) -> DitherPayload:
        """Round s·x/‖x‖ at random to an integer."""
        return round_to_levels(vectors, measure, self.level_count, self.level_type, draws)

    def decode(self, payload: DitherPayload) -> jax.Array:
        """(scale / s) · levels."""
        return from_levels(payload, self.level_count)

    def omega(self, dim: int) -> float:
        """min(d/s², √d/s), and a little more than √d/s from 128 on.

        The scale is the norm times 1 + ε, ε < 2^-7. With Δ = scale/s a coordinate has the variance f(1-f)Δ² with f the
        fractional part of |x|/Δ: at most Δ²/4, which in all is below d/s², and at most |x|Δ - x², in all
        (1+ε)√d/s - 1.
        """
        ratio = math.sqrt(dim) / self.level_count
        return min(ratio**2, max(ratio, (1 + SCALE_SLACK) * ratio - 1))

    def bits(self, dim: int) -> float:
        """d·k + b bits, with k = 1 + log2 s rounded up."""
        return float(dim * (1 + math.ceil(math.log2(self.level_count))) + FLOAT_BITS)
