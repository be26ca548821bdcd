"""Sums with the order of addition, and random numbers with the addresses, that `lessbits` has elsewhere.

With them, levels and scales are those of the quantizers written in JAX, bit for bit on a CPU.
"""

import torch

FOLDED = 8  # parts of a row that are added in one sweep
GOLDEN, FIRST_MULTIPLIER, SECOND_MULTIPLIER = 0x9E3779B9, 0x7FEB352D, 0x846CA68B
WORD = 0xFFFFFFFF


def sum_pairwise(array: torch.Tensor) -> torch.Tensor:
    """Sum over the last axis: add the second half to the first until one slice is left."""
    while (length := array.shape[-1]) > 1:
        half = length // 2
        added = array[..., :half] + array[..., half : 2 * half]
        array = added if length % 2 == 0 else torch.cat([added, array[..., 2 * half :]], dim=-1)
    return array[..., 0]


def squared_norms(vectors: torch.Tensor) -> torch.Tensor:
    """Return the squared 2-norm of each row."""
    fold = vectors.shape[-1] // FOLDED
    squares = vectors * vectors
    rest = squares[..., FOLDED * fold :]
    if not fold:
        return sum_pairwise(rest)
    one, two, three, four, five, six, seven, eight = squares[..., : FOLDED * fold].split(fold, dim=-1)
    added = ((one + two) + (three + four)) + ((five + six) + (seven + eight))
    return sum_pairwise(torch.cat([added, rest], dim=-1))


def norms(vectors: torch.Tensor) -> torch.Tensor:
    """Return the 2-norm of each row, without overflow from 1e-30 to 1e30."""
    result = torch.sqrt(squared_norms(vectors))
    if bool(((result > 2.0**-20) & (result <= 2.0**50)).all()):
        return result
    large = 2.0**50 * torch.sqrt(squared_norms(vectors * 2.0**-50))
    small = 2.0**-50 * torch.sqrt(squared_norms(vectors * 2.0**50))
    return torch.where(large > 2.0**50, large, torch.where(result > 2.0**-20, result, small))


def short_scale(numbers: torch.Tensor, smallest: float) -> torch.Tensor:
    """Round up to the first 16 bits of a float32; what is below `smallest` becomes zero."""
    words = numbers.view(torch.int32)
    short = ((words + 0xFFFF) & -0x10000).view(torch.float32)
    return torch.where(numbers < smallest, torch.zeros_like(short), short)


def _mix(value: int, key: int = 0) -> int:
    value = (value ^ (value >> 16)) * FIRST_MULTIPLIER & WORD ^ key
    value = (value ^ (value >> 15)) * SECOND_MULTIPLIER & WORD
    return value ^ (value >> 16)


def stream_words(seed: int, iteration: int, number: int, purpose: int) -> tuple[int, int]:
    """Return the two words of a node's or a link's random numbers in one exchange."""
    low_seed, high_seed = seed & WORD, seed >> 32 & WORD
    base = _mix((low_seed + purpose * GOLDEN) & WORD, high_seed)
    base = _mix((base + iteration * GOLDEN) & WORD, high_seed)
    return _mix((base + number * GOLDEN) & WORD, base), _mix(base ^ FIRST_MULTIPLIER, number)


def uniform(words: tuple[int, int], count: int, device: torch.device, first: int = 0) -> torch.Tensor:
    """Return float32 numbers strictly between 0 and 1, one for each coordinate from `first` on."""
    low, high = words
    value = torch.arange(count, dtype=torch.int32, device=device)  # 32 bits, as products wrap around
    value.mul_(_signed(GOLDEN)).add_(_signed((low + first * GOLDEN) & WORD))
    value.bitwise_xor_((value >> 16) & 0xFFFF).mul_(_signed(FIRST_MULTIPLIER)).bitwise_xor_(_signed(high))
    value.bitwise_xor_((value >> 15) & 0x1FFFF).mul_(_signed(SECOND_MULTIPLIER))
    value.bitwise_xor_((value >> 16) & 0xFFFF)
    return (value >> 9).to(torch.float32).mul_(2.0**-23).add_(0.5 + 2.0**-24)


def _signed(word: int) -> int:
    """Return the number of 32 bits with a sign that has the same bits."""
    return word - 2**32 if word >= 2**31 else word
