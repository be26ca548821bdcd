"""How the process of a command ends after Ctrl-C."""

import _thread
import os
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from lessbits._internal.programs import publish_compiled
from lessbits.cli.exit_status import INTERRUPTED

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SOON = 0.05  # seconds after which a lost interrupt is repeated


def repeat_lost_interrupt(lost: "UnraisableHookArgs") -> None:
    """Interrupt again soon if Ctrl-C came where Python cannot raise; report any other error as usual.

    JAX has a callback of the garbage collector. An interrupt that arrives there is printed and forgotten.
    """
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    again = threading.Timer(SOON, _thread.interrupt_main)
    again.daemon = True
    again.start()


def leave_at_once() -> NoReturn:
    """End the process without tearing down the interpreter, which may crash if XLA was interrupted in its work."""
    if threading.active_count() == 1:  # else another thread may be writing a program
        publish_compiled()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(INTERRUPTED)
