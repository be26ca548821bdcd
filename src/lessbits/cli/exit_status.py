"""Exit statuses, and the line that an error prints."""

import sys
from typing import NamedTuple

import typer

from lessbits._internal.streams import discard
from lessbits._internal.wording import in_plain_words
from lessbits.cli.output import print_message
from lessbits.engines.distributed.launch import end_all_ranks, rank_number
from lessbits.errors import InputError, mistake_line

MISTAKE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
READER_LEFT = 141  # 128 + SIGPIPE


class Exit(NamedTuple):
    """How the process ends."""

    status: int
    line: str | None = None  # for standard error


def explain(error: BaseException) -> Exit | None:
    """Map an error to the exit status and the line for the user; None for a bug, which shows its traceback."""
    match error:
        case InputError():
            return Exit(MISTAKE, str(error))
        case KeyboardInterrupt() | typer.Abort():  # which of the two depends on the version of typer
            return Exit(INTERRUPTED)
        case SystemExit():
            # rich exits by itself when the reader of its output is gone.
            reader_left = isinstance(error.__context__, BrokenPipeError)
            return Exit(READER_LEFT if reader_left else _as_status(error.code))
        case BrokenPipeError():
            return Exit(READER_LEFT)
    if (line := mistake_line(error)) is not None:
        return Exit(MISTAKE, line)
    if hasattr(error, "format_message"):
        # A usage error of the option parser. Its class has two homes, click and typer, so test for what they share.
        command = getattr(getattr(error, "ctx", None), "command_path", "lessbits")
        return Exit(MISTAKE, f"{in_plain_words(error.format_message())} (see {command} --help)")
    return None


def report_error(error: BaseException, ending: Exit) -> None:
    """Print the line of an error, and leave the process in a state in which it can exit."""
    if ending.status == MISTAKE and mistake_line(error) is not None and rank_number() is not None:
        end_all_ranks(error)  # the other ranks would wait for this one
    try:
        sys.stdout.flush()
    except OSError:
        discard(sys.stdout)
    if ending.line is not None:
        print_message(ending.line)


def leave(status: object) -> None:
    """Exit with the status that a command returned; None, or anything that is no number, is success."""
    code = _as_status(status)
    if code == INTERRUPTED and rank_number() is None:  # ranks leave the line to the process that started them
        print_message("interrupted")
    sys.exit(code)


def _as_status(value: object) -> int:
    return value if isinstance(value, int) else 0
