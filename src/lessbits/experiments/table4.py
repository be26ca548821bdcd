"""Figure 2 and Table 4: Algorithm 1 compared with Choco-Gossip and QDGD on average consensus."""

from functools import partial
from typing import Any

import numpy as np

from lessbits.engines.simulate.run import simulate
from lessbits.experiments.grids import curve_table, ending, grid_values, thinned
from lessbits.experiments.paper import DIM, NODES, TABLE_4, TARGET
from lessbits.experiments.results import Results, Row, markdown_table
from lessbits.methods.base import Method
from lessbits.networks import make_network
from lessbits.problems import Consensus
from lessbits.report.consensus_plots import plot_curves
from lessbits.tuning import Tuning, tune
from lessbits.tuning.stepsizes import make_method

QUICK_NODES, QUICK_DIM = 20, 50
BUDGET = 10_000  # iterations, for methods that never reach the target
NAMES = {"primal-dual": "Algorithm 1", "choco": "Choco", "qdgd": "QDGD"}

# Grids of what the paper tuned, and below, of what free tuning varies: low, high, values per decade.
PAPER_GRIDS: dict[str, dict[str, tuple[float, float, int]]] = {
    "primal-dual": {"theta": (0.2, 2.0, 10)},
    "choco": {"gamma": (0.1, 1.0, 10)},  # their theory has γ at most 1
    "qdgd": {"epsilon": (1e-5, 1e-1, 1), "alpha": (1e-2, 1e4, 1)},
}
FREE_GRIDS: dict[str, dict[str, tuple[float, float, int]]] = {
    "primal-dual": {"theta": (1.0, 20.0, 5), "eta": (0.05, 0.5, 5)},
    "choco": {"gamma": (0.5, 30.0, 4), "alpha": (0.03, 1.0, 4)},
}


def sizes_of(problem: Consensus, network: Any, method: str, quantizer: str, **sizes: float) -> Method:
    """Make a method as in the paper: η = 1 for Algorithm 1, gossip without gradients for Choco, no decay."""
    fixed = {"primal-dual": {"eta": 1.0}, "choco": {"eta": 0.0, "decay": 0.0}, "qdgd": {"decay": 0.0}}[method]
    if method == "primal-dual" and "theta" not in sizes:
        sizes["theta"] = 1.0
    chosen: dict[str, Any] = {**fixed, **sizes}
    return make_method(method, problem, network, quantizer, **chosen)


def table4(results: Results) -> None:
    """Tune what the paper tuned, on its kind of grid, and compare with Table 4."""
    rows = []
    for (network, method, quantizer), paper in TABLE_4.items():
        found = tuned_cell(results, network, method, quantizer, PAPER_GRIDS[method], grow=method != "choco")
        nearest = all(abs(np.log10(found["sizes"][name] / size)) < 0.06 for name, size in paper.items())
        rows.append(
            {
                "network": network,
                "method": NAMES[method],
                "quantizer": quantizer,
                "tuned": _sizes_in_words(found["sizes"]),
                "paper": _sizes_in_words(paper),
                "agrees": None if results.quick else nearest,
                **{name: found[name] for name in ("ended", "iterations", "value", "bits_per_link")},
                "notes": "; ".join(found["notes"]),
            }
        )
    results.table("table4", rows)
    for method in () if results.quick else NAMES.values():
        mine = [row for row in rows if row["method"] == method]
        agreeing = [row for row in mine if row["agrees"]]
        capped = [f"{row['network']} {row['quantizer']}" for row in agreeing if row["notes"]]
        others = [
            f"{row['network']} {row['quantizer']} {row['tuned']}, not {row['paper']}"
            for row in mine
            if not row["agrees"]
        ]
        results.claim(
            len(agreeing) == len(mine),
            f"{method}: {len(agreeing)} of {len(mine)} tuned parameters are the paper's"
            + (f", those of {' and '.join(capped)} at the end of the grid, which may not grow" if capped else "")
            + (f" ({'; '.join(others)})." if others else "."),
        )
    for network in ("ring", "star"):
        unscaled = tuned_cell(results, network, "choco", "dit-2", {"gamma": (1e-3, 1.0, 2)}, alpha=1.0, grow=False)
        results.notes.append(
            f"{network}: Choco with dit-2 that is not scaled (α = 1) "
            + (
                f"needs {unscaled['iterations']:,.0f} iterations."
                if unscaled["reached"]
                else "reaches the target with "
            )
            + ("" if unscaled["reached"] else "no γ from 0.001 to 1.")
        )
    text = (
        "Choco's quantizers are scaled by α = 1/(1+ω), and γ is at most 1, as in its theory; Figure 2 shows what free "
        "tuning changes. QDGD is ranked by its error when its iterations are spent; every node starts at the "
        "minimiser of its own loss, so a small α, which leaves the gradients out, is plain averaging of quantized "
        "vectors.\n\n"
    )
    results.summary("Table 4: tuned parameters of Figure 2", text + markdown_table(rows))


