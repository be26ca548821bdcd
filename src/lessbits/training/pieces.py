"""Which tensor is sent with which quantizer, and a model's vector in pieces of whole blocks.

Both libraries cut models alike, so that their messages have the same bytes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from lessbits._internal.block_spelling import BLOCK_KINDS, BlockSpelling, read_blocks
from lessbits._internal.blocks import block_sizes
from lessbits.errors import InputError, shown
from lessbits.training.noise import noise_of

MOST_COORDINATES = 2**19  # of a piece: 2 MB as float32

Spelling = str | Mapping[str, str]
EXACT = BlockSpelling("exact")


def parts(size: int, most: int = MOST_COORDINATES) -> Iterator[slice]:
    """Yield slices of a vector with so many coordinates at most, for work on each coordinate alone."""
    for start in range(0, size, most):
        yield slice(start, min(start + most, size))


class Cut(NamedTuple):
    """Blocks that follow each other and have one quantizer, from a coordinate of the model's vector on."""

    start: int
    quantizer: BlockSpelling
    blocks: list[int]

    @property
    def stop(self) -> int:
        """Where the next piece begins."""
        return self.start + sum(self.blocks)


class Chosen(NamedTuple):
    """The quantizer of each tensor, and all of them in words, to be compared between nodes."""

    quantizers: list[BlockSpelling]
    name: str

    @property
    def noisiest(self) -> str:
        """The one with the most noise, for which the rule is chosen."""
        return max((each.name for each in dict.fromkeys(self.quantizers)), key=noise_of)

    def cuts(self, sizes: Sequence[int], most: int = MOST_COORDINATES) -> Iterator[Cut]:
        """Yield the pieces of tensors of these sizes, with so many coordinates at most unless a block is longer."""
        start, total = 0, 0
        before, blocks = EXACT, list[int]()
        for quantizer, size in zip(self.quantizers, sizes, strict=True):
            for block in block_sizes([size], quantizer.block).tolist():
                if blocks and (quantizer != before or total + block > most):
                    yield Cut(start, before, blocks)
                    start, total, blocks = start + total, 0, []
                before = quantizer
                blocks.append(block)
                total += block
        if blocks:
            yield Cut(start, before, blocks)


def read_weights(spelling: Any) -> BlockSpelling:
    """Read `block:1.0`, `block-dither:1.0`, `block-top:64`, each with `:N` or `:tensor` behind, or `exact`."""
    if spelling == "exact":
        return EXACT
    if isinstance(spelling, str) and spelling.partition(":")[0] in BLOCK_KINDS:
        return read_blocks(spelling)
    raise InputError(
        f"the quantizer is {str(spelling)[:60]!r}, but models are sent with block:Δ, block-dither:Δ, block-top:K or "
        "exact: write for example 'block:1.0'"
    )


def choose_quantizers(spelling: Spelling, names: Sequence[str], exact: Collection[str] = ()) -> Chosen:
    """Return the quantizer of each tensor.

    `spelling` is one for all, or a mapping from patterns of names, such as `*.norm*`, to quantizers, of which the
    first that fits a name counts. Those in `exact` are sent as they are, and need no pattern.
    """
    if not isinstance(spelling, Mapping):
        read = read_weights(spelling)
        return Chosen([EXACT if name in exact else read for name in names], read.name)
    quantizers = {pattern: read_weights(each) for pattern, each in spelling.items()}
    fits = [_first_fit(spelling, name) if name not in exact else "" for name in names]
    for pattern in spelling:
        if pattern not in fits and not any(fnmatchcase(name, str(pattern)) for name in exact):
            raise InputError(
                f"the quantizer has {shown(pattern)}, but it is the first fit of no tensor: names are such as "
                f"{names[0]!r}"
            )
    words = " ".join(f"{pattern}→{quantizer.name}" for pattern, quantizer in quantizers.items())
    rounded = zip(names, fits, strict=True)
    return Chosen([EXACT if name in exact else quantizers[pattern] for name, pattern in rounded], words)


def _first_fit(patterns: Mapping[str, str], name: str) -> str:
    for pattern in patterns:
        if fnmatchcase(name, str(pattern)):
            return pattern
    raise InputError(f"no pattern of the quantizer fits {name!r}: add for example '*': 'block:1.0' at the end")
