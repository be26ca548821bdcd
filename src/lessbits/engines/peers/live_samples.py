"""What the live page is told: the latest snapshot of a site, and a short history of its curves.

One thread takes a snapshot about twice per second, however many pages are open. The history is there for pages that
are opened later, or loaded again. It keeps a bounded number of points: when it is full, every second one is dropped
and only every second of the later snapshots is kept, so that it always reaches from the start of the run to now.
"""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from lessbits._internal.logging import logger
from lessbits._internal.plain_values import plain

SECONDS = 0.5  # between two snapshots
MOST_POINTS = 400  # of the history; an even number


class Samples:
    """Takes snapshots in a thread of its own, until `close`, and hands them to those who wait.

    Args:
        snapshot: Returns how the site stands. One that fails is logged once, and left out.
    """

    def __init__(self, snapshot: Callable[[], Mapping[str, Any]]) -> None:
        self.snapshot = snapshot
        self.changed = threading.Condition()
        self.closing = threading.Event()
        self.number, self.text = 0, ""  # how many different snapshots there were, and the latest as JSON
        self.points: list[dict[str, Any]] = []
        self.stride, self.skipped, self.failed = 1, 0, False
        self.take()
        self.thread = threading.Thread(target=self._run, name="lessbits-live-samples", daemon=True)
        self.thread.start()

    def take(self) -> None:
        """Take a snapshot now. If it is a new one, wake those who wait."""
        try:
            found = plain(dict(self.snapshot()))
            text = json.dumps(found, allow_nan=False)
        except Exception as error:  # a page that shows a run must never end it
            if not self.failed:
                self.failed = True
                logger.warning(f"the live page gets no snapshot of the site ({type(error).__name__}: {error})")
            return
        with self.changed:
            if text == self.text:
                return
            self.number, self.text = self.number + 1, text
            self._keep(_point(found))
            self.changed.notify_all()

    def wait_beyond(self, number: int, seconds: float) -> tuple[int, str | None]:
        """Return the latest snapshot and its number, once it is later than `number`; None if none comes in time."""
        with self.changed:
            self.changed.wait_for(lambda: self.number > number or self.closing.is_set(), seconds)
            return self.number, self.text if self.number > number else None

    def history(self) -> tuple[int, str]:
        """Return the points that are kept as JSON, and the number of the latest snapshot before them."""
        with self.changed:
            return max(0, self.number - 1), json.dumps(self.points)

    def close(self) -> None:
        """Take a last snapshot, so that pages show how the site ended, and end the thread."""
        if not self.closing.is_set():
            self.take()
            self.closing.set()
            with self.changed:
                self.changed.notify_all()
            self.thread.join()

    def _run(self) -> None:
        while not self.closing.wait(SECONDS):
            self.take()

    def _keep(self, point: dict[str, Any]) -> None:
        self.skipped += 1
        if self.skipped < self.stride:
            return
        self.skipped = 0
        self.points.append(point)
        if len(self.points) == MOST_POINTS:
            self.points = self.points[1::2]  # the latest stays
            self.stride *= 2


def _point(found: dict[str, Any]) -> dict[str, Any]:
    """Return what the curves of the page need of a snapshot."""
    links = [one for one in found.get("neighbours") or [] if isinstance(one, dict)]
    return {
        **{name: found.get(name) for name in ("seconds", "estimate", "loss")},
        "links": {str(one.get("site")): [one.get("sent_bytes"), one.get("received_bytes")] for one in links},
    }
