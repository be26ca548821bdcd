"""Take the tuned parameters of Figure 3 from a folder of Table 5, in place of searching them again."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from lessbits.errors import InputError
from lessbits.experiments.figure3_methods import Entrant
from lessbits.experiments.made_with import why_stale
from lessbits.experiments.results import Results, Row
from lessbits.experiments.table5 import Case
from lessbits.report.text import LETTERS
from lessbits.tuning import lattice


def keep_tuned(results: Results, folder: Path) -> int:
    """Keep the parameters of a folder that `lessbits reproduce table5` wrote as cells, and return how many.

    Raise an `InputError` if this version would make another table. Parameters that were not searched, those of theorems
    and those that w8a takes from w1a, are left to be computed.
    """
    if (reason := why_stale(folder, "table5")) is not None:
        raise InputError(f"{folder} is not of this version ({reason}): leave it out, and parameters are searched")
    rows = json.loads((folder / "table5.json").read_text(encoding="utf-8"))
    return sum(_keep(results, row) for row in rows if row["tuned_on"] == row["data"])


def _keep(results: Results, row: Row) -> bool:
    case = Case(results, row["data"], row["gradients"])
    entrant = next(one for one in case.entrants if one.label == row["method"])
    if not entrant.ranges:
        return False
    found: dict[str, Any] = {
        "sizes": sizes_from_words(entrant, row["ours"]),
        "value": row["suboptimality"],
        "notes": row["notes"].split("; ") if row["notes"] else [],
    }
    results.cell(*case.tuning_cell(entrant), lambda: found)
    return True


def sizes_from_words(entrant: Entrant, words: str) -> dict[str, float]:
    """Return the values of the grid that a table shows with four digits.

    >>> sizes_from_words(Entrant("D-GD", "dgd", "B", "exact", {"eta": (1.0, 100.0, 3)}), "η = 4.642")
    {'eta': 4.64159}
    """
    shown = dict(each.split(" = ") for each in words.split(", "))
    return {name: _on_grid(float(shown[LETTERS[name]]), limits[2]) for name, limits in entrant.ranges.items()}


def _on_grid(shown: float, per_decade: int) -> float:
    value = lattice(round(np.log10(shown) * per_decade), per_decade)
    if f"{value:.4g}" != f"{shown:.4g}":
        raise InputError(f"{shown:g} is not a value of a grid with {per_decade} values per decade")
    return value
