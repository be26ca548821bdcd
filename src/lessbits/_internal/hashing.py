"""Fingerprints of values: equal for equal values, and different if any number in them changes."""

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import numpy as np


def fingerprint(*values: Any) -> str:
    """Return 16 hexadecimal digits for dataclasses, pytrees, arrays, numbers and strings.

    >>> fingerprint(1.0, "a") == fingerprint(1.0, "a") != fingerprint(1.0, "b")
    True
    """
    digest = hashlib.sha256()
    for value in values:
        _add(digest, value)
    return digest.hexdigest()[:16]


def _add(digest: Any, value: Any) -> None:
    size = len(value) if isinstance(value, dict | tuple | list) else 0
    digest.update(f"{type(value).__name__} {size} ".encode())
    if isinstance(value, np.ndarray | jax.Array | np.generic):
        array = np.ascontiguousarray(np.asarray(value))
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    elif is_dataclass(value):
        for entry in fields(value):
            _add(digest, entry.name)
            _add(digest, getattr(value, entry.name))
    elif isinstance(value, dict):
        for name, entry in sorted(value.items()):
            _add(digest, name)
            _add(digest, entry)
    elif isinstance(value, tuple | list):
        for entry in value:
            _add(digest, entry)
    else:
        digest.update(repr(value).encode())
