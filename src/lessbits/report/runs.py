"""What reports say of runs: names that tell them apart, their records, how fast they were, and what they saved."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lessbits._internal.plain_values import plain
from lessbits._internal.wording import human
from lessbits.engines.recording.trace import Trace
from lessbits.report.text import method_in_words, step_sizes_in_words

MOST_POINTS = 1500  # of a curve
FEWEST_POINTS = 5  # that a slope is fitted to
FLOAT_BITS = 32
DEEPER = 1e-6  # than the middle run, from which on an axis is cut

# What curves can be drawn against and over, in the order of the buttons: column, title, factor.
ACROSS = (
    ("iteration", "iterations", 1.0),
    ("wire_bits_per_link", "bits per link", 1.0),
    ("wire_bits_per_link", "bytes per link", 1 / 8),
    ("bits_per_link", "bits per link, nominal", 1.0),
    ("epochs", "epochs", 1.0),
    ("seconds", "seconds", 1.0),
    ("simulated_seconds", "simulated seconds", 1.0),
)
UPWARDS = (
    ("error", "error, mean of ‖xᵢ - x*‖²"),
    ("suboptimality", "suboptimality, f - f*"),
    ("consensus", "consensus distance, mean of ‖xᵢ - x̄‖²"),
)


def name_runs(traces: Sequence[Trace]) -> list[str]:
    """Name runs by what tells them apart: the method first, then whatever else differs."""
    described = [{"method": _words(trace), **_differences(trace, traces)} for trace in traces]
    names = [", ".join(str(part) for part in parts.values()) for parts in described]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1)]


def _words(trace: Trace) -> str:
    return method_in_words(trace.settings) if "method" in trace.settings else "run"


def _differences(trace: Trace, traces: Sequence[Trace]) -> dict[str, str]:
    """Return the settings, but for those that the words hold and those that were chosen, that are not all alike."""
    said = {"method", "option", "messages", "quantizer", "corrected", "theta", "eta", "alpha", "gamma", "iterations"}
    names = [name for name in trace.settings if name not in said | {"momentum", "epsilon", "decay", "record_every"}]
    return {
        name: f"{name.replace('_', ' ')} {trace.settings[name]}"
        for name in names
        if trace.settings[name] is not None and len({str(other.settings.get(name)) for other in traces}) > 1
    }


def measured_rate(trace: Trace) -> float | None:
    """Return by what share the error shrank an iteration, fitted to the second half of its way down.

    >>> import numpy as np
    >>> columns = {"iteration": np.arange(100), "error": 0.9 ** np.arange(100)}
    >>> print(f"{measured_rate(Trace(columns, np.zeros((1, 1)), False, False, '', 0.0)):.3f}")
    0.100
    """
    iteration, error = trace["iteration"].astype(float), trace["error"].astype(float)
    falling = np.flatnonzero((error > 0) & np.isfinite(error))
    if trace.diverged or len(falling) < FEWEST_POINTS:
        return None
    logarithm = np.log(error[falling])
    low = logarithm.min() + 0.05 * (logarithm[0] - logarithm.min())  # where it is rounding, or only turns
    bottom = int(np.argmax(logarithm <= low))
    half = falling[bottom // 2 : bottom + 1]
    if len(half) < FEWEST_POINTS:
        return None
    slope = np.polyfit(iteration[half], np.log(error[half]), 1)[0]
    return float(-np.expm1(slope)) if slope < 0 else None


def bits_saved(trace: Trace) -> float | None:
    """Return how many times more bits a vector of 32-bit numbers on each link in each iteration would have been."""
    last = trace.summary()
    sent = last["wire_bits_per_link"]
    return FLOAT_BITS * trace.x.shape[1] * last["iterations"] / sent if sent else None


def floor(traces: Sequence[Trace], column: str) -> float | None:
    """Return where a log axis should end if one run goes so deep that nothing could be seen of the others.

    >>> ends = [1e-31, 1e-3, 9e-4]
    >>> runs = [Trace({"error": np.array([1.0, end])}, np.zeros((1, 1)), True, False, "", 0.0) for end in ends]
    >>> print(f"{floor(runs, 'error'):.0e}", floor(runs[1:], "error"))
    9e-07 None
    """
    ends = sorted(float(trace[column][-1]) for trace in traces if column in trace.columns and trace[column][-1] > 0)
    if len(ends) < 2 or ends[0] > DEEPER * ends[len(ends) // 2]:
        return None
    return 1e-3 * ends[len(ends) // 2]


def row(trace: Trace, name: str) -> dict[str, str]:
    """Return what the table of a report says of a run."""
    last = trace.summary()
    rate, measured, saved = trace.provenance.get("rate"), measured_rate(trace), bits_saved(trace)
    return {
        "run": name,
        "ended": "diverged" if trace.diverged else "reached" if trace.converged else "stopped",
        "iterations": f"{last['iterations']:,}",
        "error": f"{last['error']:.3g}",
        "bits per link": human(last["wire_bits_per_link"]),
        "nominal": human(last["bits_per_link"]),
        "bits saved": "-" if saved is None else f"{saved:.1f} ×",
        "epochs": f"{last['epochs']:.4g}",
        "seconds": f"{last['seconds']:.3g}",
        "rate, proven": "-" if rate is None else f"{rate:.3g}",
        "rate, measured": "-" if measured is None else f"{measured:.3g}",
        "step sizes": step_sizes_in_words(trace.settings) or "-",
    }


def curves(trace: Trace) -> dict[str, list[Any]]:
    """Return the columns, thinned evenly to what a plot can show, the first and the last kept."""
    count = len(trace)
    kept = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int))
    return {name: plain(np.asarray(column)[kept]) for name, column in trace.columns.items()}