def fig2(results: Results) -> None:
    """Run all methods at the paper's parameters, and report what free tuning changes."""
    rows: list[Row] = []
    curve_rows: list[Row] = []
    for network in ("ring", "star"):
        curves = {}
        for (where, method, quantizer), paper in TABLE_4.items():
            if where != network:
                continue
            curve = results.cell(
                f"figure 2, {_nodes(results)} nodes, {network}, {method}, {quantizer}",
                {"nodes": _nodes(results), "dim": _dim(results), "sizes": paper, "version": 2},
                partial(_curve, results, network, method, quantizer, paper),
            )
            curves[f"{NAMES[method]}, {quantizer}"] = curve
            rows.append(
                {
                    "network": network,
                    "method": NAMES[method],
                    "quantizer": quantizer,
                    "parameters": _sizes_in_words(paper) + " (the paper's)",
                    **curve["end"],
                }
            )
        for method, grids in FREE_GRIDS.items():
            for quantizer in ("dit-5", "dit-2"):
                found = tuned_cell(results, network, method, quantizer, grids)
                rows.append(
                    {
                        "network": network,
                        "method": NAMES[method],
                        "quantizer": quantizer,
                        "parameters": _sizes_in_words(found["sizes"]) + " (tuned freely)",
                        **{name: found[name] for name in ("reached", "iterations", "error", "bits_per_link")},
                    }
                )
        curve_rows += curve_table({"network": network}, curves)
        panels = {"iteration": "iterations", "bits_per_link": "bits per link (nominal)"}
        figure = plot_curves(
            curves, panels, "mean of ‖x_i - x̄‖²", [f"{network} of {_nodes(results)} nodes"] * 2, log_x=tuple(panels)
        )
        results.figure(f"fig2-{network}", figure)
    results.table("fig2", rows)
    results.table("fig2-curves", curve_rows)
    _claims(results, rows)
    results.summary("Figure 2: Algorithm 1 against its competitors on average consensus", markdown_table(rows))


def _claims(results: Results, rows: list[Row]) -> None:
    def row(network: str, method: str, quantizer: str, how: str = "paper's") -> Row:
        return next(
            row
            for row in rows
            if (row["network"], row["method"], row["quantizer"]) == (network, method, quantizer)
            and how in row["parameters"]
        )

    for network in ("ring", "star"):
        for quantizer in ("dit-5", "dit-2"):
            ours, choco = row(network, "Algorithm 1", quantizer), row(network, "Choco", quantizer)
            fewer = ours["reached"] and (not choco["reached"] or ours["iterations"] < choco["iterations"])
            results.claim(
                fewer,
                f"{network}, {quantizer}, at the paper's parameters: Algorithm 1 needs {_spent(ours, 'iterations')} "
                f"iterations to {TARGET:g}, Choco {_spent(choco, 'iterations')}.",
            )
        qdgd = [row(network, "QDGD", quantizer) for quantizer in ("dit-5", "dit-2")]
        results.claim(
            not any(one["reached"] for one in qdgd),
            f"{network}: QDGD converges very slowly: error {' and '.join(format(one['error'], '.2g') for one in qdgd)} "
            f"after {qdgd[0]['iterations']:,} iterations.",
        )
    star = [one for one in rows if one["network"] == "star" and "paper's" in one["parameters"] and one["reached"]]
    fewest = min(star, key=lambda one: float(one["bits_per_link"]))
    results.claim(
        fewest["method"] == "Algorithm 1" and fewest["quantizer"] != "exact",
        f"star: {fewest['method']} with {fewest['quantizer']} needs the fewest bits to {TARGET:g}, "
        f"{fewest['bits_per_link'] / 1000:.0f} kbit per link.",
    )
    ring = {
        name: min((row("ring", name, quantizer) for quantizer in ("dit-5", "dit-2")), key=_bits)
        for name in ("Choco", "Algorithm 1")
    }
    results.claim(
        _bits(ring["Choco"]) < _bits(ring["Algorithm 1"]),
        f"ring: in bits Choco is ahead: {_bits(ring['Choco']) / 1000:.0f} kbit per link, Algorithm 1 "
        f"{_bits(ring['Algorithm 1']) / 1000:.0f}, each with its better quantizer.",
    )
    for network in ("ring", "star"):
        for quantizer in ("dit-5", "dit-2"):
            ours, choco = (row(network, name, quantizer, "freely") for name in ("Algorithm 1", "Choco"))
            results.notes.append(
                f"{network}, {quantizer}: with η tuned too Algorithm 1 needs {_costs(ours)}; with its scale and γ "
                f"tuned freely Choco needs {_costs(choco)}."
            )


