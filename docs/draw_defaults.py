"""Draws docs/images/defaults.svg, bits with default over tuned step sizes: `python docs/draw_defaults.py`.

The runs are those of benchmarks/defaults/results.jsonl.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lessbits._internal.figures import COLOURS
from lessbits.report.plots import in_style, new_figure

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "defaults"))

from draw_pictures import write_svg  # noqa: E402
from table import KINDS, ratio, whole  # noqa: E402

TICKS = (1, 2, 5, 10, 20, 50, 100, 200)


@in_style
def plot() -> Any:
    """Plot the share of combinations within each ratio."""
    lines = (ROOT / "benchmarks" / "defaults" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    rows = whole([json.loads(line) for line in lines])
    figure, ((axis,),) = new_figure(1, 1, width=6.4, height=3.6)
    for number, name in enumerate(dict.fromkeys(row["method"] for row in rows)):
        for kind, style in zip(KINDS, (":", "-"), strict=True):
            ratios = np.sort([ratio(row, kind) for row in rows if row["method"] == name])
            shares = 100 * np.arange(1, len(ratios) + 1) / len(ratios)
            axis.step(ratios, shares, style, color=COLOURS[number], where="post", label=f"{name}, {kind}")
    axis.axvline(2, color=COLOURS[-1], linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xticks(TICKS, labels=[str(tick) for tick in TICKS])
    axis.set_xlabel("bits over those with tuned step sizes")
    axis.set_ylabel("% of combinations")
    figure.legend(loc="outside right upper")
    return figure


if __name__ == "__main__":
    write_svg("defaults", plot())
