"""What commands print: results as text or JSON, progress lines, and error lines."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lessbits._internal.files import write_whole
from lessbits._internal.plain_values import plain
from lessbits._internal.streams import discard
from lessbits.errors import InputError, printable


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


class Outputs:
    """The files of a command: each is written even if another cannot be, and the result is printed."""

    def __init__(self) -> None:
        self.failures: list[str] = []  # one sentence for each file that could not be written

    def write(self, file: Path, write: Callable[[Path], None]) -> bool:
        """Call `write` with the file, and return whether that worked."""
        try:
            write(file)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and error.filename is None:
                raise  # the reader of standard output has left, as head does
            self.failures.append(f"{error.filename or file} could not be written ({error.strerror or error})")
            return False
        return True

    def end(self) -> None:
        """Raise an `InputError` about all files that could not be written."""
        if self.failures:
            raise InputError("; ".join(self.failures))


def write_result(
    result: dict[str, Any], json_file: str | None, print_text: Callable[[], None], outputs: Outputs | None = None
) -> None:
    """Write the result as JSON where --json says, and print it as text unless the JSON was printed.

    What could not be written is raised after the text is printed, or left to `outputs`.
    """
    written = outputs or Outputs()
    content = json.dumps(plain(result), indent=2, allow_nan=False)  # ASCII only, so any terminal can show it
    if json_file not in (None, "-"):
        written.write(Path(str(json_file)), lambda file: write_whole(file, content + "\n"))

    def show(_: Path) -> None:
        try:
            print(content) if json_file == "-" else print_text()
            sys.stdout.flush()
        except OSError:
            discard(sys.stdout)
            raise

    written.write(Path("standard output"), show)
    if outputs is None:
        written.end()
