"""Vectors cut into blocks that have a scale each: what senders, receivers and codecs must agree on, without JAX."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lessbits.errors import InputError

BLOCK = 4096  # coordinates that share a scale
LEAST_SPACING, MOST_SPACING = 2.0**-6, 64.0  # Δ in root mean squares of a block
SMALLEST_SCALE = 1e-34  # a smaller scale becomes zero
MOST_LEVEL = 2**16 + 16  # that the codec can send: 16 bits for what is beyond 17


class BlockPayload(NamedTuple):
    """Integer levels of each coordinate, and the number that a level of 1 stands for in each block."""

    levels: Any  # int8 or int16 [..., dim]
    scales: Any  # 16 bits of a float32 in the working precision [..., blocks]


def block_sizes(sizes: Sequence[int], block: int | None = BLOCK) -> np.ndarray:
    """Return the lengths of the blocks of tensors of these sizes; no block has coordinates of two tensors.

    >>> block_sizes([10, 3], block=4).tolist()
    [4, 4, 2, 3]
    """
    if block is None:
        return np.array([size for size in sizes if size], np.int64)
    return np.array([min(block, size - start) for size in sizes for start in range(0, size, block)], np.int64)


def most_level(spacing: float, longest: int) -> int:
    """Return the largest level: no coordinate is above √d times the root mean square of its d coordinates."""
    most = int(np.ceil(np.sqrt(longest) / spacing)) + 1
    if most > MOST_LEVEL:
        raise InputError(
            f"with Δ = {spacing:g} and one scale for {longest} numbers, levels go up to {most}, but the largest that "
            f"is sent is {MOST_LEVEL}: choose a larger Δ, or shorter blocks"
        )
    return most


def level_type(most: int) -> str:
    """Return the type of levels up to `most`."""
    return "int8" if most < 2**7 else "int16" if most < 2**15 else "int32"
