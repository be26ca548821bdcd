"""Options of a search for step sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypedDict

from lessbits.errors import (
    InputError,
    check_flag,
    check_folder,
    check_function,
    check_name,
    check_number,
    check_positive,
    check_seeds,
    check_whole,
    shown,
)

AIMS = ("iterations", "bits", "value")


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Options of a search for step sizes. `tune` takes them as keyword arguments.

    Attributes:
        aim: "iterations" or "bits" (encoded, with headers) minimizes what a run needs to reach `until`; "value"
            minimizes the goal when the budget is spent. By default "iterations" with a target, else "value".
        until: The target: a run ends as soon as the goal is at most this.
        goal: What `until` is compared with, as in `RunOptions`; by default the error or, without x*, the gradient.
        iterations: Largest number of iterations of a run; by default 10 000, or what the epochs or bits need.
        epochs: Budget of a run, in passes over the data.
        bits: Budget of a run, in nominal bits per link.
        seeds: Seeds that every candidate is run with.
        per_decade: Values per decade of a grid around the method's own step size.
        grow: Whether a grid grows while its best value is at an edge.
        margin: A run is stopped after this many times the iterations that the best one needed.
        record_every: Iterations between two records.
        out: Folder where every outcome is stored. A later call with the same problem, network, method and budget reuses
            these outcomes.
        progress: Callback that takes lines about what is being run.
        width: Runs of a batch; see `SweepOptions`.
    """

    aim: str | None = None
    until: float | None = None
    goal: str | None = None
    iterations: int | None = None
    epochs: float | None = None
    bits: float | None = None
    seeds: Sequence[int] = (0,)
    per_decade: int = 10
    grow: bool = True
    margin: float = 1.5
    record_every: int | None = None
    out: Path | None = None
    progress: Callable[[str], None] | None = None
    width: int | None = None

    def checked(self) -> Self:
        """Return the options with the aim resolved. Raise an `InputError` if they are not valid."""
        if isinstance(self.goal, str) and self.goal.partition(":")[0] == "bits":
            raise InputError(
                f'goal is {shown(self.goal)}, but this searches step sizes of one method: write aim="bits" for its '
                "fewest bits; lessbits tune --goal bits searches methods and quantizers, too"
            )
        aim = check_name("aim", self.aim or ("value" if self.until is None else "iterations"), AIMS)
        if aim != "value" and self.until is None:
            raise InputError(f"the aim is fewest {aim}, but to which target? Give until")
        if aim == "value" and self.until is not None:
            raise InputError(f"the aim is the lowest value, so until, {self.until}, has no meaning: leave it out")
        if self.until is not None:
            check_number("until", self.until, 0)
        for name in ("iterations", "record_every", "width"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1, 2**31 - 1)
        for name in ("epochs", "bits"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        check_number("margin", self.margin, 1)
        check_whole("per_decade", self.per_decade, 1)
        check_flag("grow", self.grow)
        if self.progress is not None:
            check_function("progress", self.progress, "a line")
        out = None if self.out is None else check_folder("out", self.out)
        return replace(self, aim=aim, seeds=check_seeds(self.seeds), out=out)

    def say(self, text: str) -> None:
        """Pass a line to the progress callback, if there is one."""
        if self.progress is not None:
            self.progress(text)


class TuneKeywords(TypedDict, total=False):
    """The fields of `TuneOptions`, for type checkers. A test checks that the two agree."""

    aim: str | None
    until: float | None
    goal: str | None
    iterations: int | None
    epochs: float | None
    bits: float | None
    seeds: Sequence[int]
    per_decade: int
    grow: bool
    margin: float
    record_every: int | None
    out: Path | None
    progress: Callable[[str], None] | None
    width: int | None
