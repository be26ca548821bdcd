"""Progress of a run: a bar on a terminal, lines elsewhere, a log file, or the user's callback."""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from lessbits._internal.wording import human

WINDOW = 20  # updates that the rate is fitted to, about 5 seconds of a simulation
BAR_WIDTH = 10  # characters, so that the text beside it fits 80 columns
FIRST_LINE, NEXT_LINE = 5.0, 10.0  # seconds to the first line, and between lines, if there is no terminal


class ProgressState(NamedTuple):
    """The progress of a run, as callbacks get it.

    Attributes:
        iteration: The current iteration.
        iterations: Largest number of iterations.
        error: The current error; NaN if the problem declines x*.
        wire_bits_per_link: Encoded bits per link so far, with headers.
        seconds: Seconds since the run began, or was resumed.
        rate: Fraction by which the goal shrinks per iteration; None if it does not shrink.
        seconds_left: Estimated seconds to the target at this rate, or to the last iteration; None if unknown.
        goal: What the run's target is compared with; None if nothing is scored.
        value: The current value of the goal.
    """

    iteration: int
    iterations: int
    error: float
    wire_bits_per_link: float
    seconds: float
    rate: float | None
    seconds_left: float | None
    goal: str | None = "error"
    value: float = math.nan

    def in_words(self) -> str:
        """Return the progress as text.

        >>> ProgressState(500, 1000, 2e-3, 41_000.0, 3.0, 0.012, 3.0).in_words()
        'error 2.00e-03, 41 kbit per link, shrinks 1.2 % per iteration, 0:03 left'
        """
        rate = "" if self.rate is None else f", shrinks {100 * self.rate:.2g} % per iteration"
        left = "" if self.seconds_left is None else f", {_clock(self.seconds_left)} left"
        shown = "" if self.goal is None else f"{self.goal} {self.value:.2e}, "
        shown = shown if math.isnan(self.error) else f"error {self.error:.2e}, "
        return f"{shown}{human(self.wire_bits_per_link)} per link{rate}{left}"

    def in_short(self, width: int) -> str:
        """Return the progress in at most `width` characters; what does not fit is left out, the time left last.

        >>> state = ProgressState(500, 1000, 2e-3, 41_000.0, 3.0, 0.012, 3.0)
        >>> state.in_short(60), state.in_short(32)
        ('error 2.0e-03, 41 kbit per link, -1.2 %/iteration, 0:03 left', 'error 2.0e-03, 0:03 left')
        """
        error = "" if self.goal is None else f"{self.goal} {self.value:.1e}"
        error = error if math.isnan(self.error) else f"error {self.error:.1e}"
        bits = f"{human(self.wire_bits_per_link)} per link"
        rate = "" if self.rate is None else f"-{100 * self.rate:.2g} %/iteration"
        left = "" if self.seconds_left is None else f"{_clock(self.seconds_left)} left"
        for parts in ((error, bits, rate, left), (error, bits, left), (error, left)):
            words = ", ".join(part for part in parts if part)
            if len(words) <= width:
                return words
        return error


Listener = Callable[[ProgressState], None]
# True is a bar, or lines if there is no terminal; a tuple requests several of these.
ProgressOption = bool | Listener | tuple[bool | Listener, ...]


class Goal(Protocol):
    """The options that progress is measured against; `RunOptions` has them."""

    @property
    def iterations(self) -> int: ...  # noqa: D102
    @property
    def until(self) -> float | None: ...  # noqa: D102
    @property
    def goal(self) -> str | None: ...  # noqa: D102
    @property
    def progress(self) -> ProgressOption: ...  # noqa: D102


