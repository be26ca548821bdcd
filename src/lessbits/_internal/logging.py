"""The logger of the library, and how the command line shows what it is told.

There is no NullHandler: a program that has not set up logging is still to see, by Python's handler of last resort, that
a checkpoint could not be written.
"""

import logging
import sys

logger = logging.getLogger("lessbits")


class StandardError(logging.Handler):
    """Prints messages on standard error, with the name of the program before them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message; `extra={"speaker": …}` puts another name before it."""
        speaker = getattr(record, "speaker", "lessbits")
        # Not a StreamHandler: standard error may be another stream when the message comes.
        print(f"{speaker}: {self.format(record)}", file=sys.stderr, flush=True)


def show_messages() -> None:
    """Show warnings and what is going on, on standard error: for the command line, which calls it once or more."""
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, StandardError) for handler in logger.handlers):
        logger.addHandler(StandardError())
