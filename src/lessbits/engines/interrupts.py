"""Handling of Ctrl-C, SIGTERM and SIGHUP: the run saves its state and ends at the next check."""

import signal
import threading
from collections.abc import Callable
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
    """Handles signals in a `with` block: the first one asks the run to end, a second one raises `KeyboardInterrupt`.

    Attributes:
        stop: A function that may ask as well: signals reach the main thread alone.
    """

    def __init__(self, stop: Callable[[], bool] | None = None) -> None:
        self.stop, self.signalled = stop, False
        self.previous_handlers: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether the run was asked to end."""
        return self.signalled or (self.stop is not None and bool(self.stop()))

    def __enter__(self) -> Self:
        """Install the handlers if this is the main thread; Python allows it nowhere else."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if _gives_way(signal.getsignal(number)):
                    self.previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signalled:
            raise KeyboardInterrupt
        self.signalled = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous handlers."""
        for number, handler in self.previous_handlers.items():
            signal.signal(number, handler)


def _gives_way(handler: Any) -> bool:
    """Return whether a signal handler may be replaced during a run; those of other code, and ignored signals, may not.

    The handler of asyncio, and that of a notebook for cells with `await`, ask the event loop to cancel its task. The
    loop waits for a run that a coroutine calls, and would learn of it only after the last iteration.
    """
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    function = getattr(handler, "func", handler)  # asyncio installs a partial
    return (getattr(function, "__module__", None) or "").partition(".")[0] in ("asyncio", "ipykernel")
