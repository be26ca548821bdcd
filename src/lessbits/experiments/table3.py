"""Table 3 and Figure 1: the best θ of Algorithm 1 on average consensus, and the iterations that it needs."""

import math
from functools import partial
from typing import Any

from lessbits.experiments.paper import DIM, FREE, NODES, TABLE_3, TARGET
from lessbits.experiments.results import Results, Row, markdown_table
from lessbits.methods.primal_dual import PrimalDual
from lessbits.networks import make_network
from lessbits.problems import Consensus
from lessbits.quantizers import Quantizer, make_quantizer
from lessbits.report.consensus_plots import plot_figure_1
from lessbits.tuning import lattice, tune

PER_DECADE = 10  # the paper's grid, 10^(j/10)
QUICK_NODES, QUICK_DIM = 60, 30
QUICK_QUANTIZERS = ("exact", "dit-4", "dit-2", "dit-1", "rand-15", "rand-8")
COLUMNS = {
    "network": "network",
    "quantizer": "quantizer",
    "omega": "ω",
    "theta": "θ, ours",
    "paper_theta": "θ, the paper's",
    "agrees": "agrees",
    "iterations": "iterations",
    "slowdown": "times exact's",
    "bits_per_link": "bits per link",
}


def table3(results: Results) -> None:
    """Tune θ in every cell, and compare it with the paper's."""
    rows = consensus_cells(results)
    results.table("table3", rows)
    if results.quick:
        results.notes.append(f"{len(rows)} cells of a smaller problem were tuned; the paper has no numbers for them.")
    compared = [row for row in rows if row["agrees"] is not None]
    agreeing = [row for row in compared if row["agrees"]]
    if compared:
        results.claim(
            len(agreeing) >= 23,
            f"{len(agreeing)} of {len(compared)} cells have the paper's θ as the best on its grid 10^(j/10).",
        )
        for row in compared:
            if not row["agrees"]:
                results.claim(False, _explain(row))
    results.summary("Table 3: tuned step sizes of Algorithm 1 on average consensus", markdown_table(rows, COLUMNS))


def fig1(results: Results) -> None:
    """Plot iterations against compression: flat on the star, rising on the ring."""
    rows = consensus_cells(results)
    results.table("fig1", rows)
    results.figure("fig1", plot_figure_1(rows))
    for network, expected in (("star", True), ("ring", False)):
        mine = [row for row in rows if row["network"] == network and row["quantizer"] != "exact"]
        free = [row for row in mine if row["slowdown"] is not None and row["slowdown"] <= FREE]
        others = [row for row in mine if row not in free]
        names = ", ".join(row["quantizer"] for row in free) or "none"
        slow = ", ".join(f"{row['quantizer']} {_times(row['slowdown'])}" for row in others) or "none"
        best = max(free, key=lambda row: row["omega"], default=None)
        reach = 0.0 if best is None else best["omega"]
        results.claim(
            (len(free) > len(mine) / 2) == expected,
            f"{network}: at most {FREE - 1:.0%} more iterations than exact with {names} (up to ω = {reach:.3g}); "
            f"more with {slow}.",
        )
    results.summary("Figure 1: compression for free on the star, not on the ring", markdown_table(rows, COLUMNS))


def consensus_cells(results: Results) -> list[Row]:
    """Tune every cell of Table 3, or in quick form some cells of a smaller problem."""
    nodes, dim = (QUICK_NODES, QUICK_DIM) if results.quick else (NODES, DIM)
    rows: list[Row] = []
    for network, cells in TABLE_3.items():
        names = QUICK_QUANTIZERS if results.quick else tuple(cells)
        guess = 0.0  # of log10 θ
        for name in names:
            inputs = {"nodes": nodes, "dim": dim, "network": network, "quantizer": name, "until": TARGET, "version": 1}
            found = results.cell(
                f"table 3, {nodes} nodes, {network}, {name}",
                inputs,
                partial(tune_cell, nodes, dim, network, name, guess),
            )
            guess = math.log10(found["theta"])
            exact = next((row for row in rows if row["network"] == network and row["quantizer"] == "exact"), found)
            paper = None if results.quick else cells[name]
            rows.append(
                {
                    "network": network,
                    "quantizer": name,
                    **found,
                    "paper_theta": paper,
                    # The paper prints two digits.
                    "agrees": None if results.quick else paper is not None and abs(found["theta"] / paper - 1) < 0.02,
                    "slowdown": None if not found["reached"] else found["iterations"] / exact["iterations"],
                }
            )
    return rows


def tune_cell(nodes: int, dim: int, network: str, name: str, guess: float) -> dict[str, Any]:
    """Find the θ that needs the fewest iterations, starting from the previous quantizer's best."""
    quantizer = make_quantizer(name, dim)
    assert isinstance(quantizer, Quantizer)
    middle = round(guess * PER_DECADE)
    grid = [lattice(middle + offset, PER_DECADE) for offset in range(-3, 3)]
    method = PrimalDual.make(quantizer, theta=1.0, eta=1.0, dim=dim)
    found = tune(
        Consensus.random(nodes, dim),
        make_network(network, nodes),
        method,
        {"theta": grid},
        until=TARGET,
        iterations=60_000,
        margin=1.3,
        record_every=1,
        per_decade=PER_DECADE,
    )
    best = found.best
    tried = {f"{row['theta']:.3g}": row["iterations"] for row in found.rows() if row["ended"] == "reached"}
    return {
        "omega": quantizer.omega(dim),
        "theta": best.sizes["theta"],
        "reached": best.reached,
        "iterations": round(best.mean("iterations")),
        "bits_per_link": best.mean("bits_per_link"),
        "near": tried,  # iterations by θ, for the values that reached the target
    }


def _explain(row: Row) -> str:
    near = ", ".join(f"{theta}: {iterations:,.0f}" for theta, iterations in sorted(row["near"].items(), reverse=True))
    where = f"{row['network']}, {row['quantizer']}"
    if row["paper_theta"] is None:
        return (
            f"{where}: the paper has a dash, but θ = {row['theta']:.3g} converges in {row['iterations']:,} iterations; "
            "it may not have run that long."
        )
    there = row["near"].get(f"{row['paper_theta']:.3g}")
    return (
        f"{where}: our best θ is {row['theta']:.3g}, the paper's {row['paper_theta']:g}, where we need "
        f"{'more than 1.3 times as many' if there is None else format(there, ',.0f')} iterations. By θ: {near}."
    )


def _times(slowdown: float | None) -> str:
    return "(not reached)" if slowdown is None else f"{slowdown:.2f} ×"
