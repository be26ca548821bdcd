"""A model's vector in pieces of whole blocks, which are quantized and encoded one after the other.

What is computed of one piece is gone before the next, so that an exchange needs little memory besides what a node
keeps. Blocks do not know of each other, so that pieces change no number. A piece has one quantizer: with a mapping
from names of tensors, several.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from lessbits.codecs.base import Codec
from lessbits.codecs.joined import JoinedCodec
from lessbits.torch.quantizers import WeightQuantizer, weight_quantizer
from lessbits.training.pieces import MOST_COORDINATES, Spelling, choose_quantizers, parts

MOST_AT_ONCE = 2**17  # coordinates of a part: several vectors of that length are made of each


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
        exact: The names of those that are sent as they are, whatever the spelling.
        most: The most coordinates of a piece.
    """

    def __init__(
        self,
        spelling: Spelling,
        names: Sequence[str],
        sizes: Sequence[int],
        exact: Collection[str] = (),
        most: int = MOST_COORDINATES,
    ) -> None:
        chosen = choose_quantizers(spelling, names, exact)
        self.name, self.noisiest = chosen.name, chosen.noisiest
        self.size = sum(sizes)
        self.most = most
        self.pieces: list[Piece] = []
        for cut in chosen.cuts(sizes, most):
            made = weight_quantizer(cut.quantizer, cut.blocks, cut.start)
            self.pieces.append(Piece(slice(cut.start, cut.stop), made, made.codec()))
        self.codec = JoinedCodec([piece.codec for piece in self.pieces])

    def __iter__(self) -> Iterator[Piece]:
        """Yield them in order."""
        return iter(self.pieces)

    def parts(self) -> Iterator[slice]:
        """Yield slices of the vector that are no longer than a piece, for work on each coordinate alone."""
        return parts(self.size, min(self.most, MOST_AT_ONCE))
