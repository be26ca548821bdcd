"""Tuning of the method that settings describe, for `lessbits tune`."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lessbits._internal.files import write_whole
from lessbits._internal.plain_values import plain
from lessbits.config.build import build, build_parts
from lessbits.config.choices import apply_choice, check_question
from lessbits.config.settings import STEP_SIZES, Settings
from lessbits.errors import InputError, check_name
from lessbits.methods.registry import find_method
from lessbits.tuning import tune
from lessbits.tuning.estimates import Constraints
from lessbits.tuning.fewest_bits import FewestBits

TUNE_GOALS = ("error", "suboptimality", "consensus", "bits", "bits:suboptimality")
FAILURES = {
    "diverged": "every run diverged: search smaller step sizes",
    "missed": "no run reached the target: allow more --iterations, or ask for less",
}


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """Options of `lessbits tune` besides the settings.

    Attributes:
        search: Step sizes to search, each as NAME or NAME=V1,V2,...; by default the first one of the method.
        aim: "iterations", "bits" or "value"; see `TuneOptions`.
        epochs: Budget of a run, in passes over the data; None for no limit.
        bits: Budget of a run, in nominal bits per link; None for no limit.
        per_decade: Values per decade of a grid.
        seeds: Number of seeds that every candidate is run with.
        grow: Whether a grid grows while its best value is at an edge.
        out: Folder for outcomes, the ranking and the best settings.
        progress: Callback that takes lines about what is being run.
    """

    search: Sequence[str] = ()
    aim: str | None = None
    epochs: float | None = None
    bits: float | None = None
    per_decade: int = 10
    seeds: int = 1
    grow: bool = True
    out: Path | None = None
    progress: Callable[[str], None] | None = None

    def check(self) -> None:
        """Raise an `InputError` for invalid budgets and numbers of seeds."""
        for name, given in (("epochs", self.epochs), ("bits", self.bits)):
            if given is not None and not given > 0:
                raise InputError(f"{name} is {given:g}, but a budget must be above 0")
        if not 1 <= self.seeds <= 1000:
            raise InputError(f"seeds is {self.seeds}, but it must be from 1 to 1000")

    def grid(self) -> dict[str, list[float] | None]:
        """Return the step sizes to search, with their values, or None for a grid around the method's own."""
        grid: dict[str, list[float] | None] = {}
        for word in self.search:
            name, values = _read(word)
            check_name("step size", name, STEP_SIZES)
            if name in grid:
                raise InputError(f"{name} is searched twice: name all its values in one --search")
            grid[name] = values
        return grid


def tune_settings(settings: Settings, request: TuneRequest | None = None) -> dict[str, Any]:
    """Search the step sizes of the method that the settings describe, and return a result that JSON can represent.

    With the goal `bits` (or `bits:suboptimality`), also search methods, quantizers and messages.
    """
    request = request or TuneRequest()
    check_name("goal", settings.goal, TUNE_GOALS)
    if settings.goal.startswith("bits"):
        for name in ("aim", "search", "epochs", "bits"):
            if getattr(request, name):
                raise InputError(f"{name} was given with the goal bits, which searches everything: leave it out")
        return fewest_settings(settings, request)
    request.check()
    grid = request.grid()
    # A searched step size needs no value of its own, unless its grid is centered at that value.
    known = {name: sorted(values)[len(values) // 2] for name, values in grid.items() if values}
    experiment = build(settings.updated(**{name: value for name, value in known.items() if value > 0}))
    found = tune(
        experiment.problem,
        experiment.network,
        experiment.method,
        grid or None,
        aim=request.aim,
        until=settings.until,
        goal=settings.goal,
        # The default number of iterations must not cut a budget of epochs or bits short.
        iterations=settings.iterations if "iterations" in settings.model_fields_set else None,
        epochs=request.epochs,
        bits=request.bits,
        seeds=range(settings.seed, settings.seed + request.seeds),
        per_decade=request.per_decade,
        grow=request.grow,
        record_every=settings.record_every,
        out=request.out,
        progress=request.progress,
    )
    best = experiment.settings.updated(**found.best.sizes)
    result = {
        "best": found.best.row(),
        "searched": list(found.best.sizes),
        "aim": found.aim,
        "candidates": found.rows(),
        "notes": found.notes,
        "settings": best.model_dump(),
    }
    return _save(request.out, result, None if found.best.diverged else best)


def fewest_settings(settings: Settings, request: TuneRequest) -> dict[str, Any]:
    """Search for the fewest bits to `until`. A method, quantizer or messages that are given are kept."""
    if settings.until is None:
        raise InputError("the goal is the fewest bits, but to which error? Give until")
    check_question(settings, "the goal bits searches step sizes")
    given = settings.model_fields_set
    goal = settings.goal.partition(":")[2] or "error"
    problem, network, resolved = build_parts(settings.updated(goal=goal))
    search = FewestBits(
        problem,
        network,
        settings.until,
        goal,
        range(settings.seed, settings.seed + request.seeds),
        settings.iterations,
        request.progress,
        settings.option or "B",
        settings.batch_size,
    )
    methods = (settings.method,) if "method" in given else None
    if settings.corrected and methods and not find_method(settings.method).correctable:
        raise InputError(
            f"corrected was given, but it is a variant of primal-dual, and the method is {settings.method}"
        )
    tried = search.search(methods, Constraints(settings.quantizer, settings.messages, settings.corrected))
    best = tried[0]
    chosen = apply_choice(best.choice, settings, goal=goal, **best.sizes)
    settled = apply_choice(best.choice, resolved, goal=goal, **best.sizes)
    result = {
        "best": {**best.row(), "ended": "reached" if best.reached else "missed"},
        "aim": "bits",
        "candidates": [each.row() for each in tried],
        "command": chosen.command("run"),
        "settings": settled.model_dump(),
    }
    return _save(request.out, result, settled if best.reached else None)


def _read(word: str) -> tuple[str, list[float] | None]:
    """Read NAME or NAME=V1,V2,..."""
    name, equals, values = word.partition("=")
    if not equals:
        return name, None
    try:
        return name, [float(value) for value in values.split(",")]
    except ValueError:
        raise InputError(f"{word!r} is no grid: write NAME=V1,V2,... with numbers, or NAME alone") from None


def _save(out: Path | None, result: dict[str, Any], best: Settings | None) -> dict[str, Any]:
    """Write the ranking and the best settings if a folder is given, and return the result with the folder's name."""
    if out is None:
        return result
    out.mkdir(parents=True, exist_ok=True)
    rows = result["candidates"]
    names = dict.fromkeys(name for row in rows for name in row)  # methods differ in their step sizes
    with (out / "ranking.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(names))
        writer.writeheader()
        writer.writerows(rows)
    write_whole(out / "ranking.json", json.dumps(plain(result), indent=1, allow_nan=False) + "\n")
    if best is not None:
        write_whole(out / "best.toml", best.to_toml())
    return {**result, "saved": str(out)}
