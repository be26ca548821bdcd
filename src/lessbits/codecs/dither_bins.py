"""What a dither that the receiver knows tells about a level.

The level of x is l = ⌊x + ξ⌋, so x is between l - ξ and l + 1 - ξ. The closer this interval is to zero, the more likely
is the level. ξ is known in sixteenths: its bin b = ⌊16ξ⌋ is the upper four bits of the random word that it is made of,
so both ends have the same. In sixteenths too, the distance of the interval from zero is at most

    v = 16·l - b for l > 0,   16·|l| - (15 - b) for l < 0,   0 for l = 0.

A level l in bin b has the distance of -l in bin 15 - b. So levels whose ξ is in the upper half are sent with the other
sign, as though in the mirrored bin, and there is a model for each of the eight lower bins only. All this holds for any
number of bins. With a single one, where ξ is not known, the distance is |l|.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lessbits._internal.randomness import host_bits

BINS = 16  # coarser bins cost more bits: with 8 of them 1 % at a spacing of 4 standard deviations, with these 0.26 %
_TOP = np.uint32(1 << 31)


def bins_of(words: Any, bins: int) -> Any:
    """Return the bin of each ξ from its random word, in NumPy or JAX; `Draws.uniform` reads words as signed numbers."""
    return (words ^ _TOP) >> (33 - bins.bit_length())


def folded(bins: int) -> int:
    """Return how many bins are left if each is joined with its mirror image."""
    return (bins + 1) // 2


def distances(levels: Any, numbers: Any, bins: int) -> Any:
    """Return the distance v of each level from zero, for the bin numbers of their ξ, as int32 in JAX."""
    ends = levels * bins - numbers
    return jnp.maximum(jnp.maximum(ends, 1 - bins - ends), 0)


class Arrangement(NamedTuple):
    """The order in which the levels of a message are sent: by folded bin, and in a bin by coordinate."""

    order: np.ndarray  # the coordinate of each level that is sent
    mirrored: np.ndarray  # whether the level of each coordinate is sent with the other sign
    counts: tuple[int, ...]  # levels in each folded bin

    @classmethod
    def of(cls, low: Any, high: Any, dim: int, bins: int) -> "Arrangement":
        """Take the two words that ξ is drawn from."""
        numbers = bins_of(host_bits(low, high, dim), bins).astype(np.uint8)
        mirrored = numbers >= folded(bins)
        joined = np.minimum(numbers, bins - 1 - numbers)
        counts = np.bincount(joined, minlength=folded(bins))
        return cls(np.argsort(joined, kind="stable"), mirrored, tuple(counts.tolist()))

    def arrange(self, levels: np.ndarray) -> np.ndarray:
        """Return levels of coordinates as they are sent."""
        return np.where(self.mirrored, -levels, levels)[self.order]

    def parts(self, sent: np.ndarray) -> list[np.ndarray]:
        """Return what is sent of each folded bin."""
        ends = list(accumulate(self.counts))
        return [sent[end - count : end] for end, count in zip(ends, self.counts, strict=True)]

    def restore(self, sent: np.ndarray) -> np.ndarray:
        """Return the levels of coordinates."""
        levels = np.empty_like(sent)
        levels[self.order] = sent
        return np.where(self.mirrored, -levels, levels)
