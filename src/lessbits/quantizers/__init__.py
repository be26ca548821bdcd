"""Quantizers and other compressors, and the spellings that `make_quantizer` reads."""

import difflib
import re
from collections.abc import Callable

from lessbits._internal.block_spelling import BLOCK_KINDS, read_blocks
from lessbits.errors import InputError, check_function, check_kind, check_whole, shown
from lessbits.quantizers.base import LARGEST_DIM, Compressor, Contraction, Quantizer
from lessbits.quantizers.block import Block, BlockDither, BlockTop, make_blocks
from lessbits.quantizers.composition import KEYED, Composition
from lessbits.quantizers.contractions import Scaled, ScaledSign, TopK
from lessbits.quantizers.dither import Dither
from lessbits.quantizers.exact import Exact
from lessbits.quantizers.fading import Fading
from lessbits.quantizers.float32 import Float32
from lessbits.quantizers.grid import Grid
from lessbits.quantizers.natural import Natural
from lessbits.quantizers.rand_k import RandK
from lessbits.quantizers.subtractive import SubtractiveDither
from lessbits.quantizers.ternary import Ternary

__all__ = [
    "Block",
    "BlockDither",
    "BlockTop",
    "Composition",
    "Compressor",
    "Contraction",
    "Dither",
    "Exact",
    "Fading",
    "Float32",
    "Grid",
    "Natural",
    "Quantizer",
    "RandK",
    "Scaled",
    "ScaledSign",
    "SubtractiveDither",
    "Ternary",
    "TopK",
    "make_quantizer",
    "register_quantizer",
]

# Spellings without a number, and prefixes of spellings with one: NAME-K or NAME:K.
_PLAIN: dict[str, Callable[[], Compressor]] = {
    "exact": Exact,
    "float32": Float32,
    "ternary": Ternary,
    "natural": Natural,
    "sign": ScaledSign,
}
_NUMBERED: dict[str, Callable[[int], Compressor]] = {
    "rand-": RandK.make,
    "dit-": lambda k: Dither.make(_levels(k)),
    "dither:": Dither.make,
    "subtractive:": SubtractiveDither.make,
    "grid:": Grid.make,
    "top-": TopK.make,
}
_BLOCKS = tuple(f"{kind}:" for kind in BLOCK_KINDS)
_BUILT_IN = frozenset((*_PLAIN, *_NUMBERED, *_BLOCKS))


def register_quantizer(spelling: str, make: Callable[..., Compressor]) -> None:
    """Add a quantizer of your own: `NAME` for one without a number, `NAME-` or `NAME:` for one with.

    >>> register_quantizer("halved-", lambda k: RandK.make(max(1, k // 2)))
    >>> make_quantizer("halved-10", dim=20).name
    'rand-5'
    """
    if not isinstance(spelling, str) or not spelling.strip("-:"):
        raise InputError(f"the spelling is {shown(spelling)}, but it must be a text such as 'mine' or 'mine-'")
    if spelling in _BUILT_IN:
        raise InputError(f"there is a quantizer {spelling!r} already: choose another name")
    check_function("what makes a quantizer", make, "its number, or of nothing")
    if spelling.endswith(("-", ":")):
        _NUMBERED[spelling] = make
    else:
        _PLAIN[spelling] = make


