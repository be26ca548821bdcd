"""Biased compressors, for the methods that take them: top-k, a scaled-down quantizer, scaled sign."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Draws
from lessbits._internal.summation import sum_pairwise
from lessbits.errors import InputError, check_kind, check_whole, is_whole, shown
from lessbits.quantizers.base import (
    FLOAT_BITS,
    LARGEST_DIM,
    SCALE_SLACK,
    Contraction,
    Payload,
    Quantizer,
    short_scale,
)


@pytree
class TopK(Contraction):
    """Keep the k largest coordinates (δ = k/d)."""

    kept: int = static()

    @classmethod
    def make(cls, kept: int) -> "TopK":
        """Check k. `check` compares it with d, which is not known here."""
        if not is_whole(kept, 1, LARGEST_DIM):
            raise InputError(
                f"top-{shown(kept)} keeps {shown(kept)} coordinates, but k must be from 1 to the dimension d"
            )
        return cls(int(kept))

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return f"top-{self.kept}"

    def check(self, dim: int) -> None:
        """k must be at most d."""
        if self.kept > dim:
            raise InputError(
                f"{self.name} keeps {self.kept} coordinates, but vectors have {dim}: choose k from 1 to {dim}"
            )

    def quantize(self, vectors: jax.Array, measure: tuple[()], draws: Draws) -> jax.Array:
        """Return the vectors with all but the k largest coordinates set to zero; the first ones win ties."""
        _, positions = jax.lax.top_k(jnp.abs(vectors), self.kept)
        rows = jnp.arange(vectors.shape[0])[:, None]
        return jnp.zeros_like(vectors).at[rows, positions].set(vectors[rows, positions])

    def decode(self, payload: jax.Array) -> jax.Array:
        """Return the vectors as they are."""
        return payload

    def delta(self, dim: int) -> float:
        """k/d."""
        return self.kept / dim

    def bits(self, dim: int) -> float:
        """k·b + k·log2 d bits: values and their positions."""
        return self.kept * (FLOAT_BITS + math.log2(dim))


@pytree
class Scaled(Contraction):
    """A quantizer scaled down to Q(x)/(1+ω), which makes it a contraction with δ = 1/(1+ω)."""

    quantizer: Quantizer
    factor: float

    @classmethod
    def make(cls, quantizer: Quantizer, dim: int) -> "Scaled":
        """Scale by 1/(1+ω) for this dimension."""
        check_kind("the quantizer", quantizer, Quantizer, "scale an unbiased one, such as make_quantizer('dit-4', dim)")
        return cls(quantizer, 1 / (1 + quantizer.omega(check_whole("dim", dim, 1, LARGEST_DIM))))

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return f"scaled-{self.quantizer.name}"

    def check(self, dim: int) -> None:
        """As the quantizer does."""
        self.quantizer.check(dim)

    def measure(self, vectors: jax.Array) -> Payload:
        """As the quantizer does."""
        return self.quantizer.measure(vectors)

    def quantize(self, vectors: jax.Array, measure: Payload, draws: Draws) -> Payload:
        """As the quantizer does. The factor is not sent."""
        return self.quantizer.quantize(vectors, measure, draws)

    def decode(self, payload: Payload) -> jax.Array:
        """Scale what the quantizer decodes."""
        return self.factor * self.quantizer.decode(payload)

    def delta(self, dim: int) -> float:
        """From E‖cQ - x‖² = c²E‖Q‖² - 2c‖x‖² + ‖x‖² ≤ (c²(1+ω) - 2c + 1)‖x‖²; 1/(1+ω) at c = 1/(1+ω)."""
        return 2 * self.factor - self.factor**2 * (1 + self.quantizer.omega(dim))

    def bits(self, dim: int) -> float:
        """As the quantizer's."""
        return self.quantizer.bits(dim)


class SignPayload(NamedTuple):
    """Signs -1, 0 or 1 and the mean magnitude."""

    signs: jax.Array  # int8 [rows, dim]
    scale: jax.Array  # [rows]


@pytree
class ScaledSign(Contraction):
    """Send the signs and the mean magnitude, (‖x‖₁/d)·sign(x): one bit per coordinate, δ ≥ 1/d, about 2/π for noise."""

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return "sign"

    def measure(self, vectors: jax.Array) -> jax.Array:
        """The mean magnitude of each vector, as it is sent."""
        return short_scale(sum_pairwise(jnp.abs(vectors)) / vectors.shape[-1])

    def quantize(self, vectors: jax.Array, measure: jax.Array, draws: Draws) -> SignPayload:
        """Take the signs."""
        return SignPayload(jnp.sign(vectors).astype(jnp.int8), measure)

    def decode(self, payload: SignPayload) -> jax.Array:
        """Scale times signs."""
        return payload.signs.astype(payload.scale.dtype) * payload.scale[:, None]

    def delta(self, dim: int) -> float:
        """(1-ε²)/d, reached by a single spike; ε = 2^-7, as the scale is up to ε larger than the mean magnitude."""
        return (1 - SCALE_SLACK**2) / dim

    def bits(self, dim: int) -> float:
        """d + b bits."""
        return float(dim + FLOAT_BITS)
