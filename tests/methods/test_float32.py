"""Long runs in float32: a method that has converged stays where it is, as rounding must not add up."""

import os

import jax
import pytest
from tiers import slow_but

from lessbits import LeastSquares, make_method, make_network, simulate
from lessbits.methods.registry import BUILT_IN, find_method

ITERATIONS = int(os.environ.get("LESSBITS_ITERATIONS", "200000"))  # a campaign takes a million
NODES, DIM = 8, 10
DIT = {"quantizer": "dit-4"}
CORRECTED = {**DIT, "corrected": True}
# Every method that converges to the solution. Practical step sizes, the ring, or with a server the star.
RUNS = [("primal-dual", {**DIT, "messages": messages}) for messages in ("independent", "broadcast", "edge")]
RUNS += [("primal-dual", {**CORRECTED, "messages": messages}) for messages in ("independent", "broadcast", "edge")]
RUNS += [("primal-dual", {**DIT, "option": option}) for option in "AD"]
RUNS += [(name, DIT) for name in ("lead", "edge-dual", "accelerated", "proximal", "diana", "vr-diana")]
RUNS += [(name, DIT) for name in ("tree", "newton-tree", "twin-tree", "all-gather", "newton-gather")]
RUNS += [("lead", {"quantizer": "exact"}), ("lead", {**DIT, "option": "D"})]
RUNS += [(name, {}) for name in ("scheduled", "extra", "nids", "gradient-tracking", "gradient-tracking-atc", "gt-svrg")]
RUNS += [(name, {}) for name in ("ssda", "msda", "scaffnew", "compressed-scaffnew", "opapc")]
RUNS += [(name, DIT) for name in ("c-gt", "beer", "motef", "ef21", "locodl", "adiana", "dore")]
INEXACT = {"dgd", "qdgd", "choco"}  # these stop at an error of their own, far above rounding
# Where iterates stop changing before they are at the solution.
FLOORS = {"scheduled": 1e-8, "extra": 1e-11, "gt-svrg": 1e-9, "ssda": 1e-10, "msda": 1e-10, "vr-diana": 1e-10}
WANDERS = {"nids": 1e-9, "compressed-scaffnew": 1e-10}  # their rounding errors are a random walk
QUICK = [("lead", DIT), ("primal-dual", {**CORRECTED, "messages": "edge"})]


def errors(name, choices, iterations):
    """Return the squared error at a hundred records of a run."""
    problem = LeastSquares.random(NODES, DIM, condition=3.0)
    network = make_network("star" if find_method(name).needs_star else "ring", NODES)
    method = make_method(name, problem, network, stepsizes="practical", **choices)
    assert jax.numpy.result_type(float) == "float32"
    return simulate(problem, network, method, iterations=iterations, record_every=iterations // 100)["error"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "choices"), slow_but(QUICK[:1], QUICK))
def test_a_short_run_stays_at_rounding(name, choices, in_float32):
    """Dual variables in single digits left more than ten times this error."""
    assert errors(name, choices, 30_000)[50:].max() < 3e-13


@pytest.mark.slow
@pytest.mark.optimized
@pytest.mark.parametrize(("name", "choices"), RUNS)
def test_an_error_does_not_grow(name, choices, in_float32):
    error = errors(name, choices, ITERATIONS)
    tenth, half = ITERATIONS // 10, ITERATIONS // 2
    print(
        f"{name} {choices}: {error[10]:.1e} after {tenth:,} iterations, at most {error[50:].max():.1e} after {half:,}"
    )
    assert error[10:].max() < {**FLOORS, **WANDERS}.get(name, 1e-12)
    assert name in WANDERS or error[-20:].mean() < 2 * error[10:30].mean()


def test_every_method_is_tried():
    assert {name for name, _ in RUNS} | INEXACT == set(BUILT_IN)
