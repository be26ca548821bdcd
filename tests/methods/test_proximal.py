"""Gossip with local minimisation: against plain NumPy, its fixed points, and how many exchanges it needs."""

from dataclasses import replace

import numpy as np
import pytest
from baseline_reference import Oracle, exactly, quantize_with, ridge, states_of

from lessbits import LeastSquares, Logistic, Start, load_samples, make_method, make_network, simulate, split_samples
from lessbits.tuning.stepsizes import make_request

NODES, DIM, SEED, EXCHANGES = 7, 5, 4, 12
PROBLEM, RING = ridge(NODES, DIM, 8, regularization=0.1), make_network("ring", NODES)
POINT, MEMORY = np.random.default_rng(3).normal(size=(2, NODES, DIM))
NOISY, FADING = "subtractive:8", "fading:1:0.97"
SIZES = {"theta": 0.3, "eta": 2.0, "momentum": 0.4}


def in_numpy(alpha, quantize):
    """The iterates, with exact minimisers of quadratic losses."""
    oracle, laplacian = Oracle(PROBLEM), RING.laplacian().toarray()
    theta, eta, momentum = SIZES.values()
    matrices = oracle.hessian + np.eye(DIM) / eta
    x, before, dual, earlier, memory = POINT, POINT, np.zeros_like(POINT), np.zeros_like(POINT), MEMORY
    for k in range(EXCHANGES):
        ahead, pull = x + momentum * (x - before), dual + momentum * (dual - earlier)
        side = pull + ahead / eta + oracle.offset
        y = np.linalg.solve(matrices, side[..., None])[..., 0]
        sent = quantize(k, y - memory)
        lag = laplacian @ (memory + sent)
        memory = memory + alpha * sent
        before, earlier = x, dual
        dual, x = pull - theta * lag, y - eta * theta * lag
        yield x


@pytest.mark.parametrize("quantizer", ["exact", "dit-2"])
def test_with_many_local_steps_it_is_the_method_with_exact_minimisers(quantizer):
    method = make_method("proximal", PROBLEM, RING, quantizer, alpha=0.4, **SIZES)
    method = replace(method, steps=40)
    rounded = exactly if quantizer == "exact" else quantize_with(method.quantizer, SEED)
    expected = in_numpy(0.4 if quantizer != "exact" else 1.0, rounded)
    states = states_of(method, PROBLEM, RING, EXCHANGES, Start(POINT, h=MEMORY), SEED)
    for state, x in zip(states, expected, strict=True):
        np.testing.assert_allclose(state.x, x, rtol=0, atol=1e-8)
        np.testing.assert_allclose(np.sum(state.z, axis=0), 0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 3])
def test_its_fixed_points_are_solutions_however_few_the_local_steps(steps):
    method = replace(make_method("proximal", PROBLEM, RING, "fading:1:0.98", stepsizes="theory"), steps=steps)
    trace = simulate(PROBLEM, RING, method, iterations=3000, until=1e-18)
    assert trace.converged, trace.message
    assert trace["gradient_evaluations"][-1] == trace["iteration"][-1] * steps * PROBLEM.samples


@pytest.mark.slow
def test_it_needs_fewer_exchanges_than_gossip_that_is_limited_by_the_first_curvature():
    """Logistic losses are far flatter at the solution than where a run starts."""
    samples = load_samples("breast-cancer").normalized_rows()
    parts = split_samples(samples, 6)
    problem, network = Logistic.from_samples(samples, parts, samples.binary_labels(), 1e-3), make_network("ring", 6)
    needed = {}
    for name, quantizer in (("proximal", "fading:2:0.9"), ("accelerated", "exact"), ("lead", "exact")):
        method = make_method(name, problem, network, quantizer, stepsizes="practical")
        trace = simulate(problem, network, method, iterations=3000, until=1e-6, goal="suboptimality", record_every=1)
        assert trace.converged, trace.message
        needed[name] = trace["iteration"][-1]
    assert needed["proximal"] < 0.8 * min(needed["accelerated"], needed["lead"]), needed


@pytest.mark.slow
def test_bits_do_not_depend_on_which_process_holds_a_node():
    from engines.test_stepwise import same_run
    from engines.threads import run_on

    problem = LeastSquares.random(7, 12, samples=40)
    method = make_method("proximal", problem, RING, "dit-3")
    same_run(
        simulate(problem, RING, method, iterations=20),
        run_on(2, problem, RING, method, iterations=20)[0],
        {"wire_bits_per_link"},
    )


def test_momentum_is_not_raised_where_noise_grows_with_what_is_sent():
    """With scales a trial of some hundred iterations may like β = 0.5, and the run diverges later."""
    problem = LeastSquares.random(NODES, DIM, condition=100.0)
    for quantizer, free in ((NOISY, False), (FADING, True), ("float32", True)):
        kind, request = make_request("proximal", problem, RING, quantizer, stepsizes="practical", target=None)
        assert ("momentum" in kind.undecided(request)) is free
    assert float(make_method("proximal", problem, RING, NOISY, stepsizes="practical").momentum) == 0
