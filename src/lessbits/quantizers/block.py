"""Quantizers with a scale for each block of coordinates, made for the weights of neural networks.

A block of 4096 coordinates has a scale of its own, because weights of different layers differ in size by orders of
magnitude. Blocks may have another length, or be the whole vector. Every reduction has a fixed order of addition, so
that `lessbits.torch` finds the same levels and scales.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.block_spelling import BlockSpelling, checked_blocks
from lessbits._internal.blocks import BLOCK, BlockPayload, level_type, most_level
from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Draws
from lessbits._internal.summation import separate, sum_pairwise
from lessbits.errors import InputError, check_number, check_whole
from lessbits.quantizers.base import (
    FLOAT_BITS,
    SCALE_SLACK,
    SMALLEST_SCALE,
    Compressor,
    Contraction,
    Quantizer,
    norms,
    short_scale,
)


def by_block(function: Callable[..., list[jax.Array]], block: int | None, *arrays: jax.Array) -> list[jax.Array]:
    """Apply a function to the whole blocks of rows, [rows, blocks, block], and to the shorter last one; join results.

    With `block` None a row is one block.
    """
    dim = arrays[0].shape[-1]
    block = block or dim
    whole = dim // block * block
    parts = []
    if whole:
        parts.append(function(*(array[:, :whole].reshape(-1, whole // block, block) for array in arrays)))
    if dim > whole:
        parts.append(function(*(array[:, whole:][:, None] for array in arrays)))
    joined = zip(*([each.reshape(each.shape[0], -1) for each in part] for part in parts), strict=True)
    return [jnp.concatenate(each, axis=1) for each in joined]


def spread(scales: jax.Array, dim: int, block: int | None) -> jax.Array:
    """Return the scale of each coordinate's block, [rows, dim]."""
    block = block or dim
    return jnp.repeat(scales, block, axis=1, total_repeat_length=scales.shape[1] * block)[:, :dim]


def fitted(blocks: jax.Array, levels: jax.Array) -> jax.Array:
    """Return the scale with which levels are closest to the numbers, rounded to 16 bits of a float32."""
    levels = levels.astype(blocks.dtype)
    along, weight = sum_pairwise(separate(blocks * levels)), sum_pairwise(separate(levels * levels))
    exact = (along / jnp.maximum(weight, 1)).astype(jnp.float32)
    short = exact.astype(jnp.bfloat16).astype(jnp.float32)
    return jnp.where(exact < SMALLEST_SCALE, 0, short).astype(blocks.dtype)


def block_norms(blocks: jax.Array) -> jax.Array:
    """Return the norm of each block, [rows, blocks]."""
    return norms(blocks)


def _decode(payload: BlockPayload, block: int | None) -> jax.Array:
    levels = payload.levels.astype(payload.scales.dtype)
    return levels * spread(payload.scales, levels.shape[-1], block)


