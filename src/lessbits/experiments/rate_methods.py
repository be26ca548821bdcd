"""The claims of the paper's Table 1: which methods are linear, the others' exponents in ε, and growth with κ and ρ."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from lessbits.engines.recording.trace import Trace
from lessbits.engines.simulate.run import simulate
from lessbits.experiments.phase import fewest_iterations
from lessbits.experiments.rate_slopes import exponent, weak_ring
from lessbits.experiments.results import Results, Row
from lessbits.methods.base import Method
from lessbits.methods.common import spectral_gap
from lessbits.networks import Network
from lessbits.problems import LeastSquares, Problem
from lessbits.tuning.stepsizes import make_method

NODES, DIM, CONDITION = 8, 8, 10.0
QUANTIZER = "dit-2"
POINTS = 120  # points per curve, for each of the two spacings
LINEAR_REDUCTION = 1e-20  # factor on the first error that only linear methods reach in these runs
TARGET = 1e-8  # squared error, for growth with κ and ρ
MOST_ITERATIONS = 300_000
STEPS_PER_DECADE = 5


class Contender(NamedTuple):
    """A row of Table 1: a function that makes the method at a step size, and the exponents that the table states."""

    label: str
    make: Callable[[Problem, Network, float], Method]
    guess: Callable[[Problem, Network], float]  # the step size that a search starts from
    kappa: float  # the table's exponent of κ, or its lower bound
    rho: float


@cache
def shared_ridge(condition: float) -> Problem:
    """Return a least-squares problem in which all nodes share one Hessian, so that the mean loss has the local κ too.

    If nodes have different eigenvectors (`LeastSquares.random`), the mean Hessian is far better conditioned than each
    local one, and κ hardly matters once step sizes are tuned.
    """
    random = np.random.default_rng(0)
    spectrum = np.geomspace(1 / condition, 1.0, DIM)
    right, _ = np.linalg.qr(random.normal(size=(DIM, DIM)))
    features, targets = [], []
    for _ in range(NODES):
        left, _ = np.linalg.qr(random.normal(size=(DIM, DIM)))
        features.append(np.sqrt(DIM) * (left * np.sqrt(spectrum)) @ right.T)
        targets.append(features[-1] @ random.normal(size=DIM))
    return LeastSquares.from_parts(features, targets, 0.0)


def _algorithm(quantizer: str) -> Callable[[Problem, Network, float], Method]:
    def make(problem: Problem, network: Network, theta: float) -> Method:
        return make_method("primal-dual", problem, network, quantizer, theta=theta, eta=1 / problem.smoothness)

    return make


def _baseline(name: str) -> Callable[[Problem, Network, float], Method]:
    return lambda problem, network, eta: make_method(name, problem, network, eta=eta)


def _extra_eta(problem: Problem, network: Network) -> float:
    return (1 - network.lambda_max / 2) / problem.smoothness


def _tracking_eta(problem: Problem, network: Network) -> float:
    return 4 * spectral_gap(network) / problem.smoothness


def _largest_theta(problem: Problem, network: Network) -> float:
    return problem.smoothness / network.lambda_max


CONTENDERS = (
    Contender("EXTRA", _baseline("extra"), _extra_eta, 1, 2),
    Contender("gradient tracking", _baseline("gradient-tracking"), _tracking_eta, 1, 2),
    Contender("primal-dual gradient", _algorithm("exact"), _largest_theta, 1, 1),
    Contender(f"Algorithm 1, B, {QUANTIZER}", _algorithm(QUANTIZER), _largest_theta, 1, 1),
)
SUBLINEAR = {"DGD, decreasing η": 0.5, f"Choco-SGD, {QUANTIZER}, decreasing η": 0.5, "QDGD, dit-4": 2.0}


def _sublinear(label: str, problem: Problem, network: Network) -> Method:
    """Make a method whose step sizes decrease so slowly that the error left is its bias, and not its start."""
    eta, convexity = 1 / problem.smoothness, problem.convexity
    decay = convexity * eta / 2
    if label.startswith("DGD"):
        return make_method("dgd", problem, network, eta=eta, decay=decay)
    if label.startswith("Choco"):
        return make_method("choco", problem, network, QUANTIZER, eta=eta, gamma=0.5, decay=decay)
    epsilon, alpha = 0.3, 0.1 * eta
    decay = epsilon * alpha * convexity / 2
    return make_method("qdgd", problem, network, "dit-4", epsilon=epsilon, alpha=alpha, decay=decay)


def curve(trace: Trace) -> list[list[float]]:
    """Return points of the error, half of them spaced evenly and half logarithmically."""
    last = len(trace) - 1
    spread = np.concatenate((np.geomspace(1, max(last, 1), POINTS), np.linspace(0, last, POINTS)))
    kept = np.unique(np.minimum(spread.round().astype(int), last))
    return [[float(trace["iteration"][at]), float(f"{trace['error'][at]:.5g}")] for at in kept]


def _sublinear_cell(label: str, iterations: int) -> Row:
    problem, network = shared_ridge(CONDITION), weak_ring(NODES, 1.0)
    method = _sublinear(label, problem, network)
    trace = simulate(problem, network, method, iterations=iterations, record_every=max(1, iterations // 20_000))
    late = trace["iteration"] >= iterations / 10
    power = exponent(trace["iteration"][late], trace["error"][late])
    return {
        "reached": float(trace["error"][-1] / trace["error"][0]),
        "iterations": int(trace["iteration"][-1]),
        "power": power,
        "curve": curve(trace),
    }


def _best(contender: Contender, condition: float, weak: float) -> Row:
    """Tune a linear method on one problem and network."""
    problem, network = shared_ridge(condition), weak_ring(NODES, weak)

    def run(size: float, most: int) -> int | None:
        method = contender.make(problem, network, size)
        trace = simulate(problem, network, method, iterations=most, until=TARGET, record_every=1)
        return int(trace["iteration"][-1]) if trace.converged else None

    size, iterations = fewest_iterations(run, contender.guess(problem, network), MOST_ITERATIONS, STEPS_PER_DECADE)
    return {
        "method": contender.label,
        "kappa": problem.condition_number,
        "rho": network.rho,
        "product": problem.condition_number * network.rho,
        "step_size": size,
        "iterations": iterations,
    }


def _linear_cell(contender: Contender, size: float) -> Row:
    problem, network = shared_ridge(CONDITION), weak_ring(NODES, 1.0)
    first = float(np.sum((np.asarray(problem.start()) - problem.solution) ** 2)) / NODES
    method = contender.make(problem, network, size)
    trace = simulate(problem, network, method, iterations=20_000, until=LINEAR_REDUCTION * first, record_every=1)
    iteration, log_error = trace["iteration"], np.log(trace["error"])
    slope, offset = np.polyfit(iteration, log_error, 1)
    bend = float(np.var(log_error - slope * iteration - offset) / np.var(log_error))
    reached = float(trace["error"][-1] / trace["error"][0])
    return {
        "reached": reached,
        "iterations": int(iteration[-1]),
        "rate": float(-slope),
        "bend": bend,
        "curve": curve(trace),
    }


def table_one(results: Results) -> tuple[list[Row], list[Row], list[Row]]:
    """Return a row per method with its curve, the tuned runs, and the fitted exponents of κ and ρ."""
    shared = {"nodes": NODES, "dim": DIM, "condition": CONDITION}
    rows: list[Row] = []
    for label, paper in SUBLINEAR.items():
        most = (100_000 if label.startswith("QDGD") else 20_000) * (1 if results.quick else 10)
        inputs = {**shared, "label": label, "iterations": most}
        found = results.cell(f"rates table 1 {label} {most}", inputs, partial(_sublinear_cell, label, most))
        rows.append({"method": label, "linear": found["reached"] <= LINEAR_REDUCTION, "tau_paper": paper, **found})
        rows[-1]["tau"] = -1 / found["power"]
    tuned = _growth(results)
    for contender in CONTENDERS:
        base = next(row for row in tuned if row["method"] == contender.label and row["varied"] == "kappa_base")
        inputs = {**shared, "label": contender.label, "step_size": base["step_size"]}
        found = results.cell(
            f"rates table 1 {contender.label}", inputs, partial(_linear_cell, contender, base["step_size"])
        )
        rows.append({"method": contender.label, "linear": found["reached"] <= LINEAR_REDUCTION, **found})
    tuned = [row for row in tuned if row["varied"] != "kappa_base"]
    fits = _fits(tuned)
    results.table("table1", [{name: value for name, value in row.items() if name != "curve"} for row in rows])
    results.table("table1_growth", tuned)
    results.table("table1_exponents", fits)
    _claims(results, rows, fits)
    return rows, tuned, fits


def _growth(results: Results) -> list[Row]:
    """Tune each linear method while κ and ρ vary."""
    conditions = (3.0, 30.0) if results.quick else (3.0, 10.0, 30.0, 100.0, 300.0)
    weak = (1.0, 0.1) if results.quick else (1.0, 0.3, 0.1, 0.03, 0.01)
    points = [("kappa_base", CONDITION, 1.0)]
    points += [("kappa", condition, 1.0) for condition in conditions] + [("rho", CONDITION, factor) for factor in weak]
    points += [("product", *pair) for pair in zip(conditions[-len(weak) :], weak, strict=True)]
    rows = []
    for contender in CONTENDERS:
        for varied, condition, factor in points:
            inputs = {"method": contender.label, "condition": condition, "weak": factor, "target": TARGET, "dim": DIM}
            key = f"rates growth {contender.label} {condition} {factor}"
            found = results.cell(key, inputs, partial(_best, contender, condition, factor))
            rows.append({**found, "varied": varied})
    return rows


def _fits(tuned: list[Row]) -> list[Row]:
    fits = []
    for contender in CONTENDERS:
        row: Row = {"method": contender.label}
        for varied, paper in (("kappa", contender.kappa), ("rho", contender.rho), ("product", None)):
            mine = [point for point in tuned if (point["method"], point["varied"]) == (contender.label, varied)]
            solved = [point for point in mine if point["iterations"]]
            row[f"exponent_{varied}"] = exponent([p[varied] for p in solved], [p["iterations"] for p in solved])
            if paper is not None:
                row[f"paper_{varied}"] = paper
            row[f"solved_{varied}"] = f"{len(solved)} of {len(mine)}"
        fits.append(row)
    return fits


def _claims(results: Results, rows: list[Row], fits: list[Row]) -> None:
    for row in rows:
        if "tau" in row:
            agrees = not row["linear"] and abs(math.log(row["tau"] / row["tau_paper"])) <= math.log(1.25)
            results.claim(
                agrees,
                f"{row['method']} is sublinear: after {row['iterations']} iterations the error is "
                f"{row['reached']:.2g} times the first and falls as k^{row['power']:.2f}, so ε takes about "
                f"ε^-{row['tau']:.2f} iterations (Table 1: ε^-{row['tau_paper']:g}).",
            )
        else:
            results.claim(
                row["linear"],
                f"{row['method']} is linear: the error falls by a factor {1 / row['reached']:.1e} in "
                f"{row['iterations']} iterations, on a straight line in log scale but for {row['bend']:.2%} of the "
                "variance.",
            )
    for fit in fits:
        results.claim(
            fit["exponent_kappa"] <= fit["paper_kappa"] + 0.15 and fit["exponent_rho"] <= fit["paper_rho"] + 0.15,
            f"{fit['method']}, tuned, needs iterations that grow as κ^{fit['exponent_kappa']:.2f} and "
            f"ρ^{fit['exponent_rho']:.2f} (Table 1 bounds them by κ^{fit['paper_kappa']:g} and "
            f"ρ^{fit['paper_rho']:g}) with the other at its base, κ = {CONDITION:g} or ρ = "
            f"{weak_ring(NODES, 1.0).rho:.2g}, and as (κρ)^{fit['exponent_product']:.2f} when both grow together: the "
            f"product of the bounds is {'not reached' if fit['exponent_product'] < 0.85 else 'about reached'}.",
        )
