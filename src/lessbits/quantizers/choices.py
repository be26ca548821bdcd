"""Which quantizers a search tries."""

import math

SPACINGS = (5.6, 4.0, 3.3, 2.8, 2.0, 1.4, 1.0, 0.5)  # of dithering's levels, in standard deviations


def dithers(dim: int) -> list[str]:
    """Return subtractive dithering from coarse to fine, and first the coarsest that is not subtractive.

    Of Gaussian vectors subtractive dithering has the smaller error and, as the receiver knows the dither, fewer bits.
    Coordinates that are zero or nearly so have no error with the other.

    >>> dithers(100)[:4]
    ['dither:2', 'subtractive:2', 'subtractive:3', 'subtractive:4']
    """
    levels = sorted({max(1, round(math.sqrt(dim) / spacing)) for spacing in SPACINGS})
    return [f"dither:{levels[0]}", *(f"subtractive:{count}" for count in levels)]
