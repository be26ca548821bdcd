"""Rounding to a grid that becomes finer from iteration to iteration, by a schedule that both ends know."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Draws
from lessbits.errors import InputError, is_number
from lessbits.quantizers.base import Quantizer
from lessbits.quantizers.grid import MOST_LEVEL

OCTAVE = 2**20  # logarithms of spacings are integers, so that sender and receiver compute the same spacing
STEPS = 16  # spacings in an octave
FINEST = -110 * OCTAVE  # about 1e-33: differences that small mean that the run has converged
MANTISSAS = tuple(round((2 ** (step / STEPS) - 1) * 2**23) for step in range(STEPS))  # of float32
MOST_RAISED = 127  # octaves in the range of float32
LARGEST = 2**20  # levels up to here; a message that would need more is sent on a coarser grid
FIXED_BITS = 24  # bits per level with a fixed width


class FadingPayload(NamedTuple):
    """Levels and the factor of the spacing, which are sent, and the rest, which the receiver knows."""

    levels: jax.Array  # int32 [rows, dim]
    raised: jax.Array  # [rows], a power of two: 1 unless the grid is far too fine for the message
    spacing: jax.Array  # [rows], by the schedule; float32 in the working precision
    low: jax.Array  # uint32 [rows]
    high: jax.Array


@pytree
class Fading(Quantizer):
    """Q(x) = Δ(⌊x/Δ + ξ⌋ + ½ - ξ) as subtractive dithering, but with Δ = Δ₀R^k in iteration k, whatever x is.

    The number of bits adapts: a vector twice as large takes one more bit per coordinate, and one below Δ hardly any.
    No scale is sent. The error is uniform and independent of x, with variance dΔ²/12, so it cannot make a method
    unstable. So step sizes are those for exact messages (ω = 0), and the squared error shrinks by
    R² per iteration, or as the method does with exact messages if that is slower (docs/fewest-bits.md). Choose R near
    what the method can do, and Δ₀ near the distance to the solution at the start, in each coordinate. If the schedule
    is faster than the method, Δ is multiplied by a power of two, which is sent, so that levels stay below 2^20.

    With a table, the first spacings are those of the table, and Δ₀R^k begins after it (theory/schedules.py).
    """

    first: int  # log2 Δ₀, in 1/OCTAVE
    fall: int  # -log2 R, in 1/OCTAVE
    table: jax.Array | None = None  # log2 of the spacings of the first iterations, in 1/OCTAVE, int32

    @classmethod
    def make(cls, spacing: float, factor: float) -> "Fading":
        """Check the first spacing Δ₀ and the factor R."""
        spelling = f"fading:{spacing}:{factor}"
        if not is_number(spacing) or not 1e-30 <= spacing <= 1e30:
            raise InputError(f"{spelling} was given, but the first spacing must be between 1e-30 and 1e30")
        if not is_number(factor):
            raise InputError(f"{spelling} was given, but the factor must be from 0.5 to 0.99999")
        fall = round(-OCTAVE * math.log2(factor)) if 0 < factor < 1 else 0
        if not 0 < fall <= OCTAVE:
            raise InputError(f"{spelling} was given, but the factor must be from 0.5 to 0.99999")
        return cls(round(OCTAVE * math.log2(spacing)), fall)

    def after(self, spacings: np.ndarray, first: float) -> "Fading":
        """Return the quantizer that begins with these spacings, and continues with Δ₀ = `first`."""
        half = OCTAVE // STEPS // 2  # `spacing` rounds down
        logarithms = np.round(OCTAVE * np.log2([*spacings, first])).astype(np.int64)
        *table, last = np.clip(logarithms + half, FINEST, -FINEST).tolist()
        return Fading(last, self.fall, jnp.asarray(table, jnp.int32))

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return f"fading:{2 ** (self.first / OCTAVE):.5g}:{self.factor:.5g}"

    @property
    def factor(self) -> float:
        """R."""
        return float(2 ** (-self.fall / OCTAVE))

    def spacing(self, iteration: jax.Array | int) -> jax.Array:
        """Return Δ of an iteration, float32: one of 16 values per octave, from integer arithmetic."""
        last = (self.first - FINEST) // self.fall
        iteration = jnp.asarray(iteration, jnp.int32)
        if self.table is None:
            logarithm = self.first - self.fall * jnp.minimum(iteration, last)
        else:
            length = self.table.shape[0]
            later = self.first - self.fall * jnp.clip(iteration - length, 0, last)
            logarithm = jnp.where(iteration < length, self.table[jnp.minimum(iteration, length - 1)], later)
        steps = logarithm // (OCTAVE // STEPS)
        word = ((127 + steps // STEPS) << 23) | jnp.asarray(MANTISSAS, jnp.int32)[steps % STEPS]
        return lax.bitcast_convert_type(word, jnp.float32)

    def measure(self, vectors: jax.Array) -> jax.Array:
        """The largest entry of each vector."""
        return jnp.max(jnp.abs(vectors), axis=-1)

    def quantize(self, vectors: jax.Array, measure: jax.Array, draws: Draws) -> FadingPayload:
        """Round x/Δ + ξ down."""
        kind = vectors.dtype
        spacing = jnp.broadcast_to(self.spacing(draws.iteration).astype(kind), measure.shape)
        octaves = jnp.frexp(measure * (1 / spacing))[1] - (LARGEST.bit_length() - 1)
        raised = jnp.ldexp(jnp.ones((), kind), jnp.clip(octaves, 0, MOST_RAISED))
        dither = draws.uniform(vectors.shape[-1], kind)
        levels = jnp.floor(vectors * (1 / (raised * spacing))[:, None] + dither)
        levels = jnp.clip(levels, -MOST_LEVEL, MOST_LEVEL).astype(jnp.int32)
        return FadingPayload(levels, raised, spacing, draws.low, draws.high)

    def decode(self, payload: FadingPayload) -> jax.Array:
        """Add ½ - ξ to the levels, with ξ drawn again from the same words."""
        kind = payload.spacing.dtype
        dither = Draws(payload.low, payload.high).uniform(payload.levels.shape[-1], kind)
        return (payload.levels.astype(kind) + (0.5 - dither)) * (payload.raised * payload.spacing)[:, None]

    @property
    def fading(self) -> float:
        """R²."""
        return self.factor**2

    def omega(self, dim: int) -> float:
        """0: the error does not grow with x. `variance` is dΔ²/12."""
        return 0.0

    def variance(self, dim: int, iteration: int) -> float:
        """E‖Q(x) - x‖² in an iteration, of any x."""
        return dim * float(self.spacing(iteration)) ** 2 / 12

    def bits(self, dim: int) -> float:
        """24 bits per level, as with a fixed width: the size of levels depends on the run."""
        return float(FIXED_BITS * dim)
