"""Reports as files: HTML, Markdown, and pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lessbits._internal.files import write_whole
from lessbits.engines.recording.trace import Trace
from lessbits.errors import InputError, check_name
from lessbits.report.page import html_page
from lessbits.report.plots import COLOURS, new_figure
from lessbits.report.runs import axis_floor, name_runs, table_row

FORMATS = ("html", "png", "svg", "pdf", "md")
PANELS = (("iteration", "iterations", 1.0), ("wire_bits_per_link", "kbit per link", 1e-3))


def load_runs(places: Sequence[Path]) -> list[Trace]:
    """Read traces from files, and from folders all files that end in .trace, sorted by name."""
    found: list[Path] = []
    for place in places:
        inside = sorted(place.glob("*.trace")) if place.is_dir() else [place]
        if not inside:
            raise InputError(f"the folder {place} has no traces: lessbits run --save NAME.trace writes them")
        found += inside
    return [Trace.load(path) for path in found]


def write_report(traces: Sequence[Trace], path: Path, kind: str | None = None, x_axis: str = "iterations") -> None:
    """Write a report to a file.

    `kind` is one of `FORMATS`; by default the extension of the file decides. `x_axis` is the title of the horizontal
    axis that an HTML report shows first.
    """
    kind = kind or path.suffix.lstrip(".") or "html"
    check_name("format", kind, FORMATS)
    if kind == "html":
        write_whole(path, html_page(traces, x_axis=x_axis))
    elif kind == "md":
        write_whole(path, markdown_report(traces))
    else:
        draw_report(traces, path, kind)


def markdown_report(traces: Sequence[Trace]) -> str:
    """Return a table of the runs in Markdown, with the command of each."""
    names = name_runs(traces)
    rows = [table_row(trace, name) for trace, name in zip(traces, names, strict=True)]
    lines = ["| " + " | ".join(rows[0]) + " |", "|---|" + "---:|" * (len(rows[0]) - 1)]
    lines += ["| " + " | ".join(cells.values()) + " |" for cells in rows]
    commands = [
        f"- {name}: `{trace.provenance.get('command', 'unknown')}`" for trace, name in zip(traces, names, strict=True)
    ]
    return "\n".join([*lines, "", "Commands:", "", *dict.fromkeys(commands), ""])


def draw_report(traces: Sequence[Trace], path: Path, kind: str) -> None:
    """Plot the error against iterations and bits."""
    import matplotlib.pyplot as plt

    figure, axes = new_figure(1, len(PANELS), width=5.5, height=4.2)
    for number, (trace, name) in enumerate(zip(traces, name_runs(traces), strict=True)):
        style = {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": ("-", "--", ":", "-.")[number // len(COLOURS) % 4],
        }
        for axis, (column, _, factor) in zip(axes[0], PANELS, strict=True):
            error = trace[trace.metric or column]
            error = np.where(error > 0, error, np.nan)
            axis.semilogy(
                trace[column] * factor, error, label=name, marker="os^Dvxp"[number % 7], markevery=0.2, **style
            )
    for axis, (_, title, _) in zip(axes[0], PANELS, strict=True):
        axis.set(xlabel=title, ylabel="error, mean of ‖xᵢ - x*‖²", ylim=(axis_floor(traces, "error"), None))
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.0), fontsize=8)  # names can be long
    figure.savefig(path, dpi=150, format=kind, bbox_inches="tight")
    plt.close(figure)
