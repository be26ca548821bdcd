"""Draws docs/images/neural.svg, losses of a character GPT against bytes and time: `python docs/draw_neural.py`.

The runs are those of benchmarks/neural/alike.jsonl with 8 nodes and the first seed, six of each method; the file keeps
losses below 1.58 and the lowest. Each method is shown by one configuration: the one that reaches DDP's best loss with
the fewest bytes, or, if none does, a loss 1 % or 4 % above it, or else the one with the lowest loss. Time is that of
local steps and what links of 10 Mbit/s take for the bytes.
"""

import sys
from pathlib import Path
from typing import Any

from lessbits._internal.figures import COLOURS, label_axis
from lessbits.report.plots import in_style, new_figure

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "neural"))

from draw_pictures import write_svg  # noqa: E402
from summary import SHARES, bytes_until, method_of, read  # noqa: E402

BYTES_PER_SECOND, STEP_SECONDS = 10e6 / 8, 0.1
Rows = list[dict[str, float]]


def curves() -> tuple[dict[str, Rows], float]:
    """Return the rows of one configuration of each method, best first, and DDP's best loss."""
    runs = [
        (method_of(config), [row for row in rows if "mean" in row])
        for config, rows in read([ROOT / "benchmarks" / "neural" / "alike.jsonl"]).values()
        if rows and config.get("nodes", 8) == 8 and not config.get("seed", 0)
    ]
    goal = min(row["mean"] for name, rows in runs if name == "DDP" for row in rows)
    chosen: dict[str, tuple[tuple[float, ...], Rows]] = {}
    for name, rows in runs:
        key = *(bytes_until(rows, share * goal, "mean") for share in SHARES), min(row["mean"] for row in rows)
        if name not in chosen or key < chosen[name][0]:
            chosen[name] = key, rows
    order = sorted(chosen, key=lambda name: bytes_until(chosen[name][1], 1.04 * goal, "mean"))
    return {name: lowest(chosen[name][1]) for name in order}, goal


def lowest(rows: Rows) -> Rows:
    """Return the rows up to the lowest loss: what comes after it costs bytes for nothing."""
    best = min(range(len(rows)), key=lambda number: rows[number]["mean"])
    return rows[: best + 1]


def seconds(row: dict[str, float]) -> float:
    """Return the time until a row."""
    return row["step"] * STEP_SECONDS + row["bytes"] / BYTES_PER_SECOND


@in_style
def plot() -> Any:
    """Plot the loss of the mean model against bytes, and against time."""
    found, goal = curves()
    figure, ((left, right),) = new_figure(1, 2, width=5.4, height=4.0)
    for number, (name, rows) in enumerate(found.items()):
        style = {"color": COLOURS[number % len(COLOURS)], "linestyle": "-" if number < len(COLOURS) else "--"}
        style |= {"marker": "o"} if len(rows) == 1 else {}
        style |= {"linewidth": 3.0} if "in turn" in name else {}
        losses = [row["mean"] for row in rows]
        left.plot([row["bytes"] for row in rows], losses, label=name, **style)
        right.plot([seconds(row) / 60 for row in rows], losses, **style)
    for axis in (left, right):
        axis.set_xscale("log")
        axis.axhline(goal, color=COLOURS[-1], linewidth=0.8, linestyle=":")
        axis.set_ylim(1.475, 1.6)
    label_axis(left, "x", "bytes_between_ranks")
    left.set_xlabel("bytes that a node sent")
    right.set_xlabel(f"minutes at 10 Mbit/s, with {STEP_SECONDS * 1e3:.0f} ms per step")
    right.xaxis.set_major_formatter("{x:g}")
    left.set_ylabel("validation loss of the mean model")
    left.set_title("Against bytes")
    right.set_title("Against time, computed")
    figure.legend(loc="outside right upper")
    return figure


if __name__ == "__main__":
    write_svg("neural", plot())
