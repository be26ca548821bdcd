"""Numbers in words: counts of things, and bits with a unit."""


def counted(number: int | float, thing: str) -> str:
    """Return a count of things in words.

    >>> counted(1, "edge"), counted(2.5, "epoch"), counted(1200, "node")
    ('1 edge', '2.5 epochs', '1200 nodes')
    """
    shown = f"{number}" if isinstance(number, int) else f"{number:.4g}"
    return f"{shown} {thing}" if shown == "1" else f"{shown} {thing}s"


def human(bits: float) -> str:
    """Return a number of bits with a unit.

    >>> human(5212000)
    '5.21 Mbit'
    """
    for unit in ("bit", "kbit", "Mbit", "Gbit"):
        if bits < 1000:
            return f"{bits:.3g} {unit}"
        bits /= 1000
    return f"{bits:.3g} Tbit"
