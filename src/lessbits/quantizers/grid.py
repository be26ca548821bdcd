"""Rounding to a grid whose spacing the sender chooses for each message."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Draws
from lessbits.errors import InputError, is_whole, shown
from lessbits.quantizers.base import FLOAT_BITS, SCALE_SLACK, Contraction, norms, short_scale

MOST_LEVEL = 2**23 - 1  # float32 holds every level exactly


class GridPayload(NamedTuple):
    """Whole multiples of the spacing, and the spacing."""

    levels: jax.Array  # int32 [rows, dim]
    spacing: jax.Array  # [rows], 16 bits of a float32 in the working precision


@pytree
class Grid(Contraction):
    """Round each coordinate to the nearest multiple of Δ, the root mean square of the vector divided by F.

    Rounding is to the nearest multiple, not at random: biased, with at most half of the error of dithering at equal Δ,
    and fewer bits. Δ is sent instead of the norm, so a sender can choose another Δ for a message (as `measure`);
    entropy coding makes coarser messages shorter.

    Each error is at most Δ/2, so that 1 - δ = 1/(4F²) in any dimension.
    """

    fineness: float  # F; traced

    @classmethod
    def make(cls, fineness: int) -> "Grid":
        """Check F."""
        if not is_whole(fineness, 1, MOST_LEVEL):
            raise InputError(
                f"grid:{shown(fineness)} was given, but the fineness must be a whole number from 1 to {MOST_LEVEL}"
            )
        return cls(float(fineness))

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return f"grid:{int(self.fineness)}"

    def measure(self, vectors: jax.Array) -> jax.Array:
        """Δ of each vector, as it is sent."""
        return self.spacing(vectors, self.fineness)

    def spacing(self, vectors: jax.Array, fineness: jax.Array | float) -> jax.Array:
        """Return Δ for another fineness, either one for all rows or one per row."""
        return short_scale(norms(vectors) * (1 / (math.sqrt(vectors.shape[-1]) * jnp.asarray(fineness, vectors.dtype))))

    def quantize(self, vectors: jax.Array, measure: jax.Array, draws: Draws) -> GridPayload:
        """Round x/Δ."""
        levels_per_unit = jnp.where(measure > 0, 1 / measure, 0)[:, None]
        levels = jnp.clip(jnp.rint(vectors * levels_per_unit), -MOST_LEVEL, MOST_LEVEL)
        return GridPayload(levels.astype(jnp.int32), measure)

    def decode(self, payload: GridPayload) -> jax.Array:
        """Δ · levels."""
        return payload.levels.astype(payload.spacing.dtype) * payload.spacing[:, None]

    def delta(self, dim: int) -> float:
        """1 - (1+ε)²/(4F²), with ε = 2^-7 as Δ is rounded up."""
        return 1 - (1 + SCALE_SLACK) ** 2 / (4 * self.fineness**2)

    def bits(self, dim: int) -> float:
        """d·(1 + ⌈log2 F√d⌉) + b bits: levels of a fixed width, and Δ."""
        return float(dim * (1 + math.ceil(math.log2(self.fineness * math.sqrt(dim)) + 1e-9)) + FLOAT_BITS)
