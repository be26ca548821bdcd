"""The quantizers of weights for pytrees: those of `lessbits.quantizers.block`, with blocks that end with their tensor.

Vectors are rows, one for each node or link. Levels and scales of a row are those of `lessbits.torch.quantizers`, and do
not depend on how many rows there are.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.blocks import BLOCK, BlockPayload, block_sizes, level_type, most_level
from lessbits._internal.randomness import Draws
from lessbits.codecs.block import BlockCodec
from lessbits.errors import InputError
from lessbits.quantizers import make_quantizer
from lessbits.quantizers.block import Block, BlockDither, BlockTop


class Given(NamedTuple):
    """Random numbers that were drawn for the whole vector, and cut into blocks."""

    numbers: jax.Array

    def uniform(self, count: int, dtype: Any) -> jax.Array:
        """Return them."""
        return self.numbers


class Group(NamedTuple):
    """All blocks of one length: (start, first block, blocks) of those that follow each other."""

    length: int
    runs: tuple[tuple[int, int, int], ...]


class Blocks(NamedTuple):
    """What programs are compiled for: the blocks of a vector, by length and in order, and the type of levels."""

    groups: tuple[Group, ...]
    sizes: tuple[int, ...]
    level: str


class WeightQuantizer:
    """A quantizer of vectors that consist of tensors of these sizes. All of one process share its programs."""

    def __init__(self, spelling: str, sizes: Sequence[int]) -> None:
        self.inner = _inner(spelling)
        self.name = self.inner.name
        self.sizes = block_sizes(sizes, BLOCK)
        self.dim = int(self.sizes.sum())
        longest = int(self.sizes.max(initial=1))
        self.most = 1 if isinstance(self.inner, BlockTop) else most_level(float(self.inner.spacing), longest)
        self.blocks = Blocks(_groups(self.sizes), tuple(self.sizes.tolist()), level_type(self.most))

    def codec(self) -> BlockCodec:
        """Return the codec of its payloads."""
        return BlockCodec(self.sizes, self.most, level_type(self.most))

    def send(self, x: jax.Array, known: jax.Array, draws: Draws) -> tuple[BlockPayload, jax.Array]:
        """Return the payload of x - h of each row, float32 [rows, dim], and what it stands for."""
        return send(self.inner, x, known, draws, self.blocks)

    def decode(self, payload: BlockPayload) -> jax.Array:
        """Return the vectors."""
        return _decode(payload, self.blocks)


@partial(jax.jit, static_argnames="blocks")
def send(inner: Any, x: jax.Array, known: jax.Array, draws: Draws, blocks: Blocks) -> tuple[BlockPayload, jax.Array]:
    """Do what `WeightQuantizer.send` does, with its `inner` and `blocks`."""
    payload = _quantize(inner, x - known, draws, blocks)
    return payload, _decode(payload, blocks)


@partial(jax.jit, static_argnames="blocks")
def _decode(payload: BlockPayload, blocks: Blocks) -> jax.Array:
    """A level times a scale of 16 bits is exact, so that adding it rounds once, fused or not."""
    dim = payload.levels.shape[1]
    spread = jnp.repeat(payload.scales, np.array(blocks.sizes), axis=1, total_repeat_length=dim)
    return payload.levels.astype(payload.scales.dtype) * spread


def _quantize(inner: Any, vectors: jax.Array, draws: Draws, blocks: Blocks) -> BlockPayload:
    rows, dim = vectors.shape
    uniform = draws.uniform(dim, vectors.dtype) if isinstance(inner, BlockDither) else None
    levels: dict[int, jax.Array] = {}
    scales: dict[int, jax.Array] = {}
    for group in blocks.groups:
        cut = _cut(vectors, group)
        drawn: Any = draws if uniform is None else Given(_cut(uniform, group))
        found = inner.quantize(cut, inner.measure(cut), drawn)
        whole, fitted = found.levels.astype(blocks.level).reshape(rows, -1), found.scales.reshape(rows, -1)
        place = 0
        for start, _, count in group.runs:
            levels[start] = whole[:, place * group.length : (place + count) * group.length]
            scales[start] = fitted[:, place : place + count]
            place += count
    order = sorted(levels)
    return BlockPayload(
        jnp.concatenate([levels[start] for start in order], axis=1),
        jnp.concatenate([scales[start] for start in order], axis=1),
    )


def _inner(spelling: str) -> Block | BlockDither | BlockTop:
    try:
        found = make_quantizer(spelling, BLOCK)
    except InputError as error:
        if str(spelling).startswith("block"):
            raise
        found, why = None, error
    if not isinstance(found, Block | BlockDither | BlockTop):
        raise InputError(
            f"the quantizer is {str(spelling)[:60]!r}, but models are sent with block:Δ, block-dither:Δ or "
            "block-top:K: write for example 'block:1.0'"
        ) from (why if found is None else None)
    return found


def _groups(sizes: np.ndarray) -> tuple[Group, ...]:
    """Return the blocks by their length, so that few programs serve a model of many tensors."""
    runs: dict[int, list[tuple[int, int, int]]] = {}
    start, before = 0, None
    for number, length in enumerate(sizes.tolist()):
        same = runs.setdefault(length, [])
        if before == length:
            same[-1] = (*same[-1][:2], same[-1][2] + 1)
        else:
            same.append((start, number, 1))
        start, before = start + length, length
    return tuple(Group(length, tuple(same)) for length, same in runs.items())


def _cut(vectors: jax.Array, group: Group) -> jax.Array:
    """Return the blocks of all rows, [rows · blocks, length]."""
    parts = [vectors[:, start : start + count * group.length] for start, _, count in group.runs]
    return jnp.concatenate(parts, axis=1).reshape(-1, group.length)
