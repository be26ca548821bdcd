"""Gossip with acceleration: √κ in place of κ, with compressed messages, down to 1e-20."""

import numpy as np
import pytest
from tiers import slow_but

from lessbits import InputError, LeastSquares, make_method, make_network, simulate

NETWORK = make_network("complete", 6)


def alike(condition):
    """All nodes have one Hessian, so that the mean loss is as ill-conditioned as theirs."""
    design = np.diag(np.sqrt(np.geomspace(1, condition, 10)))
    targets = np.random.default_rng(0).normal(size=(6, 10)) * np.sqrt(condition)
    return LeastSquares.from_parts([design] * 6, list(targets), 0.0)


def iterations(name, condition, **options):
    problem = alike(condition)
    method = make_method(name, problem, NETWORK, **options)
    trace = simulate(problem, NETWORK, method, iterations=60_000, until=1e-12, record_every=10)
    assert trace.converged, trace.message
    return trace["iteration"][-1]


@pytest.mark.slow
@pytest.mark.parametrize(("quantizer", "stepsizes"), [("exact", "theory"), ("subtractive:8", "practical")])
def test_iterations_grow_with_the_root_of_the_condition_number(quantizer, stepsizes):
    """Sixteen times κ: four times the iterations, and sixteen without momentum."""
    few, many = (
        iterations("accelerated", condition, quantizer=quantizer, stepsizes=stepsizes) for condition in (100.0, 1600.0)
    )
    assert many / few < 6
    if quantizer == "exact":
        plain = iterations("lead", 1600.0, quantizer=quantizer, stepsizes=stepsizes)
        assert plain > 3 * many


@pytest.mark.parametrize("quantizer", slow_but(["subtractive:8"], ["subtractive:8", "fading:1:0.97"]))
@pytest.mark.parametrize("option", slow_but("D", "BD"))
def test_it_converges_linearly_to_1e_20(option, quantizer):
    problem = alike(50.0)
    method = make_method("accelerated", problem, NETWORK, quantizer, option=option, stepsizes="practical")
    trace = simulate(problem, NETWORK, method, iterations=60_000, until=1e-20, record_every=10)
    assert trace.converged, trace.message
    half = np.flatnonzero(trace["error"] < 1e-10)[0]
    assert 0.25 < trace["iteration"][half] / trace["iteration"][-1] < 0.7


def test_flat_losses_and_too_much_momentum_are_refused():
    flat = LeastSquares.from_parts([np.eye(2, 5)] * 6, [np.ones(2)] * 6, 0.0)
    with pytest.raises(InputError, match="strongly convex"):
        make_method("accelerated", flat, NETWORK, "exact")
    problem = LeastSquares.random(6, 10, condition=50.0)
    with pytest.raises(InputError, match="must be below 1"):
        simulate(problem, NETWORK, make_method("accelerated", problem, NETWORK, "exact", momentum=1.0), iterations=1)
