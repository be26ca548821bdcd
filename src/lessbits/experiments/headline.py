"""The paper's headline in a minute: iterations and bits to 1e-3 on star and ring, exact against compressed."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from lessbits._internal.files import make_folder, write_whole
from lessbits._internal.terminal import Terminal
from lessbits.engines.simulate.run import simulate
from lessbits.experiments.paper import DIM, FREE, NODES, TARGET
from lessbits.methods.primal_dual import PrimalDual
from lessbits.networks import make_network
from lessbits.problems import Consensus
from lessbits.quantizers import Quantizer, make_quantizer
from lessbits.report.plots import plot_headline, save_figure
from lessbits.report.text import headline_table

MOST_ITERATIONS = 20_000

# Step sizes θ = 10^(j/10) that need the fewest iterations (the paper's Table 3).
TUNED = {
    "star": {"exact": 2, "dit-4": 2, "dit-2": 2, "dit-1": 2, "rand-100": 2, "rand-50": 2, "rand-20": 1},
    "ring": {"exact": 1, "dit-5": 1, "dit-4": 1, "dit-3": -1, "dit-2": -4, "rand-100": -1, "rand-50": -4},
}


def headline(out: Path, progress: bool = True) -> dict[str, list[dict[str, Any]]]:
    """Run all cells, print one table per network, and write results.json and a plot."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    make_folder(out)
    problem = Consensus.random(NODES, DIM)
    results: dict[str, list[dict[str, Any]]] = {}
    terminal = Terminal()
    terminal.print(
        f"Average consensus, {NODES} nodes, {DIM} dimensions, Algorithm 1 until the mean squared error is {TARGET:g}."
    )
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=sum(len(cells) for cells in TUNED.values()))
    with bar if progress and sys.stderr.isatty() else nullcontext():  # a bar that is not started shows nothing
        for network_name, cells in TUNED.items():
            rows = results[network_name] = []
            for quantizer, exponent in cells.items():
                bar.update(task, description=f"{network_name}, {quantizer}")
                rows.append(_cell(problem, network_name, quantizer, 10 ** (exponent / 10), rows))
                bar.advance(task)
    for network_name, rows in results.items():
        headline_table(f"{network_name} of {NODES} nodes", rows)
    try:
        write_whole(out / "results.json", json.dumps(results, indent=2) + "\n")
    finally:  # also if the other file cannot be written
        save_figure(plot_headline(results), out / "headline.png", dpi=130)
    terminal.print(
        f"free: at most {FREE - 1:.0%} more iterations than exact, else how many times as many. "
        "Bits: the paper's nominal count, memory included."
    )
    terminal.print(f"Plot and data: {out / 'headline.png'}, {out / 'results.json'}", soft_wrap=True)
    return results


def _cell(
    problem: Consensus, network_name: str, spelling: str, theta: float, before: list[dict[str, Any]]
) -> dict[str, Any]:
    quantizer = make_quantizer(spelling, DIM)
    assert isinstance(quantizer, Quantizer)
    method = PrimalDual.make(quantizer, theta=theta, eta=1.0, dim=DIM)
    trace = simulate(
        problem, make_network(network_name, NODES), method, iterations=MOST_ITERATIONS, until=TARGET, record_every=1
    )
    last = trace.summary()
    exact = before[0] if before else last
    ratio = last["iterations"] / exact["iterations"]
    free = "-" if not before else "yes" if trace.converged and ratio <= FREE else f"no, {ratio:.1f} ×"
    return {
        "quantizer": spelling,
        "omega": quantizer.omega(DIM),
        "theta": theta,
        "iterations": last["iterations"],
        "converged": trace.converged,
        "bits_per_link": last["bits_per_link"],
        "bits_saved": exact["bits_per_link"] / last["bits_per_link"],
        "free": free,
    }
