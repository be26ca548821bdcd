"""Plots of rates: iterations over κ, ρ and ω, convergence curves, and the map of free compression."""

from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits._internal.figures import COLOURS
from lessbits.report.plots import MARKERS, in_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]


def _legend_below(figure: "Figure", axes: list["Axes"], columns: int) -> None:
    """Show each label of all panels once, in a legend below them."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)


def _few_ticks(axis: "Axes") -> None:
    """Label only powers of ten: labels between them would overlap."""
    from matplotlib.ticker import NullFormatter

    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_minor_formatter(NullFormatter())


@in_style
def plot_slopes(rows: list[Row]) -> "Figure":
    """Plot the iterations that reduce the error by a factor e over κ, ρ and ω: measured (markers), proven (dashed)."""
    figure, (axes,) = new_figure(1, 3, width=4.4, height=4.8)
    styles = {key: at for at, key in enumerate(dict.fromkeys((row["problem"], row["option"]) for row in rows))}
    panels = (
        ("kappa", "condition number κ (option D: of single samples)"),
        ("rho", "network condition number ρ"),
        ("omega", "quantizer's ω"),
    )
    for axis, (varied, label) in zip(axes, panels, strict=True):
        panel = [row for row in rows if row["varied"] == varied]
        for problem, option, family in dict.fromkeys((r["problem"], r["option"], r["family"]) for r in panel):
            sweep = [r for r in panel if (r["problem"], r["option"], r["family"]) == (problem, option, family)]
            at = styles[problem, option]
            sized = family.endswith("sizes")
            values = [row[varied] for row in sweep]
            look: Row = {"color": COLOURS[at], "linewidth": 1.2, "alpha": 0.9}
            axis.plot(
                values,
                [1 / row["rate_error"] for row in sweep],
                marker=("*" if "star" in family else "h") if sized else MARKERS[at],
                markerfacecolor="white" if sized else COLOURS[at],
                label=f"{problem}, option {option}" + (f", {family}" if sized else ""),
                **look,
            )
            axis.plot(values, [1 / row["rate_theory"] for row in sweep], linestyle="--", **look)
        axis.set(xscale="log", yscale="log", xlabel=label)
    for axis in axes:
        _few_ticks(axis)
    axes[0].set_ylabel("iterations for a factor e of the squared error")
    axes[0].plot([], [], color="grey", linestyle="--", label="proven: 1/rate of the theorem")
    figure.suptitle("Algorithm 1 at theory's step sizes: measured (solid) and proven (dashed)", fontsize=12)
    _legend_below(figure, axes, 4)
    return figure


@in_style
def plot_methods(rows: list[Row]) -> "Figure":
    """Plot the error of sublinear methods in log-log scale, and of linear methods in log scale."""
    figure, ((left, right),) = new_figure(1, 2, share_y=False, width=6, height=4.6)
    sublinear = [row for row in rows if "tau" in row]
    linear = [row for row in rows if "tau" not in row]
    for at, row in enumerate(sublinear):
        iteration, error = np.array(row["curve"][1:]).T
        left.plot(iteration, error, color=COLOURS[at], label=f"{row['method']}: $k^{{{row['power']:.2f}}}$")
        late = iteration >= iteration[-1] / 100
        guide = 2.5 * error[-1] * (iteration[late] / iteration[-1]) ** (-1 / row["tau_paper"])
        left.plot(iteration[late], guide, color=COLOURS[at], linestyle=":", linewidth=1.2)
    left.plot([], [], color="grey", linestyle=":", label="slope in the paper's Table 1")
    left.set(xscale="log", yscale="log", xlabel="iteration k", ylabel="squared error", title="Sublinear")
    left.legend(loc="lower left")
    for at, row in enumerate(linear):
        iteration, error = np.array(row["curve"]).T
        right.plot(iteration, error, color=COLOURS[at + 3], label=row["method"])
    right.set(yscale="log", xlabel="iteration k", ylabel="squared error", title="Linear (note the scale of k)")
    right.legend(loc="upper right")
    return figure


@in_style
def plot_growth(rows: list[Row]) -> "Figure":
    """Plot the tuned iterations of linear methods over κ, ρ and both."""
    figure, (axes,) = new_figure(1, 3, width=4.4, height=4.4)
    labels = {"kappa": "condition number κ", "rho": "network condition number ρ", "product": "κρ, both growing"}
    for axis, (varied, label) in zip(axes, labels.items(), strict=True):
        for at, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
            solved = [r for r in rows if (r["method"], r["varied"]) == (method, varied) and r["iterations"]]
            values, needed = [row[varied] for row in solved], [row["iterations"] for row in solved]
            axis.plot(values, needed, color=COLOURS[at + 3], marker=MARKERS[at], label=method)
        solved = [row for row in rows if row["varied"] == varied and row["iterations"]]
        values = sorted({row[varied] for row in solved})
        least = 0.6 * min(row["iterations"] for row in solved)
        guide = [least * value / values[0] for value in values]
        axis.plot(values, guide, color="grey", linestyle=":", label="proportional")
        axis.set(xscale="log", yscale="log", xlabel=label)
        _few_ticks(axis)
    axes[0].set_ylabel("iterations to squared error 1e-8, tuned")
    _legend_below(figure, axes, 5)
    return figure


@in_style
def plot_options(rows: list[Row], floors: list[Row]) -> "Figure":
    """Plot the error of options A to D, and the floor of option C over η."""
    figure, ((left, right),) = new_figure(1, 2, share_y=False, width=6, height=4.4)
    for at, row in enumerate(rows):
        iteration, error = np.array(row["curve"][1:]).T
        left.plot(iteration, error, color=COLOURS[at], label=f"option {row['option']}")
    most = 1.5 * max(row["iterations"] for row in rows if row["option"] != "C")
    left.set(yscale="log", xlabel="iteration", ylabel="squared error", xlim=(0, most))
    left.set_title("Options A, B, C and D")
    left.legend()
    etas = [row["eta"] for row in floors]
    right.plot(etas, [row["floor_measured"] for row in floors], color=COLOURS[2], marker="o", label="measured")
    right.plot(
        etas, [row["floor_theory"] for row in floors], color=COLOURS[6], linestyle="--", label="bound $4η^2σ^2/ρ_C$"
    )
    right.set(xscale="log", yscale="log", xlabel="step size η", ylabel="squared error where option C stops")
    _few_ticks(right)
    right.set_xticks(etas, [f"{eta:.2g}" for eta in etas])
    right.set_title("Option C's floor over η")
    right.legend(loc="center left")
    return figure


@in_style
def plot_phase(rows: list[Row]) -> "Figure":
    """Plot where compression is free: a map of the slowdown over graphs and ω, and all iterations over the bound."""
    figure, ((left, right),) = new_figure(1, 2, share_y=False, width=7.25, height=5.4)
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    _draw_slowdown_map(figure, left, rows, graphs)
    _draw_iterations_over_bound(right, rows, graphs)
    return figure


def _draw_slowdown_map(figure: "Figure", axis: "Axes", rows: list[Row], graphs: list[str]) -> None:
    """Draw the slowdown against exact messages for each graph and quantizer, with the boundary of the theory."""
    from matplotlib.colors import LogNorm

    omegas = list(dict.fromkeys(sorted((row["omega"], row["quantizer"]) for row in rows if row["omega"] > 0)))
    slowdown = np.full((len(graphs), len(omegas)), np.nan)
    for row in rows:
        if row["omega"] > 0 and row["slowdown"] is not None:
            slowdown[graphs.index(row["graph"]), omegas.index((row["omega"], row["quantizer"]))] = row["slowdown"]
    axis.grid(False, which="both")
    image = axis.imshow(slowdown, norm=LogNorm(1, 100), cmap="cividis", aspect="auto")
    for (at, column), value in np.ndenumerate(slowdown):
        axis.text(
            column,
            at,
            "–" if np.isnan(value) else (f"{value:.2g}" if value < 10 else f"{value:.0f}"),
            ha="center",
            va="center",
            color="black" if value > 12 else "white",
            fontsize=8.5,
        )
    line: Row = {"color": COLOURS[1], "linewidth": 3.5}
    for at, graph in enumerate(graphs):
        limit = next(row["free_omega"] for row in rows if row["graph"] == graph)
        edge = sum(omega <= limit for omega, _ in omegas) - 0.5
        axis.plot([edge, edge], [at - 0.46, at + 0.46], solid_capstyle="butt", clip_on=False, **line)
    axis.plot([], [], label="theory: free to the left, ω ≤ min($ρ/ρ_\\infty$, κρ)", **line)
    axis.set_xticks(range(len(omegas)), [f"{name}\n{omega:.3g}" for omega, name in omegas], fontsize=8)
    axis.set_yticks(range(len(graphs)), graphs, fontsize=9)
    axis.set_xlabel("quantizer and its ω")
    axis.set_title("Iterations to 1e-3 over those of exact messages")
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.06), frameon=False)
    figure.colorbar(image, ax=axis, pad=0.01, extend="max")


def _draw_iterations_over_bound(axis: "Axes", rows: list[Row], graphs: list[str]) -> None:
    """Draw the iterations of all runs over the bound of the theory, with a line through their median ratio."""
    for at, graph in enumerate(graphs):
        solved = [row for row in rows if row["graph"] == graph and row["iterations"]]
        for family, face in (("dit", COLOURS[at % 7]), ("rand", "white")):
            points = [row for row in solved if row["quantizer"].startswith(family)]
            axis.plot(
                [row["bound"] for row in points],
                [row["iterations"] for row in points],
                linestyle="",
                marker=MARKERS[at % 7],
                color=COLOURS[at % 7],
                markerfacecolor=face,
                label=graph if family == "rand" else None,
            )
    bounds = np.array(sorted(row["bound"] for row in rows if row["omega"] > 0))
    ratios = [row["iterations"] / row["bound"] for row in rows if row["iterations"] and row["omega"] > 0]
    middle = float(np.median(ratios))
    axis.plot(bounds, middle * bounds, color="grey", linestyle=":", label=f"{middle:.2g} × the sum")
    axis.set(
        xscale="log", yscale="log", xlabel="$ω + κ(ρ + ωρ_\\infty)$, with κ = 1", ylabel="iterations to 1e-3, tuned θ"
    )
    axis.set_title("All graphs and quantizers (filled: dit-k, open: rand-k)")
    axis.legend(loc="upper left")
