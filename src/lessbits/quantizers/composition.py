"""Two quantizers in sequence: keep k random coordinates, then quantize those."""

import math

import jax

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Draws, Purpose
from lessbits.errors import InputError, check_kind
from lessbits.quantizers.base import Payload, Quantizer
from lessbits.quantizers.fading import Fading
from lessbits.quantizers.rand_k import RandK
from lessbits.quantizers.subtractive import SubtractiveDither


@pytree
class Composition(Quantizer):
    """Choose coordinates with `rand-k` and send their values by another quantizer, as a vector of dimension k.

    Unbiased, with 1 + ω = (1 + ω₁)(1 + ω₂), where ω₂ is that of the second quantizer in dimension k.
    """

    first: RandK
    second: Quantizer

    @property
    def name(self) -> str:
        """The spelling that `make_quantizer` reads."""
        return f"{self.first.name}+{self.second.name}"

    def check(self, dim: int) -> None:
        """k must be at most d, and the second quantizer must take k coordinates."""
        check_kind("the first part of a composition", self.first, RandK, "make one with RandK.make")
        check_kind("the second part of a composition", self.second, Quantizer, "make one with make_quantizer")
        if isinstance(self.second, KEYED):
            raise InputError(f"{self.name} is no composition: the second part cannot be of this kind; take dit-4")
        self.first.check(dim)
        self.second.check(int(self.first.kept))

    def quantize(self, vectors: jax.Array, measure: tuple[()], draws: Draws) -> Payload:
        """Quantize the sparsified vectors; coordinates that are not sent are zeros and stay zeros."""
        sparse = self.first.quantize(vectors, (), draws)
        return self.second.quantize(sparse, self.second.measure(sparse), draws.split(Purpose.COMPOSITION))

    def decode(self, payload: Payload) -> jax.Array:
        """Decode by the second quantizer."""
        return self.second.decode(payload)

    def omega(self, dim: int) -> float:
        """(1 + ω₁)(1 + ω₂) - 1."""
        return (1 + self.first.omega(dim)) * (1 + self.second.omega(int(self.first.kept))) - 1

    def bits(self, dim: int) -> float:
        """The second quantizer's bits for k coordinates, and their positions."""
        return self.second.bits(int(self.first.kept)) + self.first.kept * math.log2(dim)


# These use the same random stream as a composition, so they cannot be its second part.
KEYED = (Composition, Fading, RandK, SubtractiveDither)
