"""What reports show of each run: a name, a table row, and curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lessbits._internal.plain_values import plain
from lessbits._internal.wording import human
from lessbits.engines.recording.trace import Trace
from lessbits.report.text import LETTERS, method_in_words, step_sizes_in_words

MAX_CURVE_POINTS = 1500
MIN_FIT_POINTS = 5  # of the fit of a rate
FLOAT_BITS = 32
CUT_BELOW = 1e-6  # a run that ends below this fraction of the median run does not extend the axis

# The axes of the HTML report, in the order of its buttons: column of the trace, title, and factor.
X_AXES = (
    ("iteration", "iterations", 1.0),
    ("wire_bits_per_link", "bits per link", 1.0),
    ("wire_bits_per_link", "bytes per link", 1 / 8),
    ("bits_per_link", "bits per link, nominal", 1.0),
    ("epochs", "epochs", 1.0),
    ("seconds", "seconds", 1.0),
    ("simulated_seconds", "simulated seconds", 1.0),
)
Y_AXES = (
    ("error", "error, mean of ‖xᵢ - x*‖²"),
    ("suboptimality", "suboptimality, f - f*"),
    ("gradient", "gradient, ‖∇f‖² and disagreement"),
    ("loss", "loss, f"),
    ("consensus", "consensus distance, mean of ‖xᵢ - x̄‖²"),
)


def name_runs(traces: Sequence[Trace]) -> list[str]:
    """Name each run by its method and by the settings in which the runs differ."""
    described = [{"method": _method_name(trace), **_differences(trace, traces)} for trace in traces]
    names = [", ".join(str(part) for part in parts.values()) for parts in described]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1)]


def _method_name(trace: Trace) -> str:
    return method_in_words(trace.settings) if "method" in trace.settings else "run"


def _differences(trace: Trace, traces: Sequence[Trace]) -> dict[str, str]:
    """Return the settings in which the runs differ, except those of the method, the step sizes and the length."""
    method = {"method", "option", "messages", "quantizer", "corrected"}
    names = [name for name in trace.settings if name not in method | set(LETTERS) | {"iterations", "record_every"}]
    return {
        name: f"{name.replace('_', ' ')} {trace.settings[name]}"
        for name in names
        if trace.settings[name] is not None and len({str(other.settings.get(name)) for other in traces}) > 1
    }


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


def axis_floor(traces: Sequence[Trace], column: str) -> float | None:
    """Return the lower end of a logarithmic axis if one run ends far below the others; None for an automatic end.

    >>> ends = [1e-31, 1e-3, 9e-4]
    >>> runs = [Trace({"error": np.array([1.0, end])}, np.zeros((1, 1)), True, False, "", 0.0) for end in ends]
    >>> print(f"{axis_floor(runs, 'error'):.0e}", axis_floor(runs[1:], "error"))
    9e-07 None
    """
    ends = sorted(float(trace[column][-1]) for trace in traces if column in trace.columns and trace[column][-1] > 0)
    if len(ends) < 2 or ends[0] > CUT_BELOW * ends[len(ends) // 2]:
        return None
    return 1e-3 * ends[len(ends) // 2]


def table_row(trace: Trace, name: str) -> dict[str, str]:
    """Return the row of a run in the table of a report."""
    last = trace.summary()
    rate, measured, saved = trace.provenance.get("rate"), measured_rate(trace), bits_saved(trace)
    return {
        "run": name,
        "ended": "diverged" if trace.diverged else "reached" if trace.converged else "stopped",
        "iterations": f"{last['iterations']:,}",
        "error": f"{last['error']:.3g}" if "error" in last else "-",
        "bits per link": human(last["wire_bits_per_link"]),
        "nominal": human(last["bits_per_link"]),
        "bits saved": "-" if saved is None else f"{saved:.1f} ×",
        "epochs": f"{last['epochs']:.4g}",
        "seconds": f"{last['seconds']:.3g}",
        "rate, proven": "-" if rate is None else f"{rate:.3g}",
        "rate, measured": "-" if measured is None else f"{measured:.3g}",
        "step sizes": step_sizes_in_words(trace.settings) or "-",
    }


def thin_curves(trace: Trace) -> dict[str, list[Any]]:
    """Return the columns with at most `MAX_CURVE_POINTS` evenly spaced records, the first and the last included."""
    count = len(trace)
    kept = np.unique(np.linspace(0, count - 1, min(count, MAX_CURVE_POINTS)).round().astype(int))
    return {name: plain(np.asarray(column)[kept]) for name, column in trace.columns.items()}
