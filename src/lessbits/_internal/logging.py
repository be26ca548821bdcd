"""The logger of the library, and the handler that shows its messages on the command line.

There is no NullHandler. So a program that has not set up logging still sees warnings, such as that a checkpoint could
not be written, through Python's handler of last resort.
"""

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from lessbits.errors import printable

logger = logging.getLogger("lessbits")
slow_logger = logger.getChild("slow")  # what takes long

SLOW = 3.0  # seconds after which work that shows nothing else says what it does
AGAIN = 30.0  # seconds until it says so again
_said: dict[str, float] = {}  # when each line was last said


@lru_cache(maxsize=100)
def warn_once(text: str) -> None:
    """Log a warning about data, unless the same one was logged before: a comparison loads its data many times."""
    logger.warning(text)


class StandardError(logging.Handler):
    """Handler that prints messages on standard error, prefixed with the name of the program."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message; `extra={"speaker": …}` sets another prefix."""
        speaker = getattr(record, "speaker", "lessbits")
        # Not a StreamHandler, because sys.stderr may be replaced before the message is printed.
        print(printable(f"{speaker}: {self.format(record)}", keep="\n"), file=sys.stderr, flush=True)


def show_messages() -> None:
    """Show warnings and progress on standard error. The command line calls it, possibly more than once."""
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, StandardError) for handler in logger.handlers):
        logger.addHandler(StandardError())


def hide_slow_steps() -> None:
    """Say nothing about steps that take long."""
    slow_logger.setLevel(logging.ERROR)


@contextmanager
def say_if_slow(what: str) -> Iterator[None]:
    """Say what is being done if it takes more than three seconds, from a thread: for work that cannot say so itself.

    Many short steps in a row, such as the runs of a comparison, say the same thing once in thirty seconds.
    """
    timer = threading.Timer(SLOW, _say_now_and_then, (f"{what} …",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say_now_and_then(text: str) -> None:
    now = time.monotonic()
    if now - _said.get(text, -AGAIN) >= AGAIN:
        _said[text] = now
        slow_logger.warning(text)


class SlowStep:
    """Says what is being done if it takes more than three seconds, and then every thirty. It never stops the work."""

    def __init__(self, what: str) -> None:
        self.what, self.due = what, time.monotonic() + SLOW

    def say(self, state: str) -> None:
        """Log how far the work is, if a line is due."""
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + AGAIN
            slow_logger.warning(f"{self.what} ({state})")