class Progress:
    """Passes the progress of a run to listeners."""

    def __init__(self, options: Goal, begun: int = 0, shown: bool = True) -> None:
        self.iterations, self.until, self.goal, self.begun = options.iterations, options.until, options.goal, begun
        requested = options.progress if shown else False
        self.requested = requested if isinstance(requested, tuple) else (requested,)
        self.history: deque[tuple[int, float]] = deque(maxlen=WINDOW)  # iterations and logarithms of the goal

    def __enter__(self) -> Self:
        """Start the clock, and open the displays."""
        self.clock = time.perf_counter()
        self.displays = [display() for each in self.requested if each is True]
        self.listeners: list[Listener] = [*self.displays, *(each for each in self.requested if callable(each))]
        return self

    def show(self, iteration: int, metric: Callable[[str], float], bits_per_link: float) -> None:
        """Pass the progress to all listeners; `metric` returns the newest value of a metric by name."""
        if not self.listeners:
            return
        value, seconds = metric(self.goal) if self.goal else math.nan, time.perf_counter() - self.clock
        if math.isfinite(value) and value > 0:
            self.history.append((iteration, math.log(value)))
        rate = self._rate()
        left: float = self.iterations - iteration
        if rate and self.until and value > 0:
            left = min(left, math.log(max(value / self.until, 1)) / -math.log1p(-rate))
        done = iteration - self.begun
        seconds_left = left * seconds / done if done > 0 else None
        state = ProgressState(
            iteration, self.iterations, metric("error"), bits_per_link, seconds, rate, seconds_left, self.goal, value
        )
        for listener in list(self.listeners):
            try:
                listener(state)
            except OSError:  # the reader of standard error is gone; the run continues
                if listener not in self.displays:
                    raise
                self.listeners.remove(listener)

    def _rate(self) -> float | None:
        """Return the rate of the newest updates, by a least-squares fit. Return None if the goal does not shrink."""
        if len(self.history) < 3:
            return None
        count = len(self.history)
        mean_at, mean_of = (sum(column) / count for column in zip(*self.history, strict=True))
        spread = sum((at - mean_at) ** 2 for at, _ in self.history)
        slope = sum((at - mean_at) * (of - mean_of) for at, of in self.history) / spread if spread else 0.0
        return min(-math.expm1(slope), 1 - 1e-9) if slope < 0 else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the displays."""
        for shown in self.displays:
            with suppress(OSError):
                shown.close()


def display() -> "Bar | Lines":
    """Return a bar if standard error is a terminal, else lines."""
    # rich's own test is not used: it takes FORCE_COLOR for a terminal.
    return Bar() if sys.stderr.isatty() else Lines()


class Bar:
    """A progress bar, which is removed at the end of the run."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichBar

        self.bar: Any = RichBar(
            TextColumn("{task.completed}/{task.total}"),
            BarColumn(bar_width=BAR_WIDTH),
            TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,  # standard output is left alone
        )
        self.bar.start()
        self.task: Any = None

    def __call__(self, state: ProgressState) -> None:
        """Update the bar."""
        if self.task is None:
            self.task = self.bar.add_task("", total=state.iterations, status="")
        room = self.bar.console.width - BAR_WIDTH - len(f"{state.iteration}/{state.iterations}") - 3
        self.bar.update(self.task, completed=state.iteration, status=state.in_short(room))

    def close(self) -> None:
        """Remove the bar."""
        self.bar.stop()


class Lines:
    """Lines at intervals, for a file or a pipe; none for a short run."""

    def __init__(self) -> None:
        self.due = FIRST_LINE

    def __call__(self, state: ProgressState) -> None:
        """Print a line if one is due."""
        if state.seconds < self.due:
            return
        self.due = state.seconds + NEXT_LINE
        print(
            f"lessbits: iteration {state.iteration} of {state.iterations}, {state.in_words()}",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        """Do nothing: the lines stay."""


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
    """Return a duration as readable text.

    >>> _clock(75), _clock(7384), _clock(400_000), _clock(float("inf"))
    ('1:15', '2:03:04', '5 days', 'years')
    """
    if seconds > 3e7:
        return "years"
    if seconds > 2 * 86_400:
        return f"{seconds / 86_400:.0f} days"
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
