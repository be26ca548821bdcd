"""Practical step sizes: what the model promises, against runs."""

import numpy as np
import pytest
from requests_for import prediction_for
from tiers import slow_but

from lessbits import (
    Consensus,
    InputError,
    LeastSquares,
    PrimalDual,
    make_network,
    make_quantizer,
    primal_dual,
    simulate,
)
from lessbits.theory.mean_square import mean_square_rate, practical_step_sizes
from lessbits.theory.theorems import StepSizes, TheoryInputs

PROMISES = [
    ("ring", "broadcast", True, "dither:12"),
    ("ring", "edge", False, "dither:24"),
    ("torus", "edge", True, "dither:8"),
    ("torus", "broadcast", False, "rand-50"),
    ("random-regular:4", "independent", False, "dither:4"),
    ("star", "edge", False, "dither:8"),
]


@pytest.mark.parametrize(
    ("network", "messages", "corrected", "quantizer"), slow_but([PROMISES[0], PROMISES[5]], PROMISES)
)
def test_runs_need_about_the_iterations_that_the_model_promises(network, messages, corrected, quantizer):
    problem, network = Consensus.random(36, 100), make_network(network, 36, seed=1)
    quantizer = make_quantizer(quantizer, 100)
    promise = prediction_for(problem, network, quantizer, messages=messages, corrected=corrected)
    method = PrimalDual.make(quantizer, *promise.sizes, messages=messages, corrected=corrected)
    trace = simulate(problem, network, method, iterations=5000, until=1e-9, record_every=1)
    expected = promise.iterations(trace["error"][0] / 1e-9)
    assert trace.converged
    # The start counts too: momentum takes time to build up.
    assert 0.7 * expected - 10 < trace["iteration"][-1] < 1.25 * expected + 15


def test_without_noise_the_rate_is_that_of_heavy_ball_and_nesterov():
    """On consensus: η = 1 - β, and ηθ is the step, at the known optima for eigenvalues from λ_min to λ_max."""
    least, most = 0.01, 1.0
    inputs = TheoryInputs(1, 1, most, least, 0.25, omega=0.0)
    root = np.sqrt(most / least)
    heavy_ball = practical_step_sizes("B", inputs).rate
    assert heavy_ball == pytest.approx(((root - 1) / (root + 1)) ** 2, rel=0.02)
    nesterov = practical_step_sizes("B", inputs, corrected=True).rate
    assert nesterov == pytest.approx((1 - 2 / np.sqrt(3 * most / least + 1)) ** 2, rel=0.02)


def test_the_rate_of_one_mode_is_that_of_its_moments():
    """Two nodes and one curvature: the model is then exact, and simulated moments must shrink by its rate."""
    inputs = TheoryInputs(1, 1, lambda_max=1.0, lambda_min=1.0, max_weight=0.5, omega=0.6)
    sizes = StepSizes(0.9, 0.7, 0.5)
    rate = mean_square_rate("B", inputs, sizes, "broadcast", corrected=False)
    second = np.eye(3)  # moments of (x, z, h); by hand, as a 3 × 3 recursion
    y = np.array([1 - 0.7, 0.7, 0.0])
    step = np.array([y, np.array([0, 1, 0]) - 0.9 * y, 0.5 * y + np.array([0, 0, 0.5])])
    seen, kick = y - np.array([0, 0, 1]), np.array([0, -0.9, 0.5])
    sizes_of_moments = []
    for _ in range(200):
        variance = 0.6 * seen @ second @ seen
        second = step @ second @ step.T + variance * np.outer(kick, kick)
        sizes_of_moments.append(np.trace(second))
    assert rate == pytest.approx((sizes_of_moments[-1] / sizes_of_moments[-101]) ** 0.01, rel=1e-3)


@pytest.mark.parametrize(("messages", "corrected"), [("independent", False), ("edge", True), ("broadcast", True)])
def test_noise_dies_out_whatever_curvature_most_coordinates_have(messages, corrected):
    inputs = TheoryInputs(1.0, 1 / 3000, lambda_max=4 / 3, lambda_min=0.05, max_weight=1 / 3, omega=0.6)
    promise = practical_step_sizes("B", inputs, messages, corrected)
    assert promise.rate < 1
    for curvature in np.geomspace(1 / 3000, 1, 5):
        alike = inputs._replace(smoothness=curvature, convexity=curvature)
        assert mean_square_rate("B", alike, promise.sizes, messages, corrected) <= promise.rate + 1e-5


