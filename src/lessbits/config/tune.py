"""Tuning by settings: what `lessbits tune` does."""

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
    """What `lessbits tune` is asked besides settings; None leaves a choice open."""

    search: Sequence[str] = ()  # NAME, or NAME=V1,V2,...
    aim: str | None = None
    epochs: float | None = None
    bits: float | None = None
    per_decade: int = 10
    seeds: int = 1
    grow: bool = True
    out: Path | None = None
    progress: Callable[[str], None] | None = None

    def check(self) -> None:
        """Refuse budgets and numbers of seeds that make no sense."""
        for name, given in (("epochs", self.epochs), ("bits", self.bits)):
            if given is not None and not given > 0:
                raise InputError(f"{name} is {given:g}, but a budget must be above 0")
        if not 1 <= self.seeds <= 1000:
            raise InputError(f"seeds is {self.seeds}, but it must be from 1 to 1000")

    def grid(self) -> dict[str, list[float] | None]:
        """Read the step sizes to search."""
        grid: dict[str, list[float] | None] = {}
        for word in self.search:
            name, values = _read(word)
            check_name("step size", name, STEP_SIZES)
            if name in grid:
                raise InputError(f"{name} is searched twice: name all its values in one --search")
            grid[name] = values
        return grid


def tune_settings(settings: Settings, request: TuneRequest | None = None) -> dict[str, Any]:
    """Search step sizes of the method that the settings describe, and return what was found, as JSON can hold it.

    With the goal `bits` (or `bits:suboptimality`), search methods, quantizers and messages too.
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
    # A step size that is searched need not be chosen first, unless its grid is laid around it.
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
        # A budget of epochs or bits is not to be cut short by a default.
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
    return _saved(request.out, result, None if found.best.diverged else best)


def fewest_settings(settings: Settings, request: TuneRequest) -> dict[str, Any]:
    """Search what sends the fewest bits to `until`; a method, quantizer or messages that were given stay."""
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
    return _saved(request.out, result, settled if best.reached else None)


def _read(word: str) -> tuple[str, list[float] | None]:
    """Read NAME or NAME=V1,V2,..."""
    name, equals, values = word.partition("=")
    if not equals:
        return name, None
    try:
        return name, [float(value) for value in values.split(",")]
    except ValueError:
        raise InputError(f"{word!r} is no grid: write NAME=V1,V2,... with numbers, or NAME alone") from None


def _saved(out: Path | None, result: dict[str, Any], best: Settings | None) -> dict[str, Any]:
    """Write the ranked table and the winner's settings, if there is a folder, and return the result with its name."""
    if out is None:
        return result
    out.mkdir(parents=True, exist_ok=True)
    rows = result["candidates"]
    names = dict.fromkeys(name for row in rows for name in row)  # methods have other step sizes
    with (out / "ranking.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(names))
        writer.writeheader()
        writer.writerows(rows)
    write_whole(out / "ranking.json", json.dumps(plain(result), indent=1, allow_nan=False) + "\n")
    if best is not None:
        write_whole(out / "best.toml", best.to_toml())
    return {**result, "saved": str(out)}
