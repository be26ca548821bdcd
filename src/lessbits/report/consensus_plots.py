"""Plots of the paper's consensus experiments."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lessbits._internal.figures import COLOURS, label_axis
from lessbits.report.plots import LINES, in_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@in_style
def plot_figure_1(rows: list[dict[str, Any]]) -> "Figure":
    """Plot iterations over ω, one panel per network."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    figure, axes = new_figure(1, len(networks), share_y=False)
    for axis, network in zip(axes[0], networks, strict=True):
        own_rows = [row for row in rows if row["network"] == network and row["reached"]]
        exact = [row for row in own_rows if row["quantizer"] == "exact"]
        for row in exact:
            axis.axhline(row["iterations"], color="0.4", linestyle=":", label="exact")
        for family, colour, marker in (("dit", COLOURS[0], "o"), ("rand", COLOURS[1], "s")):
            members = sorted(
                (row for row in own_rows if row["quantizer"].startswith(family)), key=lambda row: float(row["omega"])
            )
            axis.plot(
                [row["omega"] for row in members],
                [row["iterations"] for row in members],
                color=colour,
                marker=marker,
                label=f"{family}-k",
            )
            for row in members:
                if row["omega"] > 0.1:
                    axis.annotate(
                        row["quantizer"].split("-")[1],
                        (row["omega"], row["iterations"]),
                        textcoords="offset points",
                        xytext=(0, 6 if family == "dit" else -13),
                        ha="center",
                        fontsize=7,
                        color=colour,
                    )
        axis.set(
            xscale="log",
            yscale="log",
            title=network,
            xlabel="ω of the quantizer (numbers: k)",
            xlim=(0.4, 40),  # below, results equal those of exact messages
            ylabel="iterations to error 1e-3",
        )
        if exact:
            low, high = axis.get_ylim()
            axis.set_ylim(min(low, exact[0]["iterations"] / 2), max(high, 2 * exact[0]["iterations"]))
        axis.legend(loc="upper left")  # iterations grow with ω
    return figure


@in_style
def plot_curves(
    curves: Mapping[str, Mapping[str, list[float]]],
    panels: Mapping[str, str],
    ylabel: str,
    titles: list[str] | None = None,
    limits: Mapping[str, tuple[float, float]] | None = None,
    log_x: tuple[str, ...] = (),
) -> "Figure":
    """Plot the error of each run over several columns, one panel per column.

    `panels` maps columns to axis labels, `limits` columns to ranges, and `log_x` names columns with a logarithmic axis.
    """
    figure, axes = new_figure(1, len(panels))
    for axis, (column, label) in zip(axes[0], panels.items(), strict=True):
        for number, (name, curve) in enumerate(curves.items()):
            # A logarithmic axis has no zero: start at the first positive value.
            first = next(at for at, x in enumerate(curve[column]) if x > 0) if column in log_x else 0
            axis.plot(
                curve[column][first:],
                curve["value"][first:],
                color=COLOURS[number % len(COLOURS)],
                linestyle=LINES[number % 4],  # so that curves that coincide are both visible
                label=name,
            )
        axis.set_yscale("log")
        if column in log_x:
            axis.set_xscale("log")
        label_axis(axis, "x", column)
        axis.set(xlabel=label, ylabel=ylabel)
        if limits and column in limits:
            axis.set_xlim(*limits[column])
    axes[0][-1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
    for axis, title in zip(axes[0], titles or [], strict=False):
        axis.set_title(title)
    return figure
