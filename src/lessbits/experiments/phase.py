"""Compression for free, as a phase diagram: iterations over ω for several graphs, and where theory says free ends."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lessbits.engines.simulate import simulate
from lessbits.experiments.results import Results, Row
from lessbits.methods.primal_dual import PrimalDual
from lessbits.networks import make_network
from lessbits.problems import Consensus
from lessbits.quantizers import Quantizer, make_quantizer
from lessbits.stepsizes import theory_setting
from lessbits.theory import free_omega, practical_step_sizes

TARGET = 1e-3
MOST_ITERATIONS = 200_000
FREE = 1.1  # times the iterations of exact messages that still count as free
STEPS_A_DECADE = 10  # the paper's grid, 10^(j/10)
GRAPHS = ("ring", "torus", "hypercube", "random-regular:4", "random-regular:16", "star", "complete")
QUICK_GRAPHS = ("ring", "star", "complete")

Found = tuple[float | None, int | None]


def fewest_iterations(run: Callable[[float, int], int | None], guess: float, most: int, steps: int) -> Found:
    """Walk over the grid 10^(j/steps) from a guess, up and then down, while the iterations fall.

    `run` takes a step size and the most iterations worth running, and returns the iterations needed, or None. Returns
    the best step size and its iterations; None and None if no step size down to 10⁻³ times the guess converges.
    """
    start = round(math.log10(guess) * steps)
    best: int | None = None
    count: int | None = None

    def better(exponent: int) -> bool:
        nonlocal best, count
        needed = run(10 ** (exponent / steps), most if count is None else count - 1)
        if needed is not None:
            best, count = exponent, needed
        return needed is not None

    if better(start):
        while best is not None and better(best + 1):
            pass
    for exponent in range(start - 1, start - 3 * steps, -1):
        # Once the walk up has gained something, or one down has not, the best is known.
        if (best is not None and best > start) or (not better(exponent) and best is not None):
            break
    return (None, None) if best is None else (10 ** (best / steps), count)


def _cell(nodes: int, dim: int, graph: str, spelling: str, quick: bool) -> Row:
    """Find the best θ of one quantizer on one graph."""
    problem, network = Consensus.random(nodes, dim), make_network(graph, nodes)
    quantizer = make_quantizer(spelling, dim)
    assert isinstance(quantizer, Quantizer)
    setting = theory_setting(problem, network, quantizer)
    guess = practical_step_sizes("B", setting).theta

    def run(theta: float, most: int) -> int | None:
        if most < 1:
            return None
        method = PrimalDual.make(quantizer, theta, 1.0, dim=dim)
        every = 1 if most <= 5000 else 10
        trace = simulate(problem, network, method, most, until=TARGET, record_every=every)
        return int(trace["iteration"][-1]) if trace.converged else None

    theta, iterations = fewest_iterations(run, guess, MOST_ITERATIONS, 5 if quick else STEPS_A_DECADE)
    return {
        "graph": graph,
        "nodes": nodes,
        "rho": setting.rho,
        "rho_inf": setting.rho_inf,
        "rho_over_rho_inf": setting.rho / setting.rho_inf,
        "free_omega": free_omega(setting),
        "quantizer": spelling,
        "omega": setting.omega,
        "theta": theta,
        "iterations": iterations,
        "bound": setting.omega + setting.rho + setting.omega * setting.rho_inf,
    }


def spellings(quick: bool, dim: int) -> list[str]:
    """Quantizers from weak to strong compression, exact first."""
    kept = [dim >> power for power in range(1, dim.bit_length())]
    if quick:
        return ["exact", *(f"rand-{count}" for count in kept[::2])]
    return ["exact", *(f"dit-{digits}" for digits in (5, 4, 3, 2, 1)), *(f"rand-{count}" for count in kept)]


def phase(results: Results) -> list[Row]:
    """Fill the diagram: average consensus, option B, η = 1, θ tuned in every cell."""
    nodes, dim = (32, 32) if results.quick else (64, 64)
    rows: list[Row] = []
    for graph in QUICK_GRAPHS if results.quick else GRAPHS:
        exact: Row = {}
        for spelling in spellings(results.quick, dim):
            inputs = {
                "nodes": nodes,
                "dim": dim,
                "graph": graph,
                "quantizer": spelling,
                "quick": results.quick,
                "target": TARGET,
            }
            key = f"phase {graph} {spelling} {nodes} {dim}"
            found = results.cell(key, inputs, lambda g=graph, s=spelling: _cell(nodes, dim, g, s, results.quick))
            exact = exact or found
            needed = found["iterations"]
            slowdown = None if needed is None else needed / exact["iterations"]
            rows.append({**found, "slowdown": slowdown, "inside_theory": found["omega"] <= found["free_omega"]})
    rows.sort(key=lambda row: (row["rho_over_rho_inf"], -row["rho"], row["graph"]))
    results.table("phase", rows)
    _claims(results, rows)
    return rows


def free_until(rows: list[Row], graph: str, factor: float) -> float:
    """Return the largest ω up to which no quantizer needs more than `factor` times the iterations of exact messages."""
    mine = sorted((row for row in rows if row["graph"] == graph), key=lambda row: float(row["omega"]))
    largest = 0.0
    for row in mine:
        if row["slowdown"] is None or row["slowdown"] > factor:
            break
        largest = row["omega"]
    return largest


def _claims(results: Results, rows: list[Row]) -> None:
    star, ring = (free_until(rows, graph, FREE) for graph in ("star", "ring"))
    at_star = [row for row in rows if row["graph"] == "ring" and star > 0 and row["omega"] == star]
    results.claim(
        star > ring,
        f"Compression is free on the star and not on the ring: up to ω = {star:.3g} the star needs at most "
        f"{FREE - 1:.0%} more iterations than with exact messages (ρ/ρ_∞ = {_of(rows, 'star', 'rho_over_rho_inf'):.3g}"
        f"), the ring up to ω = {ring:.3g} (ρ/ρ_∞ = {_of(rows, 'ring', 'rho_over_rho_inf'):.3g}); at ω = {star:.3g} the "
        f"ring needs {max((row['slowdown'] or math.inf for row in at_star), default=math.inf):.3g} times as many.",
    )
    inside = [row for row in rows if row["inside_theory"] and row["omega"] > 0 and row["graph"] != "complete"]
    worst = max(inside, key=lambda row: row["slowdown"] or math.inf)
    results.claim(
        (worst["slowdown"] or math.inf) <= 4,
        f"Up to ω = min(ρ/ρ_∞, κρ) the iterations grow by a constant factor at most: over {len(inside)} cells of all "
        f"graphs but the complete one the largest is {worst['slowdown'] or math.inf:.3g} ({worst['graph']}, "
        f"{worst['quantizer']}, ω = {worst['omega']:.3g} of {worst['free_omega']:.3g}).",
    )
    solved = [row for row in rows if row["iterations"] is not None and row["omega"] > 0]
    shares = np.array([row["iterations"] / row["bound"] for row in solved])
    power = float(
        np.polyfit(np.log([row["bound"] for row in solved]), np.log([row["iterations"] for row in solved]), 1)[0]
    )
    results.claim(
        0.7 <= power <= 1.3,
        f"Tuned iterations over all graphs and quantizers grow as the bound (ω + κ(ρ + ωρ_∞))^{power:.2f}, and are "
        f"{shares.min():.2g} to {shares.max():.2g} times the bound, over a range of {_range(solved, 'bound'):.0f} in it.",
    )


def _of(rows: list[Row], graph: str, name: str) -> Any:
    return next(row[name] for row in rows if row["graph"] == graph)


def _range(rows: list[Row], name: str) -> float:
    return float(max(row[name] for row in rows) / min(row[name] for row in rows))
