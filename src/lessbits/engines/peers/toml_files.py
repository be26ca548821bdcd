"""Reading the TOML files of sites, which people write: every mistake is one line that names the file and the place."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lessbits.errors import InputError, check_name, shown

LARGEST_FILE = 1_000_000  # bytes; a roster of 1000 sites with ten links each has about 120 000
LARGEST_PORT = 65_535
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.%\w]+\]|[\w.-]+):(\d{1,5})", re.ASCII)


def read_table(path: Path, kind: str, version: str) -> dict[str, Any]:
    """Return what is in a TOML file, without its key `format`. Raise InputError if it is another kind of file.

    Args:
        path: The file.
        kind: What it is, for messages, such as "roster".
        version: The format that it must have.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"the {kind} {path} is no file: name a TOML file")
    try:
        with open(path, "rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"the {kind} {path} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_FILE:
        raise InputError(f"the {kind} {path} has more than {LARGEST_FILE} bytes, the most that are read: name another")
    try:
        table = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # also a number of 5000 digits, and 5000 brackets
        raise InputError(f"the {kind} {path} is no TOML: {error}") from None
    if (given := table.pop("format", None)) != version:
        has = "no format" if given is None else f"the format {shown(given)}"
        raise InputError(f"the {kind} {path} has {has}, but this version of lessbits reads format = {version!r}")
    return table


def check_keys(table: dict[str, Any], allowed: Iterable[str], where: str, hints: dict[str, str] | None = None) -> None:
    """Raise InputError for the first key that is not allowed.

    Args:
        table: What is checked.
        allowed: The keys that it may have.
        where: What it is, for messages.
        hints: For some other keys, what is to be said instead of the nearest name.
    """
    allowed = tuple(allowed)
    for name in table:
        if hints and name in hints:
            raise InputError(f"{where} has the key {name!r}: {hints[name]}")
        if name not in allowed:
            check_name(f"key of {where}:", name, allowed)


def check_text(given: Any, what: str, most: int = 255) -> str:
    """Return `given` if it is a text of one line that is not empty, else raise InputError."""
    if not isinstance(given, str) or not given.strip() or len(given) > most or not given.isprintable():
        raise InputError(f"{what} is {shown(given)}, but it must be a text of one line, with 1 to {most} characters")
    return given


def split_address(given: Any, what: str) -> tuple[str, int]:
    """Return host and port of an address such as "berlin.example:7443" or "[::1]:7443", else raise InputError."""
    match = _ADDRESS.fullmatch(given) if isinstance(given, str) and len(given) <= 300 else None
    if match is None or not 1 <= int(match[2]) <= LARGEST_PORT:
        raise InputError(
            f"{what} is {shown(given)}, but it must be a host and a port from 1 to {LARGEST_PORT}, such as "
            "'berlin.example:7443' or '[2001:db8::7]:7443'"
        )
    return match[1], int(match[2])
