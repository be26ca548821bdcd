"""Numbers in words: counts of things, bits with a unit, and values that were given."""

from typing import Any


def counted(number: int | float, thing: str) -> str:
    """Return a count of things in words.

    >>> counted(1, "edge"), counted(2.5, "epoch"), counted(1200, "node")
    ('1 edge', '2.5 epochs', '1200 nodes')
    """
    shown = f"{number}" if isinstance(number, int) else f"{number:.4g}"
    return f"{shown} {thing}" if shown == "1" else f"{shown} {thing}s"


def human(bits: float, spread: float | None = None) -> str:
    """Return a number of bits with a unit, and with its spread if there is one.

    >>> human(5212000), human(5212000, 40000)
    ('5.21 Mbit', '5.21 ± 0.04 Mbit')
    """
    unit, factor = next(
        (
            (unit, 1000**power)
            for power, unit in enumerate(("bit", "kbit", "Mbit", "Gbit"))
            if bits < 1000 ** (power + 1)
        ),
        ("Tbit", 1000**4),
    )
    return f"{mean_and_spread(bits / factor, None if spread is None else spread / factor, '{:.3g}')} {unit}"


def mean_and_spread(mean: float, spread: float | None, shape: str) -> str:
    """Return a mean with its spread, both in the same shape; the mean alone if there is no spread.

    >>> mean_and_spread(1234.5, None, "{:,.0f}"), mean_and_spread(12.3, 0.456, "{:.2g}")
    ('1,234', '12 ± 0.5')
    """
    if spread is None:
        return shape.format(mean)
    return f"{shape.format(mean)} ± {spread:,.0f}" if shape.endswith("0f}") else f"{shape.format(mean)} ± {spread:.1g}"


def value_in_words(given: Any) -> str:
    """Return a value for a message, cut short.

    >>> value_in_words(0.5), value_in_words(16**5000)
    ('0.5', 'a value too long to show')
    """
    try:
        text = f"{given:g}" if isinstance(given, float) else repr(given)
    except (ValueError, RecursionError):  # a number of more digits than Python writes, as hexadecimal ones can have
        return "a value too long to show"
    return text if len(text) <= 60 else f"{text[:57]}..."
