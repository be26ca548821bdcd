"""The event loop of a training process, in a thread of its own."""

import asyncio
import threading

_LOCK = threading.Lock()
_LOOPS: list[asyncio.AbstractEventLoop] = []


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process; gRPC wants one, even if several sites are threads of it."""
    with _LOCK:
        if not _LOOPS:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="lessbits links", daemon=True).start()
            _LOOPS.append(loop)
        return _LOOPS[0]
