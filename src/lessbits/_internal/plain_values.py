"""Conversion of values to what JSON can hold."""

import math
from typing import Any


def plain(value: Any) -> Any:
    """Return the value as JSON can hold it: NumPy numbers become Python numbers, NaN and infinity become None.

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
