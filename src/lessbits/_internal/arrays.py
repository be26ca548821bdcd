"""Files of named arrays and texts (safetensors): written completely or not at all, and read without running code."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TypeVar

import numpy as np

from lessbits._internal.files import write_whole
from lessbits.errors import InputError

Made = TypeVar("Made")


def write_arrays(path: str | PathLike[str], arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> None:
    """Write a file of named arrays and texts."""
    from safetensors.numpy import save

    content = save({name: np.asarray(array, order="C") for name, array in arrays.items()}, dict(texts))
    write_whole(Path(path), content)


def load_arrays(path: str | PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays and texts of a file; raise LookupError, OSError or ValueError if it is no such file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from None


def read_arrays(
    path: str | PathLike[str], kind: str, make: Callable[[dict[str, np.ndarray], dict[str, str]], Made]
) -> Made:
    """Read a file, and return the object that `make` builds from it; `kind` names what is expected.

    If `make` raises InputError, its message is put after "FILE is".
    """
    try:
        return make(*load_arrays(path))
    except FileNotFoundError:
        raise InputError(f"there is no {kind} {path}") from None
    except InputError as error:
        raise InputError(f"{path} is {error}") from None
    except (OSError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is no {kind}, or a damaged one: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