def block_lengths(dim: int, block: int | None) -> tuple[int, int]:
    """Return the length of the longest block of a vector, and how many blocks there are."""
    longest = min(dim, block or dim)
    return longest, -(-dim // longest)


class _Spaced(Compressor):
    """What rounding to the nearest level and dithering have in common: Δ, blocks, and the largest level."""

    spacing: float
    kind: str
    block: int | None

    def check(self, dim: int) -> None:
        """Raise if levels of one block of this length need more bits than they have."""
        if most_level(float(self.spacing), self.block or dim) > jnp.iinfo(self.kind).max:
            raise InputError(f"{self.name} was made for shorter vectors than of dimension {dim}: make another")

    def measure(self, vectors: jax.Array) -> jax.Array:
        """Δ times the root mean square of each block, rounded up to 16 bits, [rows, blocks]."""

        def one(blocks: jax.Array) -> list[jax.Array]:
            share = jnp.asarray(self.spacing, blocks.dtype) * (1 / math.sqrt(blocks.shape[-1]))
            return [short_scale(block_norms(blocks) * share)]

        return by_block(one, self.block, vectors)[0]

    def decode(self, payload: BlockPayload) -> jax.Array:
        """Scale times levels."""
        return _decode(payload, self.block)

    def bits(self, dim: int) -> float:
        """A fixed width for each level, and b bits for each block."""
        longest, count = block_lengths(dim, self.block)
        width = (2 * most_level(float(self.spacing), longest)).bit_length()
        return float(dim * width + FLOAT_BITS * count)


@pytree
class Block(_Spaced, Contraction):
    """Round to the nearest multiple of Δ root mean squares of the block, and send the scale that then fits best.

    Scales that fit in least squares make every message a projection, so that the error is at most that of rounding.
    If all levels of a block are zero, the largest coordinate has ±1: then Q contracts for every Δ.
    """

    spacing: float
    kind: str = static()
    block: int | None = static(default=BLOCK)

    @classmethod
    def make(cls, spacing: float, block: int | None = BLOCK, dim: int = BLOCK) -> "Block":
        """Check Δ and the length of blocks; with None, vectors of dimension `dim` are one block."""
        return cls(*_checked("block", spacing, block, dim))

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return BlockSpelling("block", float(self.spacing), self.block).name

    def quantize(self, vectors: jax.Array, measure: jax.Array, draws: Draws) -> BlockPayload:
        """Round x/Δ, and fit the scale."""

        def one(blocks: jax.Array, spacing: jax.Array) -> list[jax.Array]:
            spacing = spacing[..., :1]
            levels = jnp.rint(blocks * jnp.where(spacing > 0, 1 / spacing, 0))
            places = lax.broadcasted_iota(jnp.int32, blocks.shape, 2)
            first = places == lax.argmax(jnp.abs(blocks), 2, jnp.int32)[..., None]
            empty = ~jnp.any(levels != 0, axis=-1, keepdims=True) & (spacing > 0)
            levels = jnp.where(empty & first, jnp.sign(blocks), levels)
            return [levels.astype(self.kind), fitted(blocks, levels)]

        return BlockPayload(*by_block(one, self.block, vectors, spread(measure, vectors.shape[-1], self.block)))

    def delta(self, dim: int) -> float:
        """1 - ((1+ε)Δ/2)² or 3/(4d), with d at most a block; what is less than the scale's rounding is left out."""
        rounding = 1 - ((1 + SCALE_SLACK) * self.spacing / 2) ** 2
        return max(rounding, 0.75 / block_lengths(dim, self.block)[0]) * (1 - 2.0**-14)


@pytree
class BlockDither(_Spaced, Quantizer):
    """Round at random, without bias, to one of the two next multiples of Δ root mean squares of the block."""

    spacing: float
    kind: str = static()
    block: int | None = static(default=BLOCK)

    @classmethod
    def make(cls, spacing: float, block: int | None = BLOCK, dim: int = BLOCK) -> "BlockDither":
        """Check Δ and the length of blocks; with None, vectors of dimension `dim` are one block."""
        return cls(*_checked("block-dither", spacing, block, dim))

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return BlockSpelling("block-dither", float(self.spacing), self.block).name

    def quantize(self, vectors: jax.Array, measure: jax.Array, draws: Draws) -> BlockPayload:
        """Round x/Δ down after adding a random number from 0 to 1."""
        spacing = spread(measure, vectors.shape[-1], self.block)
        exact = vectors * jnp.where(spacing > 0, 1 / spacing, 0)
        below = jnp.floor(exact)
        uniform = draws.uniform(vectors.shape[-1], vectors.dtype)
        levels = below + (uniform > 1 - (exact - below)).astype(below.dtype)
        return BlockPayload(levels.astype(self.kind), measure)

    def omega(self, dim: int) -> float:
        """((1+ε)Δ)²/4, or (1+ε)Δ if that is less: a number between two levels has variance p(1-p)Δ²."""
        spacing = (1 + SCALE_SLACK) * self.spacing
        return min(spacing**2 / 4, spacing)


@pytree
class BlockTop(Contraction):
    """Keep the signs of the k largest coordinates of each block, and their mean magnitude.

    With one block for the whole vector, k of 4096 are kept.
    """

    kept: int = static()
    block: int | None = static(default=BLOCK)

    @classmethod
    def make(cls, kept: int, block: int | None = BLOCK) -> "BlockTop":
        """Check k and the length of blocks."""
        check_whole("k of block-top:K", kept, 1, block or BLOCK)
        return cls(kept, checked_blocks("block-top", kept, block).block)

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return BlockSpelling("block-top", self.kept, self.block).name

    def kept_of(self, length: int) -> int:
        """Return how many coordinates of a block are kept: the same share of a shorter one, at least one."""
        return -(-self.kept * length // (self.block or BLOCK))

    def quantize(self, vectors: jax.Array, measure: tuple[()], draws: Draws) -> BlockPayload:
        """Take the signs of the largest; the first ones win ties."""

        def one(blocks: jax.Array) -> list[jax.Array]:
            kept, sizes = self.kept_of(blocks.shape[-1]), jnp.abs(blocks)
            bound = lax.top_k(sizes, kept)[0][..., -1:]
            above, equal = sizes > bound, sizes == bound
            missing = kept - jnp.sum(above, axis=-1, keepdims=True, dtype=jnp.int32)
            chosen = above | (equal & (jnp.cumsum(equal, axis=-1, dtype=jnp.int32) <= missing))
            levels = jnp.where(chosen, jnp.sign(blocks), 0)
            return [levels.astype("int8"), fitted(blocks, levels)]

        return BlockPayload(*by_block(one, self.block, vectors))

    def decode(self, payload: BlockPayload) -> jax.Array:
        """Scale times signs."""
        return _decode(payload, self.block)

    def delta(self, dim: int) -> float:
        """k/(k² + d - k): S²/k is kept, the kept squares have at most sum S² and the others (d-k)(S/k)²."""
        length, _ = block_lengths(dim, self.block)
        kept = self.kept_of(length)
        return kept / (kept**2 + length - kept) * (1 - 2.0**-14)

    def bits(self, dim: int) -> float:
        """A sign and a position of log2 d bits for what is kept, and b bits for each block."""
        length, count = block_lengths(dim, self.block)
        return float(count * (self.kept_of(length) * (1 + math.log2(length)) + FLOAT_BITS))


def make_blocks(spelling: BlockSpelling, dim: int) -> Block | BlockDither | BlockTop:
    """Return the quantizer of a spelling that was read, for vectors or blocks of dimension `dim`."""
    if spelling.kind == "block-top":
        return BlockTop.make(int(spelling.amount), spelling.block)
    return (Block if spelling.kind == "block" else BlockDither).make(spelling.amount, spelling.block, dim)


def _checked(kind: str, spacing: float, block: int | None, dim: int) -> tuple[float, str, int | None]:
    check_number(f"Δ of {kind}", spacing)
    checked_blocks(kind, float(spacing), block)
    return float(spacing), level_type(most_level(float(spacing), block or dim)), block
