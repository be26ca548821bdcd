"""Draws docs/images/fashion.svg, accuracies on Fashion-MNIST against bytes: `python docs/draw_fashion.py`.

The runs are those of benchmarks/neural/fashion.jsonl with different data at the nodes. Each method is shown by the
configuration that `rounds_table.py` chooses, the mean of its seeds; accuracies are the best until then.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lessbits._internal.figures import COLOURS, label_axis
from lessbits.report.plots import in_style, new_figure

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "neural"))

from draw_pictures import write_svg  # noqa: E402
from fashion import STUDY  # noqa: E402
from rounds_table import chosen  # noqa: E402

SPLIT, SILENT = "dirichlet 0.1", "no communication"
TITLES = {"accuracy": "Mean model", "accuracy_worst": "Worst node"}


def curves() -> dict[str, dict[str, np.ndarray]]:
    """Return bytes and accuracies of each method, the best mean model first."""
    text = (ROOT / "benchmarks" / "neural" / "fashion.jsonl").read_text(encoding="utf-8")
    lines = [line for line in map(json.loads, text.splitlines()) if line["split"] == SPLIT]
    found: dict[str, dict[str, np.ndarray]] = {}
    for method in {line["method"] for line in lines} - {SILENT}:
        number = chosen(STUDY, lines, SPLIT, method)
        runs = [line["records"] for line in lines if line["method"] == method and line["round"] == number]
        columns = {name: np.mean([np.maximum.accumulate(run[name]) for run in runs], axis=0) for name in TITLES}
        found[method] = {"bytes": np.mean([run["bytes"] for run in runs], axis=0), **columns}
    return dict(sorted(found.items(), key=lambda item: -item[1]["accuracy"][-1]))


@in_style
def plot() -> Any:
    """Plot the accuracy of the mean model and of the worst node against bytes."""
    figure, (axes,) = new_figure(1, 2, width=5.4, height=4.0)
    for number, (method, columns) in enumerate(curves().items()):
        style: dict[str, Any] = {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": "-" if number < len(COLOURS) else "--",
        }
        style |= {"linewidth": 3.0} if "(ours)" in method else {}
        for axis, name in zip(axes, TITLES, strict=True):
            label = {"label": method} if name == "accuracy" else {}
            axis.plot(columns["bytes"][1:], columns[name][1:], **style, **label)
    for axis, title in zip(axes, TITLES.values(), strict=True):
        axis.set_xscale("log")
        label_axis(axis, "x", "bytes_between_ranks")
        axis.set_xlabel("bytes that a node sent")
        axis.set_title(title)
    axes[0].set_ylabel("test accuracy, best until then")
    figure.legend(loc="outside right upper")
    return figure


if __name__ == "__main__":
    write_svg("fashion", plot())
