"""Compression for free, as a phase diagram: iterations against ω for several graphs, and the limit in theory."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from lessbits.engines.simulate.run import simulate
from lessbits.experiments.rate_slopes import exponent
from lessbits.experiments.results import Results, Row
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import theory_inputs
from lessbits.methods.primal_dual import PrimalDual
from lessbits.methods.request import MethodRequest
from lessbits.networks import make_network
from lessbits.problems import Consensus
from lessbits.quantizers import Quantizer, make_quantizer
from lessbits.theory.mean_square import practical_step_sizes
from lessbits.theory.theorems import free_omega

TARGET = 1e-3
MOST_ITERATIONS = 200_000
PROVEN_CONSTANT = 13.0  # (ρ + 12ωρ_∞)/ρ of the theorems at ω = ρ/ρ_∞
FREE = 1.1  # compression counts as free up to this factor in iterations over exact messages
PATIENCE = 2  # values in a row without improvement that end a search
STEPS_PER_DECADE = 10  # the paper's grid, 10^(j/10)
GRAPHS = ("ring", "torus", "hypercube", "random-regular:4", "random-regular:16", "star", "complete")
QUICK_GRAPHS = ("ring", "star", "complete")

Found = tuple[float | None, int | None]


def fewest_iterations(run: Callable[[float, int], int | None], guess: float, most: int, steps: int) -> Found:
    """Search the grid 10^(j/steps) from a guess, up and then down, until two values in a row are no better.

    `run` takes a step size and a limit of iterations. It returns the iterations needed, or None if they exceed the
    limit. The result is the best step size and its iterations, or None and None if no step size down to 10⁻³ times the
    guess converges.
    """
    start = round(math.log10(guess) * steps)
    best: int | None = None
    count: int | None = None

    def better(exponent: int) -> bool:
        nonlocal best, count
        limit = most if count is None else count - 1
        needed = run(10 ** (exponent / steps), limit) if limit > 0 else None
        if needed is not None:
            best, count = exponent, needed
        return needed is not None

    for direction, first in ((1, start), (-1, start - 1)):
        worse, exponent = 0, first
        while abs(exponent - start) <= 3 * steps and (worse < PATIENCE or best is None):
            worse = 0 if better(exponent) else worse + 1
            if direction > 0 and best is None and worse >= PATIENCE:
                break  # all step sizes were too large so far
            exponent += direction
    return (None, None) if best is None else (10 ** (best / steps), count)


def _cell(nodes: int, dim: int, graph: str, spelling: str) -> Row:
    """Find the best θ of one quantizer on one graph."""
    problem, network = Consensus.random(nodes, dim), make_network(graph, nodes)
    quantizer = make_quantizer(spelling, dim)
    assert isinstance(quantizer, Quantizer)
    inputs = theory_inputs(MethodRequest(problem, network, quantizer, Gradients())).as_published()
    guess = practical_step_sizes("B", inputs, given={"eta": 1.0}).sizes.theta

    def run(theta: float, most: int) -> int | None:
        method = PrimalDual.make(quantizer, theta, 1.0, dim=dim)
        trace = simulate(problem, network, method, iterations=most, until=TARGET, record_every=1)
        return int(trace["iteration"][-1]) if trace.converged else None

    theta, iterations = fewest_iterations(run, guess, MOST_ITERATIONS, STEPS_PER_DECADE)
    return {
        "graph": graph,
        "nodes": nodes,
        "rho": inputs.rho,
        "rho_inf": inputs.rho_inf,
        "rho_over_rho_inf": inputs.rho / inputs.rho_inf,
        "free_omega": free_omega(inputs),
        "quantizer": spelling,
        "omega": inputs.omega,
        "theta": theta,
        "iterations": iterations,
        "bound": inputs.omega + inputs.rho + inputs.omega * inputs.rho_inf,
    }


def spellings(quick: bool, dim: int) -> list[str]:
    """Return quantizers from weak to strong compression, exact first."""
    kept = [dim >> power for power in range(1, dim.bit_length())]
    if quick:
        return ["exact", *(f"rand-{count}" for count in (*kept[:3], 1))]
    return ["exact", *(f"dit-{digits}" for digits in (5, 4, 3, 2, 1)), *(f"rand-{count}" for count in kept)]


def phase(results: Results) -> tuple[list[Row], list[Row]]:
    """Run the diagram: average consensus, option B, η = 1, θ tuned per cell. Return cells and phase boundary."""
    nodes, dim = (48, 16) if results.quick else (64, 64)
    rows: list[Row] = []
    for graph in QUICK_GRAPHS if results.quick else GRAPHS:
        exact: Row = {}
        for spelling in spellings(results.quick, dim):
            inputs = {
                "nodes": nodes,
                "dim": dim,
                "graph": graph,
                "quantizer": spelling,
                "target": TARGET,
            }
            key = f"rates phase {graph} {spelling} {nodes} {dim}"
            found = results.cell(key, inputs, partial(_cell, nodes, dim, graph, spelling))
            exact = exact or found
            needed = found["iterations"]
            slowdown = None if needed is None else needed / exact["iterations"]
            rows.append({**found, "slowdown": slowdown, "inside_theory": found["omega"] <= found["free_omega"]})
    rows.sort(key=lambda row: (row["rho_over_rho_inf"], -row["rho"], row["graph"]))
    doubles = doubling(rows)
    results.table("phase", rows)
    results.table("phase_doubling", doubles)
    _claims(results, rows, doubles)
    return rows, doubles


def free_until(rows: list[Row], graph: str, family: str) -> float:
    """Return the largest ω of a family of quantizers up to which compression is free on a graph, 0 if none is."""
    mine = [row for row in rows if row["graph"] == graph and row["quantizer"].startswith(family)]
    largest = 0.0
    for row in sorted(mine, key=lambda row: float(row["omega"])):
        if row["slowdown"] is None or row["slowdown"] > FREE:
            break
        largest = row["omega"]
    return largest


def doubling(rows: list[Row]) -> list[Row]:
    """Return, for each graph, the ω at which rand-k needs twice the iterations of exact messages, interpolated.

    If no cell needs twice as many (`reached` is false), it is the largest ω tried.
    """
    found = []
    for graph in dict.fromkeys(row["graph"] for row in rows):
        mine = [row for row in rows if row["graph"] == graph and row["quantizer"].startswith(("exact", "rand"))]
        mine = sorted((row for row in mine if row["slowdown"]), key=lambda row: float(row["omega"]))
        # Iterations below those of a cell with a smaller ω count as equal to them.
        slowdowns = np.maximum.accumulate([row["slowdown"] for row in mine])
        omega = float(np.interp(2.0, slowdowns, [row["omega"] for row in mine]))
        names = ("graph", "rho", "rho_inf", "rho_over_rho_inf", "free_omega")
        row = {name: mine[0][name] for name in names}
        reached = bool(slowdowns[-1] >= 2)
        found.append({**row, "reached": reached, "omega_doubling": omega, "share": omega / row["free_omega"]})
    return found


def _claims(results: Results, rows: list[Row], doubles: list[Row]) -> None:
    ratios = {row["graph"]: row["rho_over_rho_inf"] for row in rows}
    for family in ("dit", "rand"):
        star, ring = (free_until(rows, graph, family) for graph in ("star", "ring"))
        cells = [row for row in rows if row["quantizer"].startswith(family) and row["graph"] == "ring"]
        if cells:
            there = max((row["slowdown"] or math.inf for row in cells if row["omega"] == star), default=math.inf)
            results.claim(
                star > ring,
                f"With {family}-k messages compression is free (at most {FREE - 1:.0%} more iterations) on the star up "
                f"to ω = {star:.3g}, on the ring up to {ring:.3g} (ρ/ρ_∞ = {ratios['star']:.3g} and "
                f"{ratios['ring']:.3g}); at ω = {star:.3g} the ring needs {there:.3g} times as many.",
            )
    inside = [row for row in rows if row["inside_theory"] and row["omega"] > 0]
    worst = max(inside, key=lambda row: float(row["slowdown"] or math.inf))
    results.claim(
        (worst["slowdown"] or math.inf) <= PROVEN_CONSTANT,
        f"Up to ω = min(ρ/ρ_∞, κρ) iterations grow by a constant at most (1 + 12 in the theorems): over {len(inside)} "
        f"cells by {worst['slowdown'] or math.inf:.3g} at most ({worst['graph']}, {worst['quantizer']}, "
        f"ω = {worst['omega']:.3g} of {worst['free_omega']:.3g}). So free means up to a constant: it is not 1.",
    )
    doubles = [row for row in doubles if row["reached"]]
    shares = [row["share"] for row in doubles]
    power = exponent([row["free_omega"] for row in doubles], [row["omega_doubling"] for row in doubles])
    results.claim(
        min(shares) >= 0.1 and max(shares) <= 10 and power > 0.5,
        f"Iterations double at an ω that follows theory's min(ρ/ρ_∞, κρ) from graph to graph: at "
        f"{min(shares):.2g} to {max(shares):.2g} of it on {len(doubles)} graphs with rand-k, growing as its "
        f"power {power:.2f}.",
    )
    solved = [row for row in rows if row["iterations"] is not None and row["omega"] > 0]
    share = np.array([row["iterations"] / row["bound"] for row in solved])
    bounds = [row["bound"] for row in solved]
    power = exponent(bounds, [row["iterations"] for row in solved])
    results.claim(
        0.7 <= power <= 1.3,
        f"Tuned iterations over all graphs and quantizers grow as (ω + κ(ρ + ωρ_∞))^{power:.2f}, and are "
        f"{share.min():.2g} to {share.max():.2g} times that sum, which spans a factor {max(bounds) / min(bounds):.0f}.",
    )
