"""What reports show of each run: axes, table rows and rates."""

import math
from collections.abc import Sequence

import numpy as np

from lessbits._internal.figures import title_of
from lessbits._internal.wording import human
from lessbits.engines.recording.trace import Trace
from lessbits.report.seeds import RunGroup
from lessbits.report.text import step_sizes_in_words
from lessbits.report.verdict import BITS, goal_of, one_task, target_of

MIN_FIT_POINTS = 5  # of the fit of a rate
FLOAT_BITS = 32
LOG_ABOVE = 30  # runs whose ends differ by more than this factor are shown on a logarithmic axis
DEEP = 1e-3  # an axis ends below the target if a run goes below this fraction of it

# The axes of the HTML report, in the order of its buttons: column of the trace, title, factor and unit.
X_AXES = (
    ("wire_bits_per_link", "bits per link", 1.0, "bit"),
    ("iteration", "iterations", 1.0, ""),
    ("wire_bits_per_link", "bytes per link", 1 / 8, "B"),
    ("bits_per_link", "bits per link, nominal", 1.0, "bit"),
    ("epochs", "epochs", 1.0, ""),
    ("seconds", "seconds", 1.0, "s"),
    ("simulated_seconds", "simulated seconds", 1.0, "s"),
)
MEASURED = ("error", "suboptimality", "gradient", "loss", "consensus", "test_loss", "test_accuracy")
# Simulated seconds against bits tell which of the two a run saves.
Y_AXES = tuple((name, title_of(name)) for name in (*MEASURED, "simulated_seconds"))


def measured_rate(trace: Trace) -> float | None:
    """Return the share by which an iteration reduced the error, fitted to the second half of the descent.

    None for a run that diverged, has too few records, or did not descend.

    >>> import numpy as np
    >>> columns = {"iteration": np.arange(100), "error": 0.9 ** np.arange(100)}
    >>> print(f"{measured_rate(Trace(columns, np.zeros((1, 1)), False, False, '', 0.0)):.3f}")
    0.100
    """
    if trace.metric is None:
        return None
    iteration, error = trace["iteration"].astype(float), trace[trace.metric].astype(float)
    positive = np.flatnonzero((error > 0) & np.isfinite(error))
    if trace.diverged or len(positive) < MIN_FIT_POINTS:
        return None
    logarithm = np.log(error[positive])
    low = logarithm.min() + 0.05 * (logarithm[0] - logarithm.min())  # below is the floor: rounding or noise
    bottom = int(np.argmax(logarithm <= low))
    half = positive[bottom // 2 : bottom + 1]
    if len(half) < MIN_FIT_POINTS:
        return None
    slope = np.polyfit(iteration[half], np.log(error[half]), 1)[0]
    return float(-np.expm1(slope)) if slope < 0 else None


def bits_saved(trace: Trace) -> float | None:
    """Return how many times fewer bits were sent than one vector of 32-bit numbers per link and iteration."""
    last = trace.summary()
    sent = last["wire_bits_per_link"]
    return FLOAT_BITS * trace.x.shape[1] * last["iterations"] / sent if sent else None


def is_spread(groups: Sequence[RunGroup], column: str) -> bool:
    """Return whether the ends of the runs differ so much that their axis should be logarithmic."""
    ends = [value for group in groups for value in group.values(column) if value > 0]
    return bool(ends) and max(ends) > LOG_ABOVE * min(ends)


def axis_end(groups: Sequence[RunGroup], column: str) -> float | None:
    """Return where an axis may end: a tenth of the target, if a run goes far below it; None to show all.

    Runs stop at their target, so below it there are only last steps. The page says what is below, and can show it.
    """
    target = target_of(groups)
    if target is None or target <= 0 or column != goal_of(groups):
        return None
    return target / 10 if _deepest(groups, column)[0] < DEEP * target else None


def _deepest(groups: Sequence[RunGroup], column: str) -> tuple[float, str]:
    """Return the smallest positive value of a column, and the name of its run."""
    found = (math.inf, "")
    for group in groups:
        for trace in group.traces:
            values = np.asarray(trace.columns.get(column, ()), float)
            positive = values[(values > 0) & np.isfinite(values)]
            if positive.size:
                found = min(found, (float(positive.min()), group.name))
    return found


def end_note(groups: Sequence[RunGroup], column: str) -> str:
    """Return the sentence about an axis that does not show all; empty if it does."""
    end = axis_end(groups, column)
    if end is None:
        return ""
    value, name = _deepest(groups, column)
    return f"The vertical axis ends at a tenth of the target; {name} goes down to {value:.1g}."


def _power(value: float) -> str:
    return f"{value:.2e}"


def fewest(groups: Sequence[RunGroup], column: str = BITS) -> float | None:
    """Return the bits or seconds of the best run; None if none reached the target, or if runs have different tasks."""
    if target_of(groups) is None or not one_task(groups):
        return None
    return min((group.mean(column) for group in groups if group.converged), default=None)


def main_row(group: RunGroup, best: float | None, goal: str, column: str = BITS) -> dict[str, str]:
    """Return the columns that matter most; `best` are the bits or seconds of the best run, by which runs are ranked.

    `goal` is shown with the error. A column that a run does not have is "-".
    """
    ratio = f"{group.mean(column) / best:.2f}" if best and group.converged else "-"
    return {
        "run": group.name,
        "bits per link": group.shown("wire_bits_per_link", human),
        "times the best": ratio,
        "simulated seconds": group.shown("simulated_seconds", lambda value: f"{value:.3g}"),
        "iterations": group.shown("iteration", lambda value: f"{value:,.0f}"),
        **{name.replace("_", " "): group.shown(name, _power) for name in dict.fromkeys(("error", goal))},
        "test loss": group.shown("test_loss", lambda value: f"{value:.4g}"),
        "test accuracy": group.shown("test_accuracy", lambda value: f"{value:.1%}"),
        "ended": group.ended,
    }


def further_row(group: RunGroup) -> dict[str, str]:
    """Return the other columns; a rate and the bits saved are those of the first seed."""
    rate, measured, saved = group.first.provenance.get("rate"), measured_rate(group.first), bits_saved(group.first)
    return {
        "run": group.name,
        "nominal bits": group.shown("bits_per_link", human),
        "bits saved": "-" if saved is None else f"{saved:.1f} ×",
        "suboptimality": group.shown("suboptimality", _power),
        "consensus": group.shown("consensus", _power),
        "epochs": group.shown("epochs", lambda value: f"{value:.4g}"),
        "seconds": group.shown("seconds", lambda value: f"{value:.3g}"),
        "rate, proven": "-" if rate is None else f"{rate:.3g}",
        "rate, measured": "-" if measured is None else f"{measured:.3g}",
        "step sizes": step_sizes_in_words(group.first.settings) or "-",
    }
