"""An exchange of frames that is under way while a model is trained."""

import atexit
import sys
import threading
from collections.abc import Mapping

from lessbits.training.links import EndedError, Links

END_SECONDS = 60.0  # for which a process that ends waits for messages under way: MPI must not end before them


class Flight:
    """Frames that travel in a thread of their own."""

    def __init__(self, links: Links, frames: Mapping[int, bytes]) -> None:
        self.received: dict[int, bytes] = {}
        self.error: BaseException | None = None

        def carry() -> None:
            try:
                self.received = links.exchange(frames)
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=carry, name="lessbits exchange", daemon=True)
        links.under_way = self.thread
        self.thread.start()
        atexit.register(self._wait)

    def _wait(self) -> None:
        self.thread.join(END_SECONDS)
        if isinstance(self.error, EndedError):  # nobody takes the messages of this flight
            print(f"lessbits: {self.error}", file=sys.stderr, flush=True)

    def land(self) -> dict[int, bytes]:
        """Wait, and return the frames of neighbours, or raise what went wrong."""
        self.thread.join()
        atexit.unregister(self._wait)
        if self.error is not None:
            raise self.error
        return self.received
