"""What all plots share, and the plot of `lessbits demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def new_figure(
    rows: int = 1, columns: int = 1, share_y: bool = True, width: float = 5.0, height: float = 3.8
) -> tuple["Figure", Any]:
    """Return a figure and its axes, [rows, columns], with grids; no display is needed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "lessbits"  # so that the same data give the same file
    plt.rcParams["legend.loc"] = (
        "upper right"  # curves descend, and Matplotlib's search for the best place can take seconds
    )
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(width * columns, height * rows),
        sharey="row" if share_y else False,
        constrained_layout=True,
        squeeze=False,
    )
    for axis in axes.flat:
        axis.grid(True, which="both", alpha=0.25)
    return figure, axes


def plot_headline(results: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Plot iterations and bits over ω for each network: flat on the star, rising on the ring."""
    figure, grid = new_figure(1, 2, share_y=False, height=4)
    axes = grid[0]
    for (network, rows), colour, marker in zip(results.items(), COLOURS, ("o", "s"), strict=False):
        exact, others = rows[0], sorted(rows[1:], key=lambda row: row["omega"])
        for axis, column, scale in ((axes[0], "iterations", 1), (axes[1], "bits_per_link", 1e6)):
            axis.axhline(exact[column] / scale, color=colour, linestyle=":", label=f"{network}, exact messages")
            for family, face in (("dit", colour), ("rand", "white")):
                members = [row for row in others if row["quantizer"].startswith(family)]
                axis.plot(
                    [row["omega"] for row in members],
                    [row[column] / scale for row in members],
                    color=colour,
                    marker=marker,
                    markerfacecolor=face,
                    linestyle="-" if family == "dit" else "--",
                    label=f"{network}, {family}-k",
                )
    for axis, label in ((axes[0], "iterations to error 1e-3"), (axes[1], "Mbit per link to error 1e-3 (nominal)")):
        axis.set(xscale="log", yscale="log", xlabel="ω of the quantizer (more compression to the right)", ylabel=label)
    axes[0].set_title("Compression is free on the star, not on the ring", fontsize=11)
    axes[1].set_title("Bits sent", fontsize=11)
    axes[0].legend(fontsize=8, loc="center right")
    figure.savefig(path, dpi=130)
    _close(figure)


def _close(figure: "Figure") -> None:
    import matplotlib.pyplot as plt

    plt.close(figure)
