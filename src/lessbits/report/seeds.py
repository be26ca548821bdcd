"""Runs of one setting with several seeds: drawn as a band, and listed as mean ± spread."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lessbits._internal.plain_values import plain
from lessbits.engines.recording.trace import Trace
from lessbits.report.names import name_runs
from lessbits.report.text import LETTERS, step_sizes_in_words

BAND_POINTS = 200
DERIVED_SEEDS = ("problem_seed", "network_seed")  # those of the run, unless they are given


@dataclass(frozen=True)
class RunGroup:
    """The runs that differ only in their seed; most groups hold one run."""

    name: str
    traces: tuple[Trace, ...]

    @property
    def first(self) -> Trace:
        """The first run."""
        return self.traces[0]

    @property
    def converged(self) -> bool:
        """Whether all runs reached their target."""
        return all(trace.converged for trace in self.traces)

    @property
    def ended(self) -> str:
        """How the runs ended, in a word: reached, missed, stopped (without a target) or diverged."""
        if any(trace.diverged for trace in self.traces):
            return "diverged"
        return "reached" if self.converged else "missed" if self.first.settings.get("until") else "stopped"

    def values(self, column: str) -> list[float]:
        """Return the last value of a column in each run that has the column."""
        return [float(trace[column][-1]) for trace in self.traces if column in trace.columns]

    def mean(self, column: str) -> float:
        """Return the mean of the last values of a column; NaN if no run has it."""
        values = self.values(column)
        return mean_and_deviation(values)[0] if values else float("nan")

    def shown(self, column: str, words: Callable[[float], str]) -> str:
        """Return the mean of the last values, with their standard deviation if there are several."""
        values = self.values(column)
        if not values:
            return "-"
        if len(values) == 1:
            return words(values[0])
        mean, deviation = mean_and_deviation(values)
        return f"{words(mean)} ± {words(deviation)}"


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation; infinities and NaN, errors of runs that diverged, stay what they are.

    >>> mean_and_deviation([1, 3]), mean_and_deviation([1, float("inf")])
    ((2.0, 1.4142135623730951), (inf, nan))
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def distinct(traces: Sequence[Trace]) -> list[Trace]:
    """Return the runs without those that are there twice: the same settings and numbers, whatever time they took."""
    kept: dict[Any, Trace] = {}
    for trace in traces:
        columns = tuple((name, trace[name].tobytes()) for name in sorted(trace.columns) if "seconds" not in name)
        settings = json.dumps(dict(trace.settings), sort_keys=True, default=str)
        # Runs without settings may have come from anywhere, so that only the same object is the same run.
        known = (settings, columns, trace.x.tobytes()) if trace.settings else id(trace)
        kept.setdefault(known, trace)
    return list(kept.values())


def group_runs(traces: Sequence[Trace]) -> list[RunGroup]:
    """Join the runs that differ only in their seed, in the order of their first runs.

    Step sizes that were chosen may differ with the seed, if the problem does. So runs with different seeds are joined
    whatever their step sizes are, and runs with the same seed only if their step sizes agree.
    """
    places: dict[str, list[int]] = {}
    for number, trace in enumerate(traces):
        places.setdefault(_setting_key(trace, number), []).append(number)
    groups: list[list[int]] = []
    for members in places.values():
        if _seeds_differ(traces, members) and _one_problem_or_one_each(traces, members):
            groups.append(members)
            continue
        alike: dict[str, list[int]] = {}
        for number in members:
            settings = traces[number].settings
            seeds = [settings.get(name) for name in DERIVED_SEEDS]
            alike.setdefault(f"{step_sizes_in_words(settings)} {seeds}", []).append(number)
        for some in alike.values():
            groups += [some] if _seeds_differ(traces, some) else [[number] for number in some]
    groups.sort(key=lambda members: members[0])
    names = name_runs([traces[members[0]] for members in groups], [len(members) for members in groups])
    return [
        RunGroup(name, tuple(traces[number] for number in members)) for name, members in zip(names, groups, strict=True)
    ]


def _seeds_differ(traces: Sequence[Trace], members: list[int]) -> bool:
    return len({traces[number].settings.get("seed") for number in members}) == len(members)


def _one_problem_or_one_each(traces: Sequence[Trace], members: list[int]) -> bool:
    """Return whether the runs share problem and network, or each has those of its own seed."""
    settings = [traces[number].settings for number in members]
    return all(
        len({each.get(name) for each in settings}) == 1 or all(each.get(name) == each["seed"] for each in settings)
        for name in DERIVED_SEEDS
    )


def _setting_key(trace: Trace, number: int) -> str:
    """Return what runs of one group have in common; a run without settings is alone."""
    settings = dict(trace.settings)
    if "method" not in settings or "seed" not in settings:
        return f"run {number}"
    left_out = {"seed", *DERIVED_SEEDS, *LETTERS}
    kept = {name: value for name, value in settings.items() if name not in left_out}
    return json.dumps(kept, sort_keys=True, default=str)


def seed_summary(traces: Sequence[Trace]) -> dict[str, Any]:
    """Return mean and standard deviation of the last records of runs that differ in their seed only."""
    ends = [trace.summary() for trace in traces]
    names = [name for name, value in ends[0].items() if isinstance(value, float | int) and not isinstance(value, bool)]
    values = {name: mean_and_deviation([float(end[name]) for end in ends]) for name in names}
    return {
        "count": len(traces),
        "reached": sum(trace.converged for trace in traces),
        "diverged": sum(trace.diverged for trace in traces),
        "mean": {name: mean for name, (mean, _) in values.items()},
        "spread": {name: deviation for name, (_, deviation) in values.items()},
    }


def band(group: RunGroup, across: str, upwards: str) -> dict[str, list[float]] | None:
    """Return the smallest, the middle and the largest value of all runs, over a column; None if they lack a column.

    Values between two records are interpolated, in the logarithm if they are positive. A run that has ended keeps its
    last value.
    """
    pairs = [
        (np.asarray(trace[across], float), np.asarray(trace[upwards], float))
        for trace in group.traces
        if {across, upwards} <= set(trace.columns)
    ]
    pairs = [(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in pairs if np.isfinite(y).any()]
    if not pairs:
        return None
    positive = all((y > 0).all() for _, y in pairs)
    start, end = min(x[0] for x, _ in pairs), max(x[-1] for x, _ in pairs)
    # Denser at the beginning, which a logarithmic axis stretches.
    first = min((x[x > 0][0] for x, _ in pairs if (x > 0).any()), default=end)
    grid = np.unique(
        np.concatenate([np.linspace(start, end, BAND_POINTS), np.geomspace(first, end, BAND_POINTS // 2)])
        if 0 < first < end
        else np.linspace(start, end, BAND_POINTS)
    )
    curves = [np.interp(grid, x, np.log(y) if positive else y) for x, y in pairs]
    rows = np.exp(curves) if positive else np.array(curves)
    return {
        name: _rounded(values)
        for name, values in (("x", grid), ("low", rows.min(0)), ("middle", np.median(rows, 0)), ("high", rows.max(0)))
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


def thin_curves(trace: Trace, most: int) -> dict[str, list[Any]]:
    """Return the columns with at most `most` evenly spaced records, the first and the last included."""
    count = len(trace)
    # Denser at the beginning, which a logarithmic axis stretches.
    even, early = np.linspace(0, count - 1, min(count, most)), np.geomspace(1, max(count - 1, 1), most // 4)
    kept = np.unique(np.minimum(np.concatenate([even, early]).round().astype(int), count - 1))
    return {name: plain(np.asarray(column)[kept]) for name, column in trace.columns.items()}