def _costs(row: Row) -> str:
    if not row["reached"]:
        return f"over {row['iterations']:,.0f} iterations"
    return f"{row['iterations']:,.0f} iterations and {_bits(row) / 1000:.0f} kbit"


def _spent(row: Row, name: str) -> str:
    return f"{row[name]:,.0f}" if row["reached"] else f"over {row[name]:,.0f}"


def _bits(row: Row) -> float:
    return float(row["bits_per_link"]) if row["reached"] else float("inf")


def tuned_cell(
    results: Results,
    network: str,
    method: str,
    quantizer: str,
    grids: dict[str, tuple[float, float, int]],
    grow: bool = True,
    **fixed: float,
) -> dict[str, Any]:
    """Tune a method's parameters on grids (low, high, values per decade), up to the target or the end of the budget."""
    searched = " and ".join([*grids, *(f"{name} {size:g}" for name, size in fixed.items())])
    return results.cell(
        f"table 4, {_nodes(results)} nodes, {network}, {method}, {quantizer}, {searched}",
        {"nodes": _nodes(results), "dim": _dim(results), "grids": grids, "target": TARGET, "budget": BUDGET},
        partial(_tune, results, network, method, quantizer, grids, grow, fixed),
    )


def _tune(
    results: Results,
    network_name: str,
    method_name: str,
    quantizer: str,
    grids: dict[str, tuple[float, float, int]],
    grow: bool,
    fixed: dict[str, float],
) -> dict[str, Any]:
    problem, network = Consensus.random(_nodes(results), _dim(results)), make_network(network_name, _nodes(results))
    method = sizes_of(problem, network, method_name, quantizer, **fixed)
    slow = method_name == "qdgd"
    found: Tuning = tune(
        problem,
        network,
        method,
        {name: grid_values(*grid) for name, grid in grids.items()},
        aim="value" if slow else "iterations",
        until=None if slow else TARGET,
        iterations=BUDGET // 5 if slow and results.quick else BUDGET,
        margin=1.1,
        record_every=10 if slow else 1,
        grow=grow and not results.quick,
    )
    best = found.best
    row = best.row()
    sizes = {**best.sizes, **({"alpha": getattr(found.method, "alpha", None)} if method_name == "choco" else {})}
    return {**row, "sizes": sizes, "reached": best.reached, "notes": found.notes}


def _curve(results: Results, network_name: str, method: str, quantizer: str, sizes: dict[str, float]) -> dict[str, Any]:
    problem, network = Consensus.random(_nodes(results), _dim(results)), make_network(network_name, _nodes(results))
    made = sizes_of(problem, network, method, quantizer, **sizes)
    most = BUDGET // (5 if results.quick else 1)
    trace = simulate(problem, network, made, iterations=most, until=TARGET / 1000, record_every=1)
    return {**thinned(trace, "error"), "end": ending(trace, TARGET)}


def _nodes(results: Results) -> int:
    return QUICK_NODES if results.quick else NODES


def _dim(results: Results) -> int:
    return QUICK_DIM if results.quick else DIM


def _sizes_in_words(sizes: dict[str, float]) -> str:
    from lessbits.report.text import step_sizes_in_words

    return step_sizes_in_words(sizes)
