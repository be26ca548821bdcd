"""The interface of quantizers and other compressors."""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import traced
from lessbits._internal.quick_programs import quick_jit
from lessbits._internal.randomness import Draws, Purpose, Step, draws, make_seed
from lessbits._internal.summation import separate, squared_distances, squared_norms

SCALE_SLACK = 2.0**-7  # scales are rounded up to the first 16 bits of a float32: relative error below this
FLOAT_BITS = 32  # the paper's b, for nominal bit counts
LARGEST_DIM = 2**31 - 1  # coordinates are counted in 32-bit integers
TRIED_ROWS, TRIED_NUMBERS = 64, 2**20  # size of the sample that estimates the typical ω: vectors, and numbers in all
LARGEST_NORM = 1e30
SMALLEST_SCALE = 1e-34  # norms from 1e-30 to LARGEST_NORM are supported; the largest entry may be √d times smaller

Payload = Any  # a pytree of arrays with one row per vector: exactly what is sent


class Compressor(ABC):
    """A random map from vectors to payloads and back. Base class of quantizers and contractions.

    Vectors are rows. `measure` computes what depends on the vector alone, such as its norm, so that a node with many
    neighbours computes it once and not once per link.
    """

    lossless = False
    random = True  # whether it draws numbers; if not, all neighbours can be told the same

    @property
    @abstractmethod
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""

    def __repr__(self) -> str:
        """Show the spelling."""
        return f"{type(self).__name__}({'traced' if traced(self) else repr(self.name)})"

    def check(self, dim: int) -> None:
        """Raise `InputError` if vectors of this dimension cannot be compressed."""
        return

    def measure(self, vectors: jax.Array) -> Any:
        """Return what `quantize` needs for each vector besides its coordinates, such as the norm."""
        return ()

    def measure_difference(self, vectors: jax.Array, origin: jax.Array) -> Any:
        """Return `measure(vectors - origin)`. Override where this is possible without storing the difference."""
        return self.measure(vectors - origin)

    @abstractmethod
    def quantize(self, vectors: jax.Array, measure: Any, draws: Draws) -> Payload:
        """Return the payload of each row."""

    @abstractmethod
    def decode(self, payload: Payload) -> jax.Array:
        """Return the vectors that sender and receiver both use."""

    @abstractmethod
    def bits(self, dim: int) -> float:
        """Return the nominal length of one message, by the paper's formulas with 32 bits for a number."""

    def __call__(self, vectors: jax.Array, draws: Draws) -> jax.Array:
        """Return the decoded vectors: the paper's Q(x)."""
        return self.decode(self.quantize(vectors, self.measure(vectors), draws))


class Quantizer(Compressor):
    """An unbiased compressor: E Q(x) = x and E‖Q(x) - x‖² ≤ ω‖x‖² (the paper's Assumption 3)."""

    @abstractmethod
    def omega(self, dim: int) -> float:
        """Return the variance bound ω for vectors of this dimension."""

    @property
    def fading(self) -> float:
        """Factor by which noise that does not depend on the vector shrinks per iteration, in mean square; 0 if none."""
        return 0.0

    def typical_omega(self, dim: int) -> float:
        """Return an estimate of E‖Q(x) - x‖²/‖x‖² for Gaussian vectors; ω bounds the worst case."""
        return min(float(_tried(self, max(1, min(TRIED_ROWS, TRIED_NUMBERS // dim)), dim)), self.omega(dim))


@partial(quick_jit, static_argnames=("rows", "dim"))
def _tried(quantizer: Quantizer, rows: int, dim: int) -> jax.Array:
    vectors = jax.random.normal(jax.random.key(0), (rows, dim))
    draw = draws(Step(make_seed(0), jnp.int32(0)), jnp.arange(rows), Purpose.MEMORY)
    return jnp.sum((quantizer(vectors, draw) - vectors) ** 2) / jnp.sum(vectors**2)


class Contraction(Compressor):
    """A biased compressor with a bounded error: E‖C(x) - x‖² ≤ (1 - δ)‖x‖²."""

    @abstractmethod
    def delta(self, dim: int) -> float:
        """Return the contraction factor δ in (0, 1] for vectors of this dimension."""


def short_scale(norms: jax.Array) -> jax.Array:
    """Round up to the first 16 bits of a float32, and return that in the dtype of `norms`.

    Sender and receiver both use the rounded value. It is rounded up so that no level exceeds s; the relative error is
    below `SCALE_SLACK`. A scale below 1e-34 becomes zero: differences that small mean that the run has converged.
    """
    rounded = norms.astype(jnp.float32)
    raised = jnp.where(rounded.astype(norms.dtype) < norms, jnp.nextafter(rounded, jnp.float32(jnp.inf)), rounded)
    words = lax.bitcast_convert_type(raised, jnp.uint32)
    short = lax.bitcast_convert_type((words + jnp.uint32(0xFFFF)) & jnp.uint32(0xFFFF0000), jnp.float32)
    short = jnp.where(jnp.isnan(raised), jnp.float32(jnp.nan), short)
    return jnp.where(norms < SMALLEST_SCALE, 0, short).astype(norms.dtype)


def distances(vectors: jax.Array, origin: jax.Array) -> jax.Array:
    """Return `norms(vectors - origin)`, bit for bit."""
    if vectors.dtype != jnp.float64:
        return norms(vectors - origin)
    return jnp.sqrt(squared_distances(vectors, origin))


def norms(vectors: jax.Array) -> jax.Array:
    """Return the 2-norm of each row, without overflow from 1e-30 to 1e30, in float32 too."""
    if vectors.dtype == jnp.float64:
        return jnp.sqrt(squared_norms(vectors))
    units = (2.0**50, 1.0, 2.0**-50)
    # `separate` keeps the compiler from rewriting (c·v)² of a single number v as c²·v², which overflows.
    large, medium, small = (unit * jnp.sqrt(squared_norms(separate(vectors * (1 / unit)))) for unit in units)
    return jnp.where(large > 2.0**50, large, jnp.where(medium > 2.0**-20, medium, small))