def make_quantizer(spelling: str | Compressor, dim: int) -> Compressor:
    """Read the spelling of a compressor for vectors of dimension `dim`, or check one that is made already.

    Unbiased: `exact`, `float32`, `rand-50`, `dit-4`, `dither:12`, `subtractive:12`, `ternary`, `natural`,
    `rand-50+dit-4`, `fading:1:0.95`, `block-dither:1`. Biased: `top-10`, `sign`, `grid:10`, `scaled-dit-4`, `block:1`,
    `block-top:64`; blocks may have another length than 4096, as in `block:1:1024`, or be the vector, `block:1:tensor`.

    >>> make_quantizer("dit-4", dim=250).omega(250)
    1.976423537605237
    """
    dim = check_whole("dim", dim, 1, LARGEST_DIM)
    if not isinstance(spelling, str | Compressor):
        raise InputError(f"the quantizer is {shown(spelling)}, but it must be a name such as 'dit-4', or a quantizer")
    quantizer = spelling if isinstance(spelling, Compressor) else _read(spelling, dim)
    check_kind(f"what was registered as {shown(spelling)}", quantizer, Compressor, "return one where it is made")
    quantizer.check(dim)
    return quantizer


def _read(spelling: str, dim: int) -> Compressor:
    if spelling.startswith("scaled-"):
        unscaled = spelling.removeprefix("scaled-")
        if unscaled.startswith("scaled-"):
            raise InputError(f"{spelling[:60]!r} scales what is scaled, and biased already: name an unbiased quantizer")
        inner = _read(unscaled, dim)
        if not isinstance(inner, Quantizer):
            raise InputError(f"{spelling!r} scales {inner.name}, which is biased already: name an unbiased quantizer")
        inner.check(dim)
        return Scaled.make(inner, dim)
    if "+" in spelling:
        if spelling.count("+") > 1:
            raise InputError(
                f"{spelling[:60]!r} is no composition of two: write rand-K+QUANTIZER, such as rand-50+dit-4"
            )
        first, second = (_read(part, dim) for part in spelling.split("+"))
        if not isinstance(first, RandK) or not isinstance(second, Quantizer) or isinstance(second, KEYED):
            raise InputError(f"{spelling!r} is no composition: write rand-K+QUANTIZER, such as rand-50+dit-4")
        return Composition(first, second)
    if spelling in _PLAIN:
        return _PLAIN[spelling]()
    if (named := f"{spelling.partition(':')[0]}:") in _WITH_DECIMALS:
        return _WITH_DECIMALS[named](spelling, dim)
    match = re.fullmatch(r"(.*?[-:])(-?\d{1,18})", spelling)
    if match and match[1] in _NUMBERED:
        return _NUMBERED[match[1]](int(match[2]))
    raise _unknown(spelling)


def _fading(spelling: str, dim: int) -> Fading:
    try:
        spacing, factor = map(float, spelling.split(":")[1:])
    except ValueError:
        raise InputError(
            f"{spelling!r} is not fading:SPACING:FACTOR: write the first spacing and by what it shrinks, "
            "such as fading:1:0.95"
        ) from None
    return Fading.make(spacing, factor)


def _blocks(spelling: str, dim: int) -> Compressor:
    return make_blocks(read_blocks(spelling), dim)


_WITH_DECIMALS: dict[str, Callable[[str, int], Compressor]] = {"fading:": _fading} | dict.fromkeys(_BLOCKS, _blocks)


def _unknown(spelling: str) -> InputError:
    spellings = [
        *_PLAIN,
        *(f"{prefix}K" for prefix in (*_NUMBERED, *_BLOCKS)),
        "rand-K+dit-K",
        "fading:SPACING:FACTOR",
        "scaled-dit-K",
    ]
    # Compare with K in place of numbers, so that dot-4 is found to be close to dit-K.
    shape = re.sub(r"\d+", "K", spelling)
    if shape in spellings:
        return InputError(
            f"quantizer {spelling!r} needs one whole number of at most 18 digits in place of K: "
            f"choose one of {', '.join(spellings)}"
        )
    nearest = difflib.get_close_matches(shape, spellings, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return InputError(f"unknown quantizer {spelling!r}: {hint}choose one of {', '.join(spellings)}")


def _levels(k: int) -> int:
    if not 1 <= k <= 23:
        raise InputError(f"dit-{k} was given, but k must be from 1 to 23: dit-K dithers with 2^(K-1) levels")
    return 2 ** (k - 1)
