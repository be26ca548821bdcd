"""Handling of Ctrl-C, SIGTERM and SIGHUP: the run saves its state and ends at the next check."""

import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from lessbits.engines.recording.trace import Trace


# SIGHUP is sent when the terminal is closed; it does not exist on Windows.
SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


class Interrupted(KeyboardInterrupt):
    """A run was interrupted.

    Attributes:
        trace: The records up to the interrupt.
    """

    def __init__(self, trace: "Trace") -> None:
        super().__init__(trace.message)
        self.trace = trace


class Interrupts:
    """Handles signals in a `with` block: the first one sets `asked`, a second one raises `KeyboardInterrupt`."""

    def __init__(self) -> None:
        self.asked = False
        self.previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers if this is the main thread; Python allows it nowhere else."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # Handlers of other code, and ignored signals, are not replaced.
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    self.previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous handlers."""
        for number, handler in self.previous_handlers.items():
            signal.signal(number, handler)
