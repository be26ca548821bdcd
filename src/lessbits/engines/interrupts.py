"""Ctrl-C, SIGTERM and SIGHUP as a wish to stop: a run ends at its next look, with everything saved."""

import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from lessbits.engines.recording.trace import Trace


# A closed terminal is a wish to stop too; there is none on Windows.
SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


class Interrupted(KeyboardInterrupt):
    """A run was asked to stop; `trace` is what it had recorded."""

    def __init__(self, trace: "Trace") -> None:
        super().__init__(trace.message)
        self.trace = trace


class Interrupts:
    """Remembers that somebody asked to stop; who asks twice is heard at once."""

    def __init__(self) -> None:
        self.asked = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Listen, where Python allows it: in the main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # Somebody else's handler, or a deaf ear, stays.
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    self.before[number] = signal.signal(number, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more."""
        for number, handler in self.before.items():
            signal.signal(number, handler)
