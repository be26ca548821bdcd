"""Which codec a quantizer's payloads have."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from lessbits._internal.blocks import block_sizes, most_level
from lessbits.codecs.base import Codec
from lessbits.codecs.block import BlockCodec
from lessbits.codecs.composition import CompositionCodec
from lessbits.codecs.dither_bins import BINS
from lessbits.codecs.entropy import EntropyLevels
from lessbits.codecs.fading import FadingCodec
from lessbits.codecs.levels import FixedLevels, NaturalCodec, SubtractiveCodec
from lessbits.codecs.values import RandKCodec, RawCodec, TopKCodec, payload_row
from lessbits.errors import InputError, check_function, check_name, shown
from lessbits.quantizers import (
    Block,
    BlockDither,
    BlockTop,
    Composition,
    Compressor,
    Dither,
    Exact,
    Fading,
    Float32,
    Grid,
    Natural,
    RandK,
    Scaled,
    ScaledSign,
    SubtractiveDither,
    Ternary,
    TopK,
    make_quantizer,
)
from lessbits.quantizers.contractions import SignPayload
from lessbits.quantizers.dither import DitherPayload
from lessbits.quantizers.grid import MOST_LEVEL, GridPayload

CODES = ("entropy", "fixed")

Factory = Callable[[Any, int, str, np.dtype], Codec]


def make_codec(compressor: str | Compressor, dim: int, code: str = "entropy", dtype: Any = np.float64) -> Codec:
    """Return the codec for a compressor's payloads of vectors of dimension `dim` in precision `dtype`.

    `code` is `entropy` or `fixed` (a fixed width for each level); it matters where levels are sent. A compressor that
    no codec was registered for sends its payload as it is.

    >>> from lessbits.quantizers.dither import DitherPayload
    >>> from lessbits import make_quantizer
    >>> codec = make_codec(make_quantizer("dit-4", dim=6), dim=6)
    >>> message = codec.encode(DitherPayload(np.array([0, 2, 0, -1, 0, 0], np.int8), np.float64(1.5)))
    >>> len(message), codec.decode(message).levels.tolist()
    (5, [0, 2, 0, -1, 0, 0])
    """
    compressor = make_quantizer(compressor, dim)
    check_name("code", code, CODES)
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        raise InputError(f"codecs were asked for {shown(dtype)}, but vectors are float32 or float64") from None
    if dtype not in (np.float32, np.float64):
        raise InputError(f"codecs were asked for {dtype}, but vectors are float32 or float64")
    factory = _FACTORIES.get(type(compressor), _raw)
    return factory(compressor, dim, code, dtype)


def make_codecs(compressors: Sequence[Compressor], lengths: Sequence[int], code: str) -> tuple[Codec, ...]:
    """Return a codec for each message of an outbox, of these lengths, in JAX's precision."""
    kind = np.dtype(jnp.result_type(float))
    messages = zip(compressors, lengths, strict=True)
    return tuple(make_codec(compressor, length, code, kind) for compressor, length in messages)


def register_codec(compressor: type[Compressor], factory: Factory) -> None:
    """Set the codec of a quantizer of your own: `factory(compressor, dim, code, dtype)` returns it."""
    if not (isinstance(compressor, type) and issubclass(compressor, Compressor)):
        raise InputError(f"the compressor is {shown(compressor)}, but it must be a class of quantizers")
    check_function("what makes a codec", factory, "a quantizer, the dimension, the code and the dtype")
    _FACTORIES[compressor] = factory


def _raw(compressor: Compressor, dim: int, code: str, dtype: np.dtype) -> Codec:
    return RawCodec(payload_row(compressor, dim, dtype))


def _dither(compressor: Dither, dim: int, code: str, dtype: np.dtype) -> Codec:
    fixed = FixedLevels(DitherPayload, int(compressor.level_count), dim, compressor.level_type, dtype)
    return fixed if code == "fixed" else EntropyLevels(fixed, "norm" if fixed.most > 1 else "signs")


def _signs(payload: type, dim: int, code: str, dtype: np.dtype) -> Codec:
    fixed = FixedLevels(payload, 1, dim, "int8", dtype)
    return fixed if code == "fixed" else EntropyLevels(fixed, "signs")


def _subtractive(compressor: SubtractiveDither, dim: int, code: str, dtype: np.dtype) -> Codec:
    fixed = FixedLevels(DitherPayload, int(compressor.level_count), dim, compressor.level_type, dtype)
    return SubtractiveCodec(fixed if code == "fixed" else EntropyLevels(fixed, "norm", BINS))


def _grid(compressor: Grid, dim: int, code: str, dtype: np.dtype) -> Codec:
    fixed = FixedLevels(GridPayload, MOST_LEVEL, dim, "int32", dtype)
    return fixed if code == "fixed" else EntropyLevels(fixed, "widths")


def _fading(compressor: Fading, dim: int, code: str, dtype: np.dtype) -> Codec:
    fixed = FixedLevels(GridPayload, MOST_LEVEL, dim, "int32", dtype)
    return FadingCodec(compressor, fixed if code == "fixed" else EntropyLevels(fixed, "widths", BINS), dtype)


def _compose(compressor: Composition, dim: int, code: str, dtype: np.dtype) -> Codec:
    kept = int(compressor.first.kept)
    row = payload_row(compressor.second, dim, dtype)
    return CompositionCodec(dim, kept, row, make_codec(compressor.second, kept, code, dtype))


def _block(compressor: Block | BlockDither, dim: int, code: str, dtype: np.dtype) -> Codec:
    sizes = block_sizes([dim], compressor.block)
    return BlockCodec(sizes, most_level(float(compressor.spacing), int(sizes[0])), compressor.kind, dtype)


_FACTORIES: dict[type[Compressor], Factory] = {
    Exact: _raw,
    Float32: _raw,
    Dither: _dither,
    SubtractiveDither: _subtractive,
    Grid: _grid,
    Fading: _fading,
    Composition: _compose,
    Block: _block,
    BlockDither: _block,
    BlockTop: lambda compressor, dim, code, dtype: BlockCodec(block_sizes([dim], compressor.block), 1, "int8", dtype),
    Ternary: lambda compressor, *rest: _signs(DitherPayload, *rest),
    ScaledSign: lambda compressor, *rest: _signs(SignPayload, *rest),
    Natural: lambda compressor, dim, code, dtype: NaturalCodec(dim),
    RandK: lambda compressor, dim, code, dtype: RandKCodec(dim, int(compressor.kept), dtype),
    TopK: lambda compressor, dim, code, dtype: TopKCodec(dim, compressor.kept, dtype),
    Scaled: lambda compressor, *rest: make_codec(compressor.quantizer, *rest),
}
