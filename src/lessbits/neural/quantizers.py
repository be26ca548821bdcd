"""The quantizers of weights for pytrees: those of `lessbits.quantizers.block`, with blocks that end with their tensor.

Vectors are rows, one for each node or link. Levels and scales of a row are those of `lessbits.torch.quantizers`, and do
not depend on how many rows there are. All coordinates with one quantizer are quantized together, in few programs; then
they are cut into the pieces of which messages consist.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.block_spelling import BlockSpelling
from lessbits._internal.blocks import BlockPayload, level_type, most_level
from lessbits._internal.randomness import Draws
from lessbits.codecs.block import BlockCodec
from lessbits.codecs.joined import FloatCodec, JoinedCodec
from lessbits.quantizers.block import BlockDither, make_blocks
from lessbits.quantizers.exact import Exact
from lessbits.training.pieces import EXACT, MOST_COORDINATES, Cut, Spelling, choose_quantizers

Payload = tuple[BlockPayload | jax.Array, ...]  # of each piece; numbers as they are with `exact`
Span = tuple[int, int]  # from here to there


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


class Part(NamedTuple):
    """All coordinates with one quantizer: where they are in the vector, and their blocks by length."""

    spans: tuple[Span, ...]
    groups: tuple[Group, ...]
    level: str


class Piece(NamedTuple):
    """A piece of messages: its part, where it is there, and its blocks."""

    part: int
    span: Span
    blocks: Span
    sizes: tuple[int, ...]
    most: int
    exact: bool

    @property
    def level(self) -> str:
        """The type of levels."""
        return level_type(self.most)


class Blocks(NamedTuple):
    """What programs are compiled for."""

    parts: tuple[Part, ...]
    pieces: tuple[Piece, ...]


class WeightQuantizer:
    """A quantizer of vectors that consist of tensors of these sizes, or one for each by their names.

    All of one process share its programs.
    """

    def __init__(
        self,
        spelling: Spelling,
        sizes: Sequence[int],
        names: Sequence[str] | None = None,
        most: int = MOST_COORDINATES,
    ) -> None:
        chosen = choose_quantizers(spelling, [""] * len(sizes) if names is None else names)
        self.name, self.noisiest = chosen.name, chosen.noisiest
        self.dim = sum(sizes)
        cuts = list(chosen.cuts(sizes, most))
        kinds = list(dict.fromkeys(cut.quantizer for cut in cuts))
        by_kind = [[cut for cut in cuts if cut.quantizer == kind] for kind in kinds]
        self.inner = tuple(
            Exact() if kind == EXACT else make_blocks(kind, max(size for cut in same for size in cut.blocks))
            for kind, same in zip(kinds, by_kind, strict=True)
        )
        parts = tuple(_part(kind, same) for kind, same in zip(kinds, by_kind, strict=True))
        self.blocks = Blocks(parts, tuple(_pieces(cuts, kinds)))
        self.streamed = tuple(_stream(cut, self.inner[kinds.index(cut.quantizer)]) for cut in cuts)

    def codec(self) -> JoinedCodec:
        """Return the codec of its payloads."""
        return JoinedCodec(
            [
                FloatCodec(sum(piece.sizes))
                if piece.exact
                else BlockCodec(np.array(piece.sizes, np.int64), piece.most, piece.level)
                for piece in self.blocks.pieces
            ]
        )

    def send(self, x: jax.Array, known: jax.Array, draws: Draws) -> tuple[Payload, jax.Array]:
        """Return the payload of x - h of each row, float32 [rows, dim], and what it stands for."""
        return send(self.inner, x, known, draws, self.blocks)

    def stream(
        self, x: jax.Array, known: Callable[[], jax.Array], draws: Draws
    ) -> Iterator[tuple[int, Any, jax.Array]]:
        """Yield where each piece begins, its payload, and what that stands for: as `send`, with less memory."""
        for start, inner, blocks in self.streamed:
            yield start, *_send_piece(inner, x, known(), draws, jnp.uint32(start), blocks)

    def read(self, payloads: Iterable[Any]) -> Iterator[tuple[int, jax.Array]]:
        """Yield where each piece begins, and what its payload of one row on the host stands for, [1, length]."""
        for (start, _, blocks), payload in zip(self.streamed, payloads, strict=True):
            yield start, _decode(jax.tree.map(lambda part: jnp.asarray(part[None]), (payload,)), blocks)


def row_of(payload: Payload, row: int = 0) -> Any:
    """Return one row of a payload on the host, as the codec takes it."""
    return jax.tree.map(lambda part: np.asarray(part)[row], payload)


@partial(jax.jit, static_argnames="blocks")
def send(inner: Any, x: jax.Array, known: jax.Array, draws: Draws, blocks: Blocks) -> tuple[Payload, jax.Array]:
    """Do what `WeightQuantizer.send` does, with its `inner` and `blocks`."""
    payload = _quantize(inner, x - known, draws, blocks)
    return payload, _decode(payload, blocks)


@partial(jax.jit, static_argnames="blocks")
def _send_piece(
    inner: Any, x: jax.Array, known: jax.Array, draws: Draws, start: jax.Array, blocks: Blocks
) -> tuple[Any, jax.Array]:
    """Send a piece of whole vectors. Pieces of equal blocks share a program, wherever they are."""
    length = blocks.parts[0].spans[0][1]
    here, there = (lax.dynamic_slice_in_dim(vector, start, length, axis=1) for vector in (x, known))
    payload, decoded = send((inner,), here, there, draws.later(start), blocks)
    return payload[0], decoded


@partial(jax.jit, static_argnames="blocks")
def _decode(payload: Payload, blocks: Blocks) -> jax.Array:
    """A level times a scale of 16 bits is exact, so that adding it rounds once, fused or not."""
    return jnp.concatenate(
        [
            part if isinstance(part, jax.Array) else part.levels.astype(part.scales.dtype) * _spread(part.scales, piece)
            for part, piece in zip(payload, blocks.pieces, strict=True)
        ],
        axis=1,
    )


def _spread(scales: jax.Array, piece: Piece) -> jax.Array:
    """Return the scale of each coordinate; `jnp.repeat` would have XLA compute a table of them for minutes."""
    rows, parts, done = scales.shape[0], [], 0
    for length, same in groupby(piece.sizes):
        count = len(list(same))
        part = jnp.broadcast_to(scales[:, done : done + count, None], (rows, count, length))
        parts.append(part.reshape(rows, count * length))
        done += count
    return jnp.concatenate(parts, axis=1)


def _quantize(inner: Any, vectors: jax.Array, draws: Draws, blocks: Blocks) -> Payload:
    dithered = any(isinstance(each, BlockDither) for each in inner)
    uniform = draws.uniform(vectors.shape[1], vectors.dtype) if dithered else None
    found = [
        _quantize_part(each, _at(vectors, part.spans), draws, uniform, part)
        for each, part in zip(inner, blocks.parts, strict=True)
    ]
    payload: list[BlockPayload | jax.Array] = []
    for piece in blocks.pieces:
        whole, inside = found[piece.part], slice(*piece.span)
        if isinstance(whole, BlockPayload):
            levels = whole.levels[:, inside].astype(piece.level)
            payload.append(BlockPayload(levels, whole.scales[:, slice(*piece.blocks)]))
        else:
            payload.append(whole[:, inside])
    return tuple(payload)


def _quantize_part(
    inner: Any, vectors: jax.Array, draws: Draws, uniform: jax.Array | None, part: Part
) -> BlockPayload | jax.Array:
    """Quantize all coordinates with one quantizer, in a program for each length of blocks."""
    if isinstance(inner, Exact):
        return vectors
    rows = vectors.shape[0]
    drawn = _at(uniform, part.spans) if uniform is not None and isinstance(inner, BlockDither) else None
    levels: dict[int, jax.Array] = {}
    scales: dict[int, jax.Array] = {}
    for group in part.groups:
        cut = _cut(vectors, group)
        found = inner.quantize(cut, inner.measure(cut), draws if drawn is None else Given(_cut(drawn, group)))
        whole, fitted = found.levels.astype(part.level).reshape(rows, -1), found.scales.reshape(rows, -1)
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


class Stream(NamedTuple):
    """A piece as a vector of its own: where it begins, its quantizer, and its blocks."""

    start: int
    inner: Any
    blocks: Blocks


def _stream(cut: Cut, inner: Any) -> Stream:
    alone = cut._replace(start=0)
    return Stream(cut.start, inner, Blocks((_part(cut.quantizer, [alone]),), tuple(_pieces([alone], [cut.quantizer]))))


def _part(kind: BlockSpelling, cuts: Sequence[Cut]) -> Part:
    spans: list[Span] = []
    for cut in cuts:
        if spans and spans[-1][1] == cut.start:
            spans[-1] = spans[-1][0], cut.stop
        else:
            spans.append((cut.start, cut.stop))
    sizes = [size for cut in cuts for size in cut.blocks]
    return Part(tuple(spans), _groups(sizes), level_type(_most(kind, sizes)))


def _pieces(cuts: Sequence[Cut], kinds: Sequence[BlockSpelling]) -> Iterable[Piece]:
    """Yield all pieces in the order of the vector."""
    reached = [(0, 0)] * len(kinds)
    for cut in cuts:
        part = kinds.index(cut.quantizer)
        start, first = reached[part]
        reached[part] = stop, last = start + sum(cut.blocks), first + len(cut.blocks)
        sizes, most = tuple(cut.blocks), _most(cut.quantizer, cut.blocks)
        yield Piece(part, (start, stop), (first, last), sizes, most, cut.quantizer.kind == "exact")


def _most(kind: BlockSpelling, sizes: Sequence[int]) -> int:
    """Return the largest level of some blocks."""
    return most_level(kind.amount, max(sizes)) if kind.kind in ("block", "block-dither") else 1


def _groups(sizes: Sequence[int]) -> tuple[Group, ...]:
    """Return the blocks by their length, so that few programs serve a model of many tensors."""
    runs: dict[int, list[tuple[int, int, int]]] = {}
    start, before = 0, None
    for number, length in enumerate(sizes):
        same = runs.setdefault(length, [])
        if before == length:
            same[-1] = (*same[-1][:2], same[-1][2] + 1)
        else:
            same.append((start, number, 1))
        start, before = start + length, length
    return tuple(Group(length, tuple(same)) for length, same in runs.items())


def _at(vectors: jax.Array, spans: Sequence[Span]) -> jax.Array:
    """Return some coordinates of all rows."""
    return jnp.concatenate([vectors[:, start:stop] for start, stop in spans], axis=1)


def _cut(vectors: jax.Array, group: Group) -> jax.Array:
    """Return the blocks of all rows, [rows · blocks, length]."""
    parts = [vectors[:, start : start + count * group.length] for start, _, count in group.runs]
    return jnp.concatenate(parts, axis=1).reshape(-1, group.length)
