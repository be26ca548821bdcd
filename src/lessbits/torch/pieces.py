"""A model's vector in pieces of whole blocks, which are quantized and encoded one after the other.

What is computed of one piece is gone before the next, so that an exchange needs little memory besides what a node
keeps. Blocks do not know of each other, so that pieces change no number. A piece has one quantizer: with a mapping
from names of tensors, several.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch

from lessbits._internal.blocks import block_sizes
from lessbits.codecs.base import Codec
from lessbits.codecs.joined import JoinedCodec
from lessbits.errors import InputError, shown
from lessbits.torch.quantizers import WeightQuantizer, make_weight_quantizer
from lessbits.training.noise import noise_of

MOST_COORDINATES = 2**22  # of a piece: 16 MB as float32

Spelling = str | Mapping[str, str]


class Piece(NamedTuple):
    """Some blocks that follow each other, and how they are sent."""

    part: slice
    quantizer: WeightQuantizer
    codec: Codec

    def add(self, target: torch.Tensor, payload: Any, factor: float = 1.0) -> None:
        """Add a decoded message times a factor to these coordinates of a whole vector."""
        self.quantizer.add(target[self.part], payload, factor)


class Pieces:
    """The pieces of a model, in order.

    Args:
        spelling: A quantizer for all tensors, or a mapping from patterns of names, such as `*.norm*`, to quantizers.
            The first pattern that fits a name counts.
        names: The names of the tensors.
        sizes: How long they are.
        most: The most coordinates of a piece.
    """

    def __init__(
        self, spelling: Spelling, names: Sequence[str], sizes: Sequence[int], most: int = MOST_COORDINATES
    ) -> None:
        chosen = _chosen(spelling, names)
        self.name = _canonical(spelling)
        self.noisiest = max((make_weight_quantizer(each, [1]).name for each in set(chosen)), key=noise_of)
        self.size = sum(sizes)
        self.most = most
        self.pieces: list[Piece] = []
        start = 0
        for quantizer, blocks in _groups(chosen, sizes, most):
            made = make_weight_quantizer(quantizer, blocks, first=start)
            self.pieces.append(Piece(slice(start, start + made.dim), made, made.codec()))
            start += made.dim
        self.codec = JoinedCodec([piece.codec for piece in self.pieces])

    def __iter__(self) -> Iterator[Piece]:
        """Yield them in order."""
        return iter(self.pieces)

    def parts(self) -> Iterator[slice]:
        """Yield slices of the vector that are no longer than a piece, for work on each coordinate alone."""
        for start in range(0, self.size, self.most):
            yield slice(start, min(start + self.most, self.size))


def _groups(chosen: Sequence[str], sizes: Sequence[int], most: int) -> Iterator[tuple[str, list[int]]]:
    """Yield blocks that follow each other and have the same quantizer, with so many coordinates at most."""
    quantizer, total = "", 0
    blocks: list[int] = []
    for name, size in zip(chosen, sizes, strict=True):
        for block in block_sizes([size]).tolist():
            if blocks and (name != quantizer or total + block > most):
                yield quantizer, blocks
                blocks, total = [], 0
            quantizer = name
            blocks.append(block)
            total += block
    if blocks:
        yield quantizer, blocks


def _chosen(spelling: Any, names: Sequence[str]) -> list[str]:
    """Return the quantizer of each tensor."""
    if not isinstance(spelling, Mapping):
        return [spelling] * len(names)
    chosen, used = [], set()
    for name in names:
        pattern = next((pattern for pattern in spelling if fnmatchcase(name, str(pattern))), None)
        if pattern is None:
            raise InputError(f"no pattern of the quantizer fits {name!r}: add for example '*': 'block:1.0' at the end")
        used.add(pattern)
        chosen.append(spelling[pattern])
    for pattern, quantizer in spelling.items():
        make_weight_quantizer(quantizer, [1])
        if pattern not in used:
            raise InputError(
                f"the quantizer has {shown(pattern)}, but it is the first fit of no tensor: names are such as "
                f"{names[0]!r}"
            )
    return chosen


def _canonical(spelling: Any) -> str:
    """Return the quantizer in words, to be compared between nodes."""
    if not isinstance(spelling, Mapping):
        return make_weight_quantizer(spelling, [1]).name
    return " ".join(f"{pattern}→{make_weight_quantizer(each, [1]).name}" for pattern, each in spelling.items())