NETWORKS = ["ring", "star", "erdos-renyi:0.4"]
PROBLEMS = {
    "consensus": lambda: Consensus.random(12, 20),
    "ridge": lambda: LeastSquares.random(12, 20, condition=30.0),
}
QUANTIZERS = ["dit-2", "subtractive:5", "rand-5", "ternary", "natural"]
FAMILY = [("independent", False), ("broadcast", False), ("edge", False), ("broadcast", True), ("edge", True)]
# Every pair of network, problem and quantizer, the members of the family taking turns.
TABLE = [
    (network, problem, quantizer, *FAMILY[(at + number) % len(FAMILY)])
    for at, network in enumerate(NETWORKS)
    for shift, problem in enumerate(PROBLEMS)
    for number, quantizer in enumerate(QUANTIZERS, 2 * shift)
]


# Every network, problem, quantizer and member once.
QUICK = [TABLE[number] for number in (0, 6, 18, 19, 22)]


@pytest.mark.parametrize(("network", "problem", "quantizer", "messages", "corrected"), slow_but(QUICK, TABLE))
def test_practical_step_sizes_converge_on_the_whole_table(network, problem, quantizer, messages, corrected):
    problem, network = PROBLEMS[problem](), make_network(network, 12, seed=1)
    method = primal_dual(
        problem, network, quantizer, option="B", messages=messages, corrected=corrected, stepsizes="practical"
    )
    assert simulate(problem, network, method, iterations=20_000, until=1e-10, record_every=10).converged


CASES = [
    (option, *case)
    for option in "BD"
    for case in (
        ("ring", "independent", "dit-3"),
        ("ring", "broadcast", "exact"),
        ("star", "independent", "rand-5"),
        ("star", "broadcast", "dit-3"),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("option", "network", "messages", "quantizer"), slow_but([CASES[7]], CASES))
def test_practical_step_sizes_are_larger_and_faster_than_theorys(option, network, messages, quantizer):
    problem, network = LeastSquares.random(12, 20, condition=30.0), make_network(network, 12)
    errors = {}
    for kind in ("theory", "practical"):
        method = primal_dual(problem, network, quantizer, option=option, messages=messages, stepsizes=kind)
        trace = simulate(problem, network, method, iterations=4000, record_every=100)
        assert not trace.diverged
        errors[kind] = (method.theta, trace["error"][-1])
    assert errors["practical"][0] > 2 * errors["theory"][0]
    assert errors["practical"][1] < 0.1 * errors["theory"][1]


@pytest.mark.slow
def test_practical_step_sizes_on_an_ill_conditioned_problem_do_not_diverge_later():
    """The noise feeds itself slowly through flat directions: a short trial may not show it, the mean square does."""
    problem, network = LeastSquares.random(12, 20, condition=3000.0), make_network("ring", 12)
    method = primal_dual(problem, network, "dit-2", stepsizes="practical")
    trace = simulate(problem, network, method, iterations=60_000, record_every=100)
    assert trace["error"][-1] < 0.05 * trace["error"][0]
    noiseless = primal_dual(problem, network, "exact", stepsizes="practical")
    naive = primal_dual(problem, network, "dit-2", theta=noiseless.theta, eta=noiseless.eta)
    grown = simulate(problem, network, naive, iterations=60_000, record_every=100)
    assert grown.diverged or grown["error"][-1] > 10 * np.max(trace["error"][-10:])


@pytest.mark.slow
def test_unstable_practical_step_sizes_are_halved_until_they_hold():
    """Step sizes that were given stay; the others give way."""
    problem, network = LeastSquares.random(12, 20, condition=30.0), make_network("ring", 12)
    free = primal_dual(problem, network, "dit-4", stepsizes="practical")
    pressed = primal_dual(problem, network, "dit-4", stepsizes="practical", eta=1.9)
    assert pressed.eta == 1.9
    assert pressed.theta < free.theta
    assert not simulate(problem, network, pressed, iterations=3000, record_every=10).diverged
    with pytest.raises(InputError, match="no stable step sizes"):
        primal_dual(problem, network, "dit-4", stepsizes="practical", eta=5.0)


def test_a_given_eta_leaves_the_search_a_direction_that_does_not_matter():
    """The search may wander along it: exp overflowed here, and `lessbits reproduce rates` stopped."""
    inputs = TheoryInputs(1.0, 1.0, lambda_max=1.6, lambda_min=0.117157287525381, max_weight=0.2, omega=1.0)
    assert 0 < practical_step_sizes("B", inputs, given={"eta": 1.0}).rate < 1
