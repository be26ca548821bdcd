"""Values as files can hold them."""

import math
import os
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """Return the value as JSON can hold it: NumPy's numbers as Python's, NaN and infinity as null.

    >>> plain({"best": (1, float("nan"))})
    {'best': [1, None]}
    """
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def counted(number: int | float, thing: str) -> str:
    """Write a number of things.

    >>> counted(1, "edge"), counted(2.5, "epoch"), counted(1200, "node")
    ('1 edge', '2.5 epochs', '1200 nodes')
    """
    shown = f"{number}" if isinstance(number, int) else f"{number:.4g}"
    return f"{shown} {thing}" if shown == "1" else f"{shown} {thing}s"


def human(bits: float) -> str:
    """Write a number of bits with a unit.

    >>> human(5212000)
    '5.21 Mbit'
    """
    for unit in ("bit", "kbit", "Mbit", "Gbit"):
        if bits < 1000:
            return f"{bits:.3g} {unit}"
        bits /= 1000
    return f"{bits:.3g} Tbit"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file complete or not at all, and on the disk before it has its name."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # two processes may write the same file
    try:
        with partial.open("wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
