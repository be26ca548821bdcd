"""What commands print: results as text or JSON, progress lines, and error lines."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lessbits._internal.plain_values import plain
from lessbits.errors import printable


def print_message(message: str) -> None:
    """Print a message as one line on standard error, after the name of the program."""
    print("lessbits: " + printable(" ".join(message.split())), file=sys.stderr, flush=True)


def print_line(text: object) -> None:
    """Print a line on standard output; names of files, columns and sites cannot drive the terminal."""
    print(printable(str(text)))


def progress_printer(quiet: bool) -> Callable[[str], None] | None:
    """Return a callback that prints progress lines on standard error; None for a quiet command."""
    return None if quiet else print_message


def json_path(json_file: str | None) -> Path | None:
    """Return the file that --json names; None if the JSON goes to standard output or nowhere."""
    return None if json_file in (None, "-") else Path(str(json_file))


def write_result(result: dict[str, Any], json_file: str | None, print_text: Callable[[], None]) -> None:
    """Write the result as JSON where --json says, and print it as text unless the JSON was printed."""
    content = json.dumps(plain(result), indent=2, allow_nan=False)  # ASCII only, so any terminal can show it
    if json_file == "-":
        print(content)
        return
    if json_file is not None:
        Path(json_file).write_text(content + "\n", encoding="utf-8")
    print_text()
