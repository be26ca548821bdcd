"""Files of named arrays and texts (safetensors): written completely or not at all, and read without running code."""

import hashlib
import json
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from lessbits._internal.files import write_whole
from lessbits._internal.logging import logger
from lessbits.errors import InputError

CHECKSUM = "checksum"  # the name of the text
Made = TypeVar("Made")


def write_arrays(path: str | PathLike[str], arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> None:
    """Write a file of named arrays and texts, with a checksum of them all."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    texts = {name: text for name, text in texts.items() if name != CHECKSUM}  # of a file that was read
    write_whole(path, save(arrays, {**texts, CHECKSUM: checksum(arrays, texts)}))


def checksum(arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> str:
    """Return a number that changes if anything in a file does."""
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(json.dumps([name, texts[name]]).encode())
    for name in sorted(arrays):
        digest.update(json.dumps([name, str(arrays[name].dtype), arrays[name].shape]).encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def load_arrays(path: str | PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays and texts of a file; raise LookupError, OSError or ValueError if it is damaged or no such file.

    A file of a version that had no checksum has no text of that name.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            texts = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    rest = {name: text for name, text in texts.items() if name != CHECKSUM}
    if CHECKSUM in texts and texts[CHECKSUM] != checksum(arrays, rest):
        raise ValueError("its checksum does not fit")
    return arrays, texts


def read_arrays(
    path: str | PathLike[str], kind: str, make: Callable[[dict[str, np.ndarray], dict[str, str]], Made]
) -> Made:
    """Read a file, and return the object that `make` builds from it; `kind` names what is expected.

    If `make` raises InputError, its message is put after "FILE is".
    """
    try:
        arrays, texts = load_arrays(path)
        made = make(arrays, texts)
    except FileNotFoundError:
        raise InputError(f"there is no {kind} {path}") from None
    except InputError as error:
        raise InputError(f"{path} is {error}") from None
    except (OSError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is no {kind}, or a damaged one: {first_line(error)}") from None
    if CHECKSUM not in texts:
        logger.warning(f"{path} is of an earlier version, without a checksum, so damage cannot be seen: save it again")
    return made


def check_format(texts: Mapping[str, str], given: Any, kind: str, formats: tuple[str, str]) -> None:
    """Raise an `InputError` if a file has neither the format of now nor the one before, which had no checksum."""
    now, before = formats
    if given not in formats:
        raise InputError(
            f"no {kind} of this version: its format is {given!r}, not {now!r}; make it again, or load it with the "
            "version of lessbits that wrote it"
        )
    if (given == before) == (CHECKSUM in texts):
        raise ValueError("its format and its checksum do not fit")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
