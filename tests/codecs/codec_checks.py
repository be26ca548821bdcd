"""Payloads to try codecs on, and what must come back."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.blocks import BlockPayload
from lessbits._internal.randomness import Purpose, Step, draws, host_bits, make_seed
from lessbits.codecs import make_codec
from lessbits.codecs.values import Pattern
from lessbits.quantizers import make_quantizer
from lessbits.quantizers.contractions import SignPayload
from lessbits.quantizers.dither import DitherPayload
from lessbits.quantizers.rand_k import coprime_strides
from lessbits.quantizers.subtractive import SubtractivePayload

ROWS = 5
BLOCKS = ("block:0.25", "block:0.5:16", "block:0.25:tensor", "block-top:3:16")


def vectors(dim):
    """A noise vector, zero, a single spike, a heavy tail and equal magnitudes."""
    generator = np.random.default_rng(dim)
    made = np.zeros((ROWS, dim))
    made[0] = generator.normal(size=dim)
    made[2, dim // 2] = -3
    made[3] = generator.standard_t(1.5, size=dim)
    made[4] = np.where(np.arange(dim) % 2, -0.7, 0.7)
    return made


@cache
def _payloads(spellings, dim, dtype):
    compressors = [make_quantizer(spelling, dim) for spelling in spellings]
    codecs = [make_codec(compressor, dim, dtype=dtype) for compressor in compressors]

    @jax.jit
    def quantize(given):
        draw = draws(Step(make_seed(dim), jnp.int32(7)), jnp.arange(ROWS), Purpose.DUAL)
        payloads = [each.quantize(given, each.measure(given), draw) for each in compressors]
        return [(payload, codec.keys(draw)) for payload, codec in zip(payloads, codecs, strict=True)]

    return dict(zip(spellings, quantize(np.asarray(vectors(dim), dtype)), strict=True))


def quantized(spelling, dim, code="entropy", dtype=np.float64, among=None):
    """The codec, a stacked payload as JAX arrays, and rows of (payload, key) as NumPy arrays.

    `among` are spellings to compile in one go, which is quicker.
    """
    codec = make_codec(make_quantizer(spelling, dim), dim, code, dtype)
    payload, keys = _payloads(tuple(among or [spelling]), dim, dtype)[spelling]
    stacked = jax.tree.map(np.asarray, payload)
    rows = [
        (jax.tree.map(lambda leaf, row=row: leaf[row], stacked), None if keys is None else np.asarray(keys)[row])
        for row in range(ROWS)
    ]
    return codec, payload, rows


def assert_same(left, right):
    """Two payloads have the same structure, types, shapes and bits."""
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()


def dithered(vector, levels, generator):
    """The payload of dithering with s levels, made with NumPy."""
    if not vector.any():
        return DitherPayload(np.zeros(vector.shape, _level_type(levels)), np.float64(0))
    norm = short(np.linalg.norm(vector))
    rounded = np.floor(vector * (levels / norm) + generator.random(vector.shape))
    return DitherPayload(np.clip(rounded, -levels, levels).astype(_level_type(levels)), norm)


def subtracted(vector, levels, key):
    """The payload of subtractive dithering with s levels, made with NumPy from the two words of the dither."""
    dither = (host_bits(*key, vector.size) ^ np.uint32(1 << 31)) / 2.0**32 + 2.0**-33
    norm = short(np.linalg.norm(vector))
    rounded = np.clip(np.floor(vector * (levels / norm) + dither), -levels, levels)
    return SubtractivePayload(rounded.astype(_level_type(levels)), norm, *key)


def short(number):
    """The next number that has 16 bits as float32."""
    words = np.array([number], np.float32).view(np.uint32)
    return ((words & 0xFFFF0000) + 0x10000).astype(np.uint32).view(np.float32).astype(np.float64)[0]


def _level_type(levels):
    return next(kind for kind in (np.int8, np.int16, np.int32) if levels <= np.iinfo(kind).max)


def entropy_bytes(levels):
    """The empirical entropy of all levels of a vector, in bytes."""
    _, counts = np.unique(levels, return_counts=True)
    return -(counts * np.log2(counts / levels.size)).sum() / 8


def made_key(dim):
    """A stride and a shift of rand-k."""
    return np.array([coprime_strides(dim)[-1], dim - 1], np.uint32)


def made_payloads(dim, kept=1):
    """Rows such as quantizers make, by spelling; made with NumPy, as compiling takes longer than coding."""
    generator = np.random.default_rng(dim)
    chosen = np.isin(np.arange(dim), Pattern(dim, kept).positions(made_key(dim)))
    made = {}
    for vector in vectors(dim):
        signs = np.sign(vector).astype(np.int8)
        sparse = np.where(chosen, vector, 0)
        row = {
            "exact": vector,
            "float32": vector.astype(np.float32),
            "natural": _natural(vector, generator),
            "ternary": DitherPayload(signs, np.float64(0.5)),
            "sign": SignPayload(signs, np.float64(0.25)),
            "subtractive:8": SubtractivePayload(*dithered(vector, 8, generator), *made_key(dim)),
            f"rand-{kept}": sparse,
            f"top-{kept}": sparse,
            f"rand-{kept}+natural": _natural(sparse, generator),
            f"rand-{kept}+dit-4": dithered(sparse, 8, generator),
        }
        row |= {spelling: _blocks(vector, spelling) for spelling in BLOCKS}
        row |= {f"dither:{levels}": dithered(vector, levels, generator) for levels in (1, 2, 7, 8, 130, 2**20)}
        for spelling, payload in row.items():
            made.setdefault(spelling, []).append(payload)
    return made


def _blocks(vector, spelling):
    """Levels and scales by block, made with NumPy."""
    quantizer = make_quantizer(spelling, vector.size)
    starts = np.arange(0, vector.size, quantizer.block or vector.size)
    scales = np.array([short(np.abs(part).max() / 2) if part.any() else 0.0 for part in np.split(vector, starts[1:])])
    with np.errstate(invalid="ignore", divide="ignore"):
        levels = np.nan_to_num(vector / scales.repeat(np.diff([*starts, vector.size])))
    rounded = np.sign(vector) if spelling.startswith("block-top") else np.rint(levels)
    return BlockPayload(rounded.astype(getattr(quantizer, "kind", "int8")), scales)


def _natural(vector, generator):
    return (np.sign(vector) * generator.integers(0, 256, vector.shape)).astype(np.int16)
