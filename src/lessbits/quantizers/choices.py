"""Which quantizers a search tries."""

import math

SPACINGS = (5.6, 4.0, 2.8, 2.0, 1.4, 1.0, 0.5)  # of dithering's levels, in standard deviations


def dithers(dim: int) -> list[str]:
    """Return dithering from coarse to fine, subtractive where that has the smaller error.

    >>> dithers(100)
    ['dither:2', 'subtractive:4', 'subtractive:5', 'subtractive:7', 'subtractive:10', 'subtractive:20']
    """
    levels = sorted({max(1, round(math.sqrt(dim) / spacing)) for spacing in SPACINGS})
    return [f"subtractive:{s}" if math.sqrt(dim) / s <= 3 else f"dither:{s}" for s in levels]
