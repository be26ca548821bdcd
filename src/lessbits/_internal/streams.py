"""Standard streams that are closed, or that can no longer be written."""

import os
import sys
from typing import TextIO


def open_closed_streams() -> None:
    """Fill the places of standard streams that are closed, of which the next files to be opened would take the numbers.

    Python has None for such a stream. What is printed to standard output then fails, as on a full disk: somebody may
    wait for it. For standard error nobody can be told.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)  # takes the lowest number
            if getattr(sys, name) is None:
                setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115


def discard(stream: TextIO) -> None:
    """Have what is still to be printed go nowhere: the reader has left, or the disk is full.

    Python flushes standard streams once more at exit, and would complain.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
