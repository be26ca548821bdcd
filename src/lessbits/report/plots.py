"""What all plots share, and the plot of `lessbits demo`."""

import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lessbits._internal.figures import COLOURS, STYLE, label_axis
from lessbits._internal.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

P = ParamSpec("P")
T = TypeVar("T")


def in_style(draw: Callable[P, T]) -> Callable[P, T]:
    """Run a function that draws with our style, and leave matplotlib's settings as they were."""

    @functools.wraps(draw)
    def styled(*arguments: P.args, **keywords: P.kwargs) -> T:
        import matplotlib

        with matplotlib.rc_context(STYLE):
            return draw(*arguments, **keywords)

    return styled


def new_figure(
    rows: int = 1, columns: int = 1, share_y: bool = True, width: float = 5.0, height: float = 3.8
) -> tuple["Figure", Any]:
    """Return a figure and its axes, [rows, columns]. No display is needed, and pyplot does not know the figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharey="row" if share_y else False, squeeze=False)
    return figure, axes


@in_style
def save_figure(figure: "Figure", path: Path, **options: Any) -> None:
    """Write a figure to a file. Equal figures give equal files."""
    if path.suffix == ".svg":
        options["metadata"] = {"Date": None}
    options.setdefault("format", path.suffix.lstrip(".") or "png")
    stream = io.BytesIO()
    figure.savefig(stream, **options)
    write_whole(path, stream.getvalue())


@in_style
def plot_headline(results: dict[str, list[dict[str, Any]]]) -> "Figure":
    """Plot iterations and bits over ω for each network: flat on the star, rising on the ring."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure, grid = new_figure(1, 2, share_y=False, width=5.2, height=4)
    axes = grid[0]
    for (network, rows), colour, marker in zip(results.items(), COLOURS, MARKERS, strict=False):
        exact, others = rows[0], sorted(rows[1:], key=lambda row: row["omega"])
        for axis, column in ((axes[0], "iterations"), (axes[1], "bits_per_link")):
            axis.axhline(exact[column], color=colour, linestyle=":", label=f"{network}, exact messages")
            for family, face in (("dit", colour), ("rand", "white")):
                members = [row for row in others if row["quantizer"].startswith(family)]
                axis.plot(
                    [row["omega"] for row in members],
                    [row[column] for row in members],
                    color=colour,
                    marker=marker,
                    markerfacecolor=face,
                    linestyle="-" if family == "dit" else "--",
                    label=f"{network}, {family}-k",
                )
    for axis in axes:
        axis.set(xscale="log", yscale="log", xlabel="ω of the quantizer (more compression to the right)")
        for one in (axis.xaxis, axis.yaxis):
            one.set_major_locator(LogLocator(subs=(1, 2, 5)))
            one.set_major_formatter(StrMethodFormatter("{x:,g}"))
            one.set_minor_formatter(NullFormatter())
    label_axis(axes[1], "y", "bits_per_link")
    axes[0].set(ylabel="iterations to error 1e-3", title="The star tolerates more compression than the ring")
    axes[1].set(ylabel="bits per link to error 1e-3 (nominal)", title="Bits sent")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    return figure
