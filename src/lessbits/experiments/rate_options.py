"""The claims of the paper's Table 2: options A, B and D are linear, C is linear down to a floor that grows with η."""

from functools import partial

import jax.numpy as jnp
import numpy as np

from lessbits.engines.simulate.run import simulate
from lessbits.experiments.rate_methods import curve
from lessbits.experiments.rate_slopes import exponent, ridge, weak_ring
from lessbits.experiments.results import Results, Row
from lessbits.methods.base import Start
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import theory_inputs
from lessbits.methods.primal_dual import PrimalDual
from lessbits.methods.request import MethodRequest
from lessbits.quantizers import Quantizer, make_quantizer
from lessbits.theory.theorems import TheoryInputs, noise_floor, rate, step_sizes

NODES, DIM, CONDITION = 8, 8, 3.0
QUANTIZER = "rand-4"
TARGET = 1e-14
MOST_ITERATIONS = 400_000
START_SCALE = 100.0  # scale of the starts, so that option C begins far above its floor
HALVINGS = (0, 1, 2, 3, 4)  # how often option C's largest step size, 1/(2L), is halved


def _method(option: str, eta_factor: float = 1.0) -> tuple[PrimalDual, TheoryInputs]:
    """Return Algorithm 1 at theory's step sizes, with η times a factor, and the inputs of the theorems."""
    quantizer = make_quantizer(QUANTIZER, DIM)
    assert isinstance(quantizer, Quantizer)
    request = MethodRequest(ridge(NODES, DIM, CONDITION), weak_ring(NODES, 1.0), quantizer, Gradients(option))
    inputs = theory_inputs(request).as_published()
    sizes = step_sizes(option, inputs)
    return PrimalDual.make(quantizer, sizes.theta, sizes.eta * eta_factor, sizes.alpha, option=option), inputs


def _option_cell(option: str, most: int) -> Row:
    problem, network = ridge(NODES, DIM, CONDITION), weak_ring(NODES, 1.0)
    method, inputs = _method(option)
    random = np.random.default_rng(0)
    x, z = (START_SCALE * random.normal(size=(NODES, DIM)) for _ in range(2))
    trace = simulate(
        problem, network, method, iterations=most, until=TARGET, record_every=1, start=Start(x=x, z=z - z.mean(0))
    )
    half = len(trace) // 2
    tail = float(trace["error"][half:].mean()) if option == "C" else 0.0
    falling = int(np.argmax(trace["error"] <= max(100 * tail, TARGET))) or len(trace)
    slope = np.polyfit(trace["iteration"][:falling], np.log(trace["error"][:falling]), 1)[0]
    return {
        "option": option,
        "eta": method.eta,
        "theta": method.theta,
        "rate_theory": rate(option, inputs, method.eta),
        "rate_error": -float(slope),
        "iterations": int(trace["iteration"][-1]),
        "error_first": float(trace["error"][0]),
        "error_last": tail or float(trace["error"][-1]),
        "converged": trace.converged,
        "curve": curve(trace),
    }


def _floor_cell(factor: float, iterations: int, seeds: int) -> Row:
    """Start at the solution, and measure how far option C's noise drives the iterates away."""
    problem, network = ridge(NODES, DIM, CONDITION), weak_ring(NODES, 1.0)
    method, inputs = _method("C", factor)
    solution = jnp.broadcast_to(jnp.asarray(problem.solution), (NODES, DIM))
    start = Start(x=solution, z=problem.gradient(solution), h=solution)
    errors = []
    for seed in range(seeds):
        trace = simulate(problem, network, method, iterations=iterations, seed=seed, record_every=20, start=start)
        errors.append(float(trace["error"][len(trace) // 2 :].mean()))
    return {
        "eta": method.eta,
        "floor_measured": float(np.mean(errors)),
        "floor_spread": float(np.std(errors)),
        "floor_theory": noise_floor(inputs, method.eta),
        "noise": inputs.noise,
    }


def table_two(results: Results) -> tuple[list[Row], list[Row]]:
    """Return a row per option with its curve, and option C's floors."""
    most, seeds = (20_000, 1) if results.quick else (MOST_ITERATIONS, 3)
    shared = {"nodes": NODES, "dim": DIM, "condition": CONDITION, "quantizer": QUANTIZER}
    rows = []
    for option in "ABCD":
        length = min(most, 40_000) if option == "C" else MOST_ITERATIONS
        inputs = {**shared, "option": option, "most": length, "target": TARGET}
        rows.append(results.cell(f"rates table 2 {option} {length}", inputs, partial(_option_cell, option, length)))
    floors = []
    for halvings in HALVINGS[:3] if results.quick else HALVINGS:
        inputs = {**shared, "halvings": halvings, "iterations": most, "seeds": seeds}
        found = results.cell(f"rates floor {halvings} {most}", inputs, partial(_floor_cell, 0.5**halvings, most, seeds))
        floors.append({**found, "share": found["floor_measured"] / found["floor_theory"]})
    results.table("table2", [{name: value for name, value in row.items() if name != "curve"} for row in rows])
    results.table("table2_floor", floors)
    _claims(results, rows, floors)
    return rows, floors


def _claims(results: Results, rows: list[Row], floors: list[Row]) -> None:
    for row in rows:
        if row["option"] != "C":
            results.claim(
                row["converged"],
                f"Option {row['option']} is linear at theory's step sizes with {QUANTIZER} messages: from an error of "
                f"{row['error_first']:.1e} to {row['error_last']:.1e} in {row['iterations']} iterations.",
            )
    stopped = next(row for row in rows if row["option"] == "C")
    largest = floors[0]
    results.claim(
        not stopped["converged"]
        and stopped["error_last"] <= largest["floor_theory"]
        and stopped["rate_error"] >= stopped["rate_theory"],
        f"Option C is linear to a floor: from {stopped['error_first']:.1e} at a rate of {stopped['rate_error']:.2g} "
        f"(proven: {stopped['rate_theory']:.2g}) to an error of {stopped['error_last']:.2g} on average, below the "
        f"bound 4η²σ²/ρ_C = {largest['floor_theory']:.3g}.",
    )
    etas = [row["eta"] for row in floors]
    measured = exponent(etas, [row["floor_measured"] for row in floors])
    proven = exponent(etas, [row["floor_theory"] for row in floors])
    results.claim(
        abs(measured - proven) <= 0.2 and all(row["share"] <= 1 for row in floors),
        f"Option C's floor scales with η as the theorem says: as η^{measured:.2f} over a factor "
        f"{max(etas) / min(etas):.0f} in η (bound: η^{proven:.2f}), at {min(row['share'] for row in floors):.2g} to "
        f"{max(row['share'] for row in floors):.2g} of the bound.",
    )
