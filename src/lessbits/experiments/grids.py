"""Grids and curves that several experiments use."""

from typing import Any

import numpy as np

from lessbits.engines.recording.trace import Trace
from lessbits.tuning import lattice


def grid_values(low: float, high: float, per_decade: int) -> list[float]:
    """Return 10^(j/per_decade) from about `low` to about `high`.

    >>> grid_values(0.1, 1, 2)
    [0.1, 0.316228, 1.0]
    """
    first, last = round(np.log10(low) * per_decade), round(np.log10(high) * per_decade)
    return [lattice(number, per_decade) for number in range(first, last + 1)]


def grid_around(middle: float, per_decade: int) -> list[float]:
    """Return a value of a grid and its two neighbours."""
    number = round(np.log10(middle) * per_decade)
    return [lattice(number + offset, per_decade) for offset in (-1, 0, 1)]


def ending(trace: Trace, target: float) -> dict[str, Any]:
    """Return what a run had spent when its error first reached the target, or at its end."""
    below = np.flatnonzero(trace["error"] <= target)
    index = below[0] if len(below) else len(trace) - 1
    return {
        "reached": bool(len(below)),
        "iterations": int(trace["iteration"][index]),
        "error": float(trace["error"][index]),
        "bits_per_link": float(trace["bits_per_link"][index]),
    }


def thinned(trace: Trace, value: str, most: int = 300) -> dict[str, list[float]]:
    """Return a curve of at most `most` points, for plots and files: half evenly spread, half denser at the start."""
    last = len(trace) - 1
    spread = np.concatenate([np.linspace(0, last, most // 2), np.geomspace(1, max(last, 1), most // 2) - 1])
    picked = np.unique(spread.round().astype(int))
    columns = {name: trace[name][picked] for name in ("iteration", "bits_per_link", "epochs")}
    return {
        **{name: column.tolist() for name, column in columns.items()},
        "value": [float(f"{entry:.5g}") for entry in trace[value][picked]],
    }


def curve_table(about: dict[str, Any], curves: dict[str, dict[str, Any]], most: int = 100) -> list[dict[str, Any]]:
    """Return curves as rows of a table, at most `most` per curve."""
    rows = []
    for name, curve in curves.items():
        count = len(curve["value"])
        for index in np.unique(np.linspace(0, count - 1, most).round().astype(int)):
            point = {column: curve[column][index] for column in ("iteration", "epochs", "bits_per_link", "value")}
            rows.append({**about, "method": name, **point})
    return rows
