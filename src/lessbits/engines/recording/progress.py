"""How a run is going: a bar on a terminal, lines elsewhere, a log file, or a function of your own."""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from lessbits._internal.wording import human

WINDOW = 20  # looks that the rate is fitted to, some 5 seconds of a simulation
FIRST_LINE, NEXT_LINE = 5.0, 10.0  # seconds to the first line, and between lines, where there is no terminal


class ProgressState(NamedTuple):
    """Where a run is."""

    iteration: int
    iterations: int  # at most
    error: float
    wire_bits_per_link: float  # encoded, with headers
    seconds: float  # since it began, or went on
    rate: float | None  # share by which the goal shrinks an iteration; None if it does not
    seconds_left: float | None  # to the target if the rate stays, else to the last iteration

    def in_words(self) -> str:
        """Return what a line says.

        >>> ProgressState(500, 1000, 2e-3, 41_000.0, 3.0, 0.012, 3.0).in_words()
        'error 2.00e-03, 41 kbit a link, shrinks 1.2 % an iteration, 0:03 left'
        """
        rate = "" if self.rate is None else f", shrinks {100 * self.rate:.2g} % an iteration"
        left = "" if self.seconds_left is None else f", {_clock(self.seconds_left)} left"
        return f"error {self.error:.2e}, {human(self.wire_bits_per_link)} a link{rate}{left}"


Listener = Callable[[ProgressState], None]
# True is a bar, or lines where there is no terminal; a tuple asks for several of these.
ProgressOption = bool | Listener | tuple[bool | Listener, ...]


class Goal(Protocol):
    """What progress is measured against; `RunOptions` is one."""

    @property
    def iterations(self) -> int: ...  # noqa: D102
    @property
    def until(self) -> float | None: ...  # noqa: D102
    @property
    def goal(self) -> str: ...  # noqa: D102
    @property
    def progress(self) -> ProgressOption: ...  # noqa: D102


class Progress:
    """Tells listeners how a run is going."""

    def __init__(self, options: Goal, begun: int = 0, shown: bool = True) -> None:
        self.iterations, self.until, self.goal, self.begun = options.iterations, options.until, options.goal, begun
        requested = options.progress if shown else False
        self.requested = requested if isinstance(requested, tuple) else (requested,)
        self.looks: deque[tuple[int, float]] = deque(maxlen=WINDOW)  # iterations and logarithms of the goal

    def __enter__(self) -> Self:
        """Start the clock."""
        self.clock = time.perf_counter()
        self.displays = [display() for each in self.requested if each is True]
        self.listeners: list[Listener] = [*self.displays, *(each for each in self.requested if callable(each))]
        return self

    def show(self, iteration: int, metric: Callable[[str], float], bits_per_link: float) -> None:
        """Tell where the run is; `metric` gives the newest value of one."""
        if not self.listeners:
            return
        value, seconds = metric(self.goal), time.perf_counter() - self.clock
        if math.isfinite(value) and value > 0:
            self.looks.append((iteration, math.log(value)))
        rate = self._rate()
        left: float = self.iterations - iteration
        if rate and self.until and value > 0:
            left = min(left, math.log(max(value / self.until, 1)) / -math.log1p(-rate))
        done = iteration - self.begun
        seconds_left = left * seconds / done if done > 0 else None
        standing = ProgressState(
            iteration, self.iterations, metric("error"), bits_per_link, seconds, rate, seconds_left
        )
        for listener in list(self.listeners):
            try:
                listener(standing)
            except OSError:  # whoever read it has gone; the run goes on
                if listener not in self.displays:
                    raise
                self.listeners.remove(listener)

    def _rate(self) -> float | None:
        """Fit a line to the newest looks."""
        if len(self.looks) < 3:
            return None
        count = len(self.looks)
        mean_at, mean_of = (sum(column) / count for column in zip(*self.looks, strict=True))
        spread = sum((at - mean_at) ** 2 for at, _ in self.looks)
        slope = sum((at - mean_at) * (of - mean_of) for at, of in self.looks) / spread if spread else 0.0
        return min(-math.expm1(slope), 1 - 1e-9) if slope < 0 else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take bars away."""
        for shown in self.displays:
            with suppress(OSError):
                shown.close()


def display() -> "Bar | Lines":
    """Return what suits standard error."""
    # Not rich's own idea of a terminal: it takes FORCE_COLOR for one.
    return Bar() if sys.stderr.isatty() else Lines()


class Bar:
    """A bar that is gone when the run is over."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichBar

        self.bar: Any = RichBar(
            TextColumn("{task.completed}/{task.total} iterations"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,  # what goes to standard output stays there
        )
        self.bar.start()
        self.task: Any = None

    def __call__(self, standing: ProgressState) -> None:
        """Move it."""
        if self.task is None:
            self.task = self.bar.add_task("", total=standing.iterations, status="")
        self.bar.update(self.task, completed=standing.iteration, status=standing.in_words())

    def close(self) -> None:
        """Take it away."""
        self.bar.stop()


class Lines:
    """A line now and then, for a file or a pipe; none for a short run."""

    def __init__(self) -> None:
        self.due = FIRST_LINE

    def __call__(self, standing: ProgressState) -> None:
        """Print it, if it is time."""
        if standing.seconds < self.due:
            return
        self.due = standing.seconds + NEXT_LINE
        print(
            f"lessbits: iteration {standing.iteration} of {standing.iterations}, {standing.in_words()}",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        """Leave the lines."""


@contextmanager
def show_activity(text: str, shown: bool = True) -> Iterator[None]:
    """Show a spinner with `text` on a terminal, for work of some seconds that has no iterations."""
    if not (shown and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{text} …"):
        yield


def _clock(seconds: float) -> str:
    """Return a time as people write it.

    >>> _clock(75), _clock(7384), _clock(400_000), _clock(float("inf"))
    ('1:15', '2:03:04', '5 days', 'years')
    """
    if seconds > 3e7:
        return "years"
    if seconds > 2 * 86_400:
        return f"{seconds / 86_400:.0f} days"
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
