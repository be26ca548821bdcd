"""Measured and proven rates of Algorithm 1, while κ, ρ and ω each vary over a decade or more."""

import math
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from lessbits.engines.scoring import Lyapunov
from lessbits.engines.simulate.run import simulate
from lessbits.experiments.results import Results, Row
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import theory_inputs
from lessbits.methods.primal_dual import PrimalDual
from lessbits.methods.request import MethodRequest
from lessbits.networks import Network, make_network
from lessbits.problems import Consensus, LeastSquares, Problem
from lessbits.quantizers import Quantizer, make_quantizer
from lessbits.theory.theorems import StepSizes, TheoryInputs, lyapunov_coefficients, rate, step_sizes

NODES = 8
TARGET = 1e-9  # squared error at which a run ends; it starts at about 1
FIT_BELOW = 1e-2  # the slope is fitted where the error is below this factor times the first one
MOST_ITERATIONS = 3_000_000
WEAK = (1.0, 0.3, 0.1, 0.03, 0.01)
TOLERANCE = 0.15  # by which a fitted exponent may exceed that of the bound
BOUND = "ω + κ(ρ + ωρ_∞)"


class Case(NamedTuple):
    """One run. The quantizer is rand-`kept`; two links of the ring have `weak` times the weight of the others."""

    problem: str
    option: str
    varied: str
    family: str
    condition: float
    graph: str
    nodes: int
    weak: float
    kept: int


