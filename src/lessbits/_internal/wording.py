"""Numbers in words: counts of things, bits with a unit, and values that were given."""


def counted(number: int | float, thing: str) -> str:
    """Return a count of things in words.

    >>> counted(1, "edge"), counted(2.5, "epoch"), counted(1200, "node")
    ('1 edge', '2.5 epochs', '1200 nodes')
    """
    shown = f"{number}" if isinstance(number, int) else f"{number:.4g}"
    return f"{shown} {thing}" if shown == "1" else f"{shown} {thing}s"


def human(bits: float, spread: float | None = None) -> str:
    """Return a number of bits with a unit, and with its spread if there is one.

    >>> human(5212000), human(5212000, 40000), human(976, 104), human(999.9)
    ('5.21 Mbit', '5.21 ± 0.04 Mbit', '976 ± 100 bit', '1 kbit')
    """
    units = ("bit", "kbit", "Mbit", "Gbit", "Tbit")
    # 999.9 bit is 1 kbit, since three digits are shown.
    power = next((power for power in range(len(units)) if bits < 999.5 * 1000**power), len(units) - 1)
    factor = 1000**power
    shown = significant(bits / factor, 3)
    shown += "" if spread is None else f" ± {significant(spread / factor, 2)}"
    return f"{shown} {units[power]}"


def shortened(text: str, most: int = 30) -> str:
    """Return a text that has room in a figure.

    >>> shortened("node 3: leave"), shortened("node Universitätsspital: leave", 12)
    ('node 3: leave', 'node Univer…')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def mean_and_spread(mean: float, spread: float | None, shape: str) -> str:
    """Return a mean with its spread; the mean alone if there is no spread.

    >>> mean_and_spread(1234.5, None, "{:,.0f}"), mean_and_spread(12.3, 0.456, "{:.2g}")
    ('1,234', '12 ± 0.46')
    """
    if spread is None:
        return shape.format(mean)
    whole = shape.endswith("0f}")
    return f"{shape.format(mean)} ± {f'{spread:,.0f}' if whole else significant(spread, 2)}"


def significant(number: float, digits: int) -> str:
    """Return a number rounded to this many significant digits. Large ones are never in scientific notation.

    >>> significant(104, 2), significant(27.4, 2), significant(0.0456, 2), significant(3.14e-9, 2)
    ('100', '27', '0.046', '3.1e-09')
    """
    return f"{float(f'{number:.{digits - 1}e}'):.15g}"


# What pydantic and typer say, and what we say.
PLAIN = {
    "Value error, ": "",
    "Input should be": "it must be",
    "String should": "it must",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "a valid integer, unable to parse string as an integer": "a whole number",
    "a valid integer": "a whole number",
    "a valid number, unable to parse string as a number": "a number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "a text",
}


def in_plain_words(message: str) -> str:
    """Return what a library says of a wrong value in the words of our own messages.

    >>> in_plain_words("Input should be a valid integer, unable to parse string as an integer")
    'it must be a whole number'
    """
    for theirs, ours in PLAIN.items():
        message = message.replace(theirs, ours)
    return message
