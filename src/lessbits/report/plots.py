"""Plots as files."""

from pathlib import Path
from typing import Any


def plot_headline(results: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Draw iterations and bits over ω for each network: flat on the star, rising on the ring."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for (network, rows), colour, marker in zip(results.items(), ("#0072B2", "#D55E00"), ("o", "s"), strict=False):
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
        axis.grid(True, which="both", alpha=0.25)
    axes[0].set_title("Compression is free on the star, not on the ring", fontsize=11)
    axes[1].set_title("Bits sent", fontsize=11)
    axes[0].legend(fontsize=8, loc="center right")
    figure.savefig(path, dpi=130)
    plt.close(figure)
