"""How long a site waits for a neighbour: measured from that neighbour's own past, not guessed."""

import statistics
import time
from collections import deque
from collections.abc import Callable

BEAT = 1.0  # seconds between two signs of life
FACTOR = 20  # a neighbour is waited for as long as so many of its usual pauses
KEPT = 50  # pauses that are remembered
FLOOR = 10.0  # seconds that every neighbour is waited for: machines compile, swap and are suspended


class Patience:
    """When a neighbour was heard, how long its pauses were, and when to give it up.

    Two things are timed: the pauses between any two packets, which a process that is stopped or cut off does not send,
    and how long the neighbour says that it has been computing. A neighbour that waits for others gives signs of life,
    and is waited for.

    Args:
        floor: Seconds that it is waited for at least.
        clock: Returns the time in seconds.
    """

    def __init__(self, floor: float = FLOOR, clock: Callable[[], float] = time.monotonic) -> None:
        self.floor, self.clock = floor, clock
        self.heard_at = clock()
        self.pauses: deque[float] = deque(maxlen=KEPT)
        self.tasks: deque[float] = deque(maxlen=KEPT)  # seconds of computing, of past iterations
        self.busy = 0.0  # seconds that it has been computing, as it said last

    def heard(self, busy: float | None = None) -> None:
        """Note a packet; `busy` is what a sign of life says, None for any other packet."""
        now = self.clock()
        self.pauses.append(now - self.heard_at)
        self.heard_at = now
        if busy is None or busy < self.busy:  # the task that it was busy with has ended
            if self.busy:
                self.tasks.append(self.busy)
            self.busy = 0.0
        if busy:
            self.busy = busy

    def restart(self) -> None:
        """Begin anew when a connection is made: the time without one is no pause of the neighbour.

        What it was busy with when it was given up counts as a task, so that it is waited for longer the next time.
        """
        if self.busy:
            self.tasks.append(self.busy)
        self.heard_at, self.busy = self.clock(), 0.0

    @property
    def silent(self) -> float:
        """Seconds since the last packet."""
        return self.clock() - self.heard_at

    @property
    def seconds(self) -> float:
        """How long it is waited for without a sign of life."""
        return self._from(self.pauses)

    @property
    def task_seconds(self) -> float:
        """How long it may compute."""
        return self._from(self.tasks)

    def _from(self, measured: deque[float]) -> float:
        # The median: one suspension of an hour must not make the next one last a day.
        return max(self.floor, FACTOR * statistics.median(measured)) if measured else self.floor

    def exhausted(self) -> str | None:
        """Return why the neighbour should be given up; None if it should not."""
        if self.silent > self.seconds:
            return f"silent for {self.silent:.1f} s"
        if self.busy + self.silent > self.task_seconds and self.busy:
            return f"computing for {self.busy + self.silent:.1f} s"
        return None
