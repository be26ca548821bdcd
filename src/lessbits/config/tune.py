"""Tuning of the method that settings describe, for `lessbits tune`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lessbits.config.build import Experiment, build, build_parts
from lessbits.config.choices import apply_choice, check_question
from lessbits.config.ranking import save_ranking
from lessbits.config.settings import STEP_SIZES, Settings
from lessbits.engines.checks import GOALS
from lessbits.errors import InputError, check_name, check_whole
from lessbits.methods.registry import find_method
from lessbits.methods.request import check_corrected, step_size_origins
from lessbits.tuning import Tuning, tune
from lessbits.tuning.estimates import Constraints
from lessbits.tuning.fewest_bits import FewestBits
from lessbits.tuning.grid import check_values
from lessbits.tuning.results import TuningInterrupted

# Nodes agree without any bits, so consensus alone is no goal of a search for the fewest.
BIT_GOALS = ("bits", *(f"bits:{goal}" for goal in GOALS if goal not in ("error", "consensus")))
TUNE_GOALS = (*GOALS, *BIT_GOALS)
FAILURES = {
    "diverged": "every run diverged: search smaller step sizes",
    "missed": "no run reached the target: allow more --iterations, or ask for less",
}


class SearchInterrupted(KeyboardInterrupt):
    """A search was interrupted; `result` is what it found by then."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("the search was interrupted")
        self.result = result


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """Options of `lessbits tune` besides the settings.

    Attributes:
        search: Step sizes to search, each as NAME or NAME=V1,V2,...; by default all that are not given.
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
        """Raise an `InputError` for invalid budgets, numbers of seeds and grids."""
        for name, given in (("epochs", self.epochs), ("bits", self.bits)):
            if given is not None and not given > 0:
                raise InputError(f"{name} is {given:g}, but a budget must be above 0")
        if not 1 <= self.seeds <= 1000:
            raise InputError(f"seeds is {self.seeds}, but it must be from 1 to 1000")
        check_whole("per_decade", self.per_decade, 1)

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
    request.check()
    if settings.goal.startswith("bits"):
        for name in ("aim", "search", "epochs", "bits"):
            if getattr(request, name):
                raise InputError(f"{name} was given with the goal bits, which searches everything: leave it out")
        return fewest_settings(settings, request)
    grid = request.grid()
    check_values(find_method(settings.method), grid)  # before trial runs
    experiment = _starting_point(settings, grid)
    names = grid or {name: None for name in experiment.method.tunable() if getattr(settings, name) is None}
    if not names:
        raise InputError(f"no step size of {settings.method} is left to search: leave one out, or name it in search")
    try:
        found, interrupted = _tune(experiment, names, settings, request), False
    except TuningInterrupted as stop:
        found, interrupted = stop.tuning, True
    best = experiment.settings.updated(**found.best.sizes)
    result = {
        "best": found.best.row(),
        "searched": list(found.best.sizes),
        "fixed": _fixed(found, experiment, settings, grid),
        "aim": found.aim,
        "seeds": request.seeds,
        "candidates": found.rows(),
        "notes": found.notes,
        "interrupted": interrupted,
        "chosen_with": experiment.method.chosen_with._asdict(),
        "settings": best.model_dump(),
    }
    return _finish(save_ranking(request.out, result, None if found.best.diverged else best))


def _starting_point(settings: Settings, grid: Mapping[str, Sequence[float] | None]) -> Experiment:
    """Build the method that the search starts from, with practical step sizes unless the settings say otherwise."""
    # A searched step size needs no value of its own, unless its grid is centered at that value.
    known = {name: sorted(values)[len(values) // 2] for name, values in grid.items() if values}
    rule = {} if "stepsizes" in settings.model_fields_set else {"stepsizes": "practical"}
    return build(settings.updated(**rule, **{name: value for name, value in known.items() if value > 0}))


def _tune(
    experiment: Experiment,
    grid: Mapping[str, Sequence[float] | None],
    settings: Settings,
    request: TuneRequest,
) -> Tuning:
    return tune(
        experiment.problem,
        experiment.network,
        experiment.method,
        grid,
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


def _fixed(
    found: Tuning, experiment: Experiment, settings: Settings, grid: Mapping[str, Sequence[float] | None]
) -> dict[str, dict[str, Any]]:
    """Return the step sizes that were held fixed, each with its value and where it came from."""
    given = [name for name in STEP_SIZES if getattr(settings, name) is not None or grid.get(name)]
    origins = step_size_origins(experiment.method.step_sizes, given, experiment.settings.stepsizes == "practical")
    return {name: {"value": value, "from": origins[name]} for name, value in found.fixed.items()}


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
        request.out,
    )
    methods = (settings.method,) if "method" in given else None
    if methods:
        check_corrected(find_method(settings.method), settings.corrected)
    interrupted = False
    try:
        tried = search.search(methods, Constraints(settings.quantizer, settings.messages, settings.corrected))
    except KeyboardInterrupt:
        tried, interrupted = search.ranked(), True
        if not tried:
            raise
    best = tried[0]
    chosen = apply_choice(best.choice, settings, goal=goal, **best.sizes)
    settled = apply_choice(best.choice, resolved, goal=goal, **best.sizes)
    result = {
        "best": {**best.row(), "ended": "reached" if best.reached else "missed"},
        "aim": "bits",
        "seeds": request.seeds,
        "candidates": [each.row() for each in tried],
        "interrupted": interrupted,
        "command": chosen.command("run"),
        "settings": settled.model_dump(),
    }
    return _finish(save_ranking(request.out, result, settled if best.reached else None))


def _finish(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a search. Raise `SearchInterrupted` if it was interrupted."""
    if result["interrupted"]:
        raise SearchInterrupted(result)
    return result


def _read(word: str) -> tuple[str, list[float] | None]:
    """Read NAME or NAME=V1,V2,..."""
    name, equals, values = word.partition("=")
    if not equals:
        return name, None
    try:
        return name, [float(value) for value in values.split(",")]
    except ValueError:
        raise InputError(f"{word!r} is no grid: write NAME=V1,V2,... with numbers, or NAME alone") from None
