"""The look of all figures: colours, titles of columns, and units on axes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lessbits._internal.wording import shortened
from lessbits.errors import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, which colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
PAGE, TEXT, FRAME, GRID = "#ffffff", "#24292f", "#8b949e", "#d8dee4"

# What an axis shows, by the name of the trace's column.
TITLES = {
    "iteration": "iterations",
    "wire_bits_per_link": "bits per link",
    "bits_per_link": "bits per link, nominal",
    "total_bits": "bits on all links, nominal",
    "bytes_between_ranks": "bytes between ranks",
    "gradient_evaluations": "sample gradients",
    "gradient_rounds": "gradient rounds",
    "simulated_seconds": "simulated seconds",
    "error": "error, mean of ‖xᵢ − x*‖²",
    "suboptimality": "suboptimality, f − f*",
    "gradient": "gradient, ‖∇f(x̄)‖² + L²·mean of ‖xᵢ − x̄‖²",
    "loss": "loss, f(x̄)",
    "consensus": "consensus distance, mean of ‖xᵢ − x̄‖²",
    "test_loss": "test loss",
    "test_accuracy": "test accuracy",
}
MOST_LABELS = 12  # events that are named in a figure; more are lines only
UNITS = {"wire_bits_per_link": "bit", "bits_per_link": "bit", "total_bits": "bit", "bytes_between_ranks": "B"}

# Settings of matplotlib, for figures that this package makes from the start.
STYLE: dict[Any, Any] = {
    "axes.edgecolor": FRAME,
    "axes.grid": True,
    "axes.labelcolor": TEXT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.facecolor": PAGE,
    "axes.facecolor": PAGE,
    "font.size": 10,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.loc": "upper right",  # curves descend, and the search for the best place can take seconds
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "svg.hashsalt": "lessbits",  # so that the same data give the same file
    "text.color": TEXT,
    "xtick.color": FRAME,
    "xtick.labelcolor": TEXT,
    "ytick.color": FRAME,
    "ytick.labelcolor": TEXT,
}


def title_of(column: str) -> str:
    """Return the title of an axis that shows a column.

    >>> title_of("wire_bits_per_link"), title_of("gradient_norm")
    ('bits per link', 'gradient norm')
    """
    return TITLES.get(column, column.replace("_", " "))


def style_axis(axis: "Axes") -> None:
    """Give one axis the style, without changing matplotlib's settings."""
    axis.grid(True, color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(FRAME)
    axis.tick_params(color=FRAME)


def label_axis(axis: "Axes", direction: str, column: str) -> None:
    """Name a column on the axis "x" or "y", and write numbers with their unit: 200 kbit, 1.5 Mbit, 20,000."""
    from matplotlib.ticker import EngFormatter, NullFormatter, StrMethodFormatter

    one = axis.xaxis if direction == "x" else axis.yaxis
    one.set_label_text(title_of(column).replace("$", r"\$"))  # else a formula
    if column in UNITS:
        one.set_major_formatter(EngFormatter(unit=UNITS[column]))
        one.set_minor_formatter(NullFormatter())  # labels between powers of ten would overlap
    elif direction == "x" and one.get_scale() == "linear":
        one.set_major_formatter(StrMethodFormatter("{x:,g}"))


def mark_events(axis: "Axes", events: Sequence[tuple[float, str]]) -> None:
    """Draw events as thin vertical lines with their names, each once however many curves have it."""
    drawn = {line.get_gid() for line in axis.lines}
    for place, text in events:
        name = f"event {place:g}: {text}"
        if name in drawn:
            continue
        drawn.add(name)
        axis.axvline(place, color=FRAME, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1, gid=name, label="_event")
        if len(events) <= MOST_LABELS:
            shown = shortened(printable(text)).replace("$", r"\$")
            axis.annotate(
                shown,
                (place, 1),
                xycoords=("data", "axes fraction"),
                xytext=(-3, -3),
                textcoords="offset points",
                rotation=90,
                ha="right",
                va="top",
                fontsize=7,
                color=FRAME,
            )
