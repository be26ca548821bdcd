"""A progress bar on standard error, or nothing."""

import sys
from types import TracebackType
from typing import Any, Self


class Progress:
    """Shows iterations, error, bits and time left while a run goes on; silent unless enabled and on a terminal."""

    def __init__(self, iterations: int, enabled: bool, label: str = "") -> None:
        self.bar: Any = None
        self.iterations, self.enabled, self.label = iterations, enabled, label

    def __enter__(self) -> Self:
        """Draw the bar."""
        # Not rich's own idea of a terminal: it takes FORCE_COLOR for one.
        if self.enabled and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self.bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total}"),
                TextColumn("{task.fields[status]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,  # what goes to standard output stays there
            )
            self.bar.start()
            self.task = self.bar.add_task(self.label or "iterations", total=self.iterations, status="")
        return self

    def show(self, iteration: int, error: float, bits_per_link: float) -> None:
        """Move the bar."""
        if self.bar is not None:
            self.bar.update(
                self.task, completed=iteration, status=f"error {error:.2e}, {bits_per_link / 1000:.0f} kbit a link"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
