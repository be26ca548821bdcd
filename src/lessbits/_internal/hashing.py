"""Fingerprints of values: equal for equal values, and different if any number in them changes."""

import hashlib
import inspect
import re
import sys
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in memory, which differs from process to process


def fingerprint(*values: Any) -> str:
    """Return 16 hexadecimal digits for dataclasses, pytrees, arrays, numbers, strings and functions.

    They are the same in every process. Of a function its code counts, its defaults and its closure.

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
    if _is_array(value):
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
        _add_code(digest, value)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array. JAX is not loaded for that: where nobody has, there are no arrays of it."""
    jax = sys.modules.get("jax")
    return isinstance(value, np.ndarray | np.generic) or (jax is not None and isinstance(value, jax.Array))


def _add_code(digest: Any, value: Any) -> None:
    """Add a function, the parts of its code, or any other value as it is printed."""
    match value:
        case CodeType():
            _add(digest, (value.co_code, value.co_names, value.co_consts))
        case frozenset():
            _add(digest, sorted(map(repr, value)))  # their order depends on the process
        case partial():
            _add(digest, (value.func, value.args, value.keywords))
        case _ if callable(value) and not isinstance(value, type):
            _add_function(digest, value)
        case _:
            digest.update(_ADDRESS.sub("", repr(value)).encode())


def _add_function(digest: Any, function: Any) -> None:
    """Add code, defaults and closure; of functions in the closure the code only, as they may refer to each other."""
    function = inspect.unwrap(function)
    _add(digest, (getattr(function, "__qualname__", type(function).__name__), code_of(function)))
    _add(digest, [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)])
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # empty
            held = cell.cell_contents
            _add(digest, code_of(inspect.unwrap(held)) if callable(held) else held)


def code_of(function: Any) -> CodeType | None:
    """Return the code of a function; None if it has none of its own, as an object that can be called."""
    return getattr(function, "__code__", None)
