"""The noise that a quantizer adds to a difference of models, for the rule that chooses step sizes."""

import math

from lessbits._internal.block_spelling import BLOCK_KINDS, read_blocks
from lessbits._internal.blocks import BLOCK
from lessbits.errors import InputError, shown

LEVELS = 200  # multiples of Δ that are looked at; larger ones are never sent


def noise_of(quantizer: str) -> float:
    """Return the mean square of what a message gets wrong over that of what it tells, for normal numbers.

    Scales that fit in least squares make messages projections, and this is below one. Dithering with wide spacing can
    be above one: then memories do not follow models at all.

    >>> [round(noise_of(name), 3) for name in ("exact", "block:1", "block:1.5", "block-dither:1", "block-top:64")]
    [0.0, 0.077, 0.158, 0.167, 0.882]
    """
    if quantizer == "exact":
        return 0.0
    if quantizer.partition(":")[0] not in BLOCK_KINDS:
        raise InputError(f"the quantizer is {shown(quantizer)}, whose noise is not known")
    kind, amount, block = read_blocks(quantizer)
    if kind == "block-top":
        return _largest(amount / (block or BLOCK))
    return _rounded(amount) if kind == "block" else _dithered(amount)


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _above(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2


def _projected(along: float, weight: float) -> float:
    """Return the error of levels l with E v·l and E l², and the scale that fits best."""
    return 1 - along * along / weight


def _rounded(spacing: float) -> float:
    edges = [(level - 0.5) * spacing for level in range(1, LEVELS)]
    along = 2 * sum(map(_density, edges))  # levels rise by one at each edge
    weight = 2 * sum((2 * level - 1) * _above(edge) for level, edge in enumerate(edges, 1))
    return _projected(along, weight)


def _dithered(spacing: float) -> float:
    """E f(1 - f) Δ², where f is the fraction of |v|/Δ; found with 4000 quantiles of |v|."""
    total, count = 0.0, 4000
    for number in range(count):
        value = (number + 0.5) / count * 6
        share = value / spacing % 1
        total += share * (1 - share) * 2 * _density(value) * 6 / count
    return total * spacing * spacing


def _largest(share: float) -> float:
    """Signs of a share of all, the largest."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 2 * _above(middle) > share else (low, middle)
    return _projected(2 * _density(low), share)