def cases(quick: bool, dim: int) -> list[Case]:
    """Return all runs, sweep after sweep. What does not vary is κ = 10 (consensus: 1), ρ = 6.8 and ω = 1."""
    chosen = []
    for problem, options in (("ridge", "BD" if quick else "ABD"), ("consensus", "A" if quick else "AB")):
        for option in options:
            base = Case(problem, option, "", "ridge spectrum", 10.0, "ring", NODES, 1.0, dim // 2)
            if problem == "ridge":
                conditions = (3, 10, 30, 100) if quick or option == "D" else (3, 10, 30, 100, 300, 1000)
                chosen += [base._replace(varied="kappa", condition=float(condition)) for condition in conditions]
            weakened = base._replace(varied="rho", family="ring, weak links")
            chosen += [weakened._replace(weak=weak) for weak in ((1.0, 0.1, 0.03) if quick else WEAK)]
            if option == "B" and problem == "ridge" and not quick:
                for graph, sizes in (("ring", (4, 8, 16, 32)), ("star", (4, 8, 16, 32, 64))):
                    family = base._replace(varied="rho", family=f"{graph} sizes", graph=graph)
                    chosen += [family._replace(nodes=nodes) for nodes in sizes]
            kept = (dim // 2, dim // 4, 1) if quick else tuple(dim >> power for power in range(1, dim.bit_length()))
            chosen += [base._replace(varied="omega", family="rand-k", kept=count) for count in kept]
    return chosen


def weak_ring(nodes: int, factor: float) -> Network:
    """Return a ring with Metropolis weights, except for two opposite links with `factor` times that weight.

    ρ grows as 1/factor while the number of links stays the same, so that runs share one compiled program.
    """
    edges = [(node, (node + 1) % nodes) for node in range(nodes)]
    weights = [(factor if node in (nodes // 2 - 1, nodes - 1) else 1.0) / 3 for node in range(nodes)]
    return Network.from_edges(nodes, edges, weights, name=f"ring, two links × {factor:g}")


@cache
def ridge(nodes: int, dim: int, condition: float) -> Problem:
    """Return a least-squares problem that computes κ from its data; a known κ would be part of the compiled program."""
    return replace(LeastSquares.random(nodes, dim, condition=condition), condition=None)


@cache
def _consensus(nodes: int, dim: int) -> Problem:
    return Consensus.random(nodes, dim)


def measure(case: Case, dim: int) -> Row:
    """Run Algorithm 1 at theory's step sizes, and compare its rate with the proven one."""
    problem = _consensus(case.nodes, dim) if case.problem == "consensus" else ridge(case.nodes, dim, case.condition)
    network = weak_ring(case.nodes, case.weak) if case.graph == "ring" else make_network(case.graph, case.nodes)
    quantizer = make_quantizer(f"rand-{case.kept}", dim)
    assert isinstance(quantizer, Quantizer)
    inputs = theory_inputs(MethodRequest(problem, network, quantizer, Gradients(case.option))).as_published()
    sizes = step_sizes(case.option, inputs)
    proven = -math.log1p(-rate(case.option, inputs))
    method = PrimalDual.make(quantizer, *sizes, option=case.option)
    psi = Lyapunov.of(problem, network, lyapunov_coefficients(case.option, inputs, sizes))
    most = min(MOST_ITERATIONS, int(40 / proven) + 1000)
    every = int(np.clip(0.05 / proven, 1, 50))
    trace = simulate(problem, network, method, iterations=most, until=TARGET, record_every=every, measures={"psi": psi})
    iteration, error, value = trace["iteration"], trace["error"], trace["psi"]
    fitted = error < FIT_BELOW * error[0]
    slope = -float(np.polyfit(iteration[fitted], np.log(error[fitted]), 1)[0]) if fitted.sum() > 2 else math.nan
    lyapunov_rate = float(np.log(value[0] / value[-1]) / iteration[-1])
    return {
        **_described(case, inputs, sizes),
        "iterations": int(iteration[-1]),
        "converged": trace.converged,
        "rate_theory": proven,
        "rate_lyapunov": lyapunov_rate,
        "rate_error": slope,
        "ratio_lyapunov": lyapunov_rate / proven,
        "ratio_error": slope / proven,
    }


def _described(case: Case, inputs: TheoryInputs, sizes: StepSizes) -> Row:
    kappa, rho, rho_inf, omega = inputs.condition_number, inputs.rho, inputs.rho_inf, inputs.omega
    return {
        "problem": case.problem,
        "option": case.option,
        "varied": case.varied,
        "family": case.family,
        "nodes": case.nodes,
        "kappa": kappa,
        "rho": rho,
        "rho_inf": rho_inf,
        "omega": omega,
        "theta": sizes.theta,
        "eta": sizes.eta,
        "bound": (inputs.samples if case.option == "D" else 0) + omega + kappa * (rho + omega * rho_inf),
    }


def exponent(values: Any, results: Any) -> float:
    """Return b of the fit results ≈ a·values^b."""
    return float(np.polyfit(np.log(np.asarray(values, float)), np.log(np.asarray(results, float)), 1)[0])


def fitted_exponents(rows: list[Row]) -> list[Row]:
    """Fit how the iterations per e-fold of the error grow in each sweep: measured, proven, and by the paper's order."""
    fits = []
    for key in dict.fromkeys((row["problem"], row["option"], row["varied"], row["family"]) for row in rows):
        problem, option, varied, family = key
        sweep = [row for row in rows if (row["problem"], row["option"], row["varied"], row["family"]) == key]
        values = [row[varied] for row in sweep]
        fits.append(
            {
                "problem": problem,
                "option": option,
                "varied": varied,
                "family": family,
                "from": min(values),
                "to": max(values),
                "exponent_measured": exponent(values, [1 / row["rate_error"] for row in sweep]),
                "exponent_theory": exponent(values, [1 / row["rate_theory"] for row in sweep]),
                "exponent_order": exponent(values, [row["bound"] for row in sweep]),
            }
        )
    return fits


def slopes(results: Results) -> tuple[list[Row], list[Row]]:
    """Run all sweeps, and return the runs and the fitted exponents."""
    dim = 16 if results.quick else 32
    rows = []
    for case in cases(results.quick, dim):
        shared = case._replace(varied="", family="")  # sweeps share their base case
        key = " ".join(str(part) for part in ("rates slope", *shared, dim) if part != "")
        found = results.cell(key, {**shared._asdict(), "dim": dim, "target": TARGET}, partial(measure, shared, dim))
        rows.append({**found, "varied": case.varied, "family": case.family})
    fits = fitted_exponents(rows)
    results.table("slopes", rows)
    results.table("exponents", fits)
    _claims(results, rows, fits)
    return rows, fits


def _claims(results: Results, rows: list[Row], fits: list[Row]) -> None:
    for option in "ABD":
        mine = [row for row in rows if row["option"] == option]
        ratios = [min(row["ratio_lyapunov"], row["ratio_error"]) for row in mine]
        results.claim(
            all(row["converged"] for row in mine) and min(ratios) >= 1,
            f"Option {option} converges linearly, in all {len(mine)} runs at theory's step sizes (κ "
            f"{_span(mine, 'kappa')}, ρ {_span(mine, 'rho')}, ω {_span(mine, 'omega')}) at least at the proven rate: "
            f"measured over proven rate is {min(ratios):.2f} to {max(ratios):.3g}, median {np.median(ratios):.3g}.",
        )
    for varied, letter in (("kappa", "κ"), ("rho", "ρ"), ("omega", "ω")):
        mine = [fit for fit in fits if fit["varied"] == varied]
        excess = max(fit["exponent_measured"] - fit["exponent_theory"] for fit in mine)
        measured = [fit["exponent_measured"] for fit in mine]
        proven = [fit["exponent_theory"] for fit in mine]
        order = [fit["exponent_order"] for fit in mine]
        results.claim(
            excess <= TOLERANCE,
            f"Over {letter} from {min(fit['from'] for fit in mine):.3g} to {max(fit['to'] for fit in mine):.3g} the "
            f"iterations grow as {letter}^{min(measured):.2f} to {letter}^{max(measured):.2f} at theory's step sizes; "
            f"the theorems' 1/rate as {letter}^{min(proven):.2f} to {letter}^{max(proven):.2f} on the same runs, and "
            f"{BOUND} without the theorems' constants as {letter}^{min(order):.2f} to {letter}^{max(order):.2f}. No "
            f"sweep passes the exponent of the theorems by more than {max(excess, 0):.2f}.",
        )


def _span(rows: list[Row], name: str) -> str:
    return f"{min(row[name] for row in rows):.3g} to {max(row[name] for row in rows):.3g}"
