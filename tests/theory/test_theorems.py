"""Theorems A to D as numbers, against the formulas written out, and what stands in their place for other messages."""

import math

import numpy as np
import pytest
from requests_for import inputs_for
from tiers import slow_but

from lessbits import Consensus, InputError, LeastSquares, make_network, make_quantizer, primal_dual, simulate, theory

SETTING = theory.TheoryInputs(
    smoothness=3.0, convexity=0.5, lambda_max=2.0, lambda_min=0.1, max_weight=0.25, omega=4.0, samples=40.0, noise=2.0
)
SPREAD = 2.0 + 12 * 4.0 * 0.25  # λ_max + 12ω max w


def test_step_sizes_of_the_theorems():
    assert theory.step_sizes("A", SETTING) == pytest.approx((0.5 / SPREAD, 1 / 3, 1 / 5))
    assert theory.step_sizes("B", SETTING) == pytest.approx((0.5 / (2 * SPREAD), 1 / 3, 1 / 5))
    assert theory.step_sizes("C", SETTING) == pytest.approx((0.5 / (2 * SPREAD), 1 / 6, 1 / 5))
    assert theory.step_sizes("D", SETTING) == pytest.approx((0.5 / (2 * SPREAD), 1 / 18, 1 / 5))


def test_rates_of_the_theorems():
    condition = 3.0 * SPREAD / (0.5 * 0.1)
    assert theory.rate("A", SETTING) == pytest.approx(1 / condition)
    assert theory.rate("B", SETTING) == pytest.approx(1 / (2 * condition))
    assert theory.rate("C", SETTING, eta=0.01) == pytest.approx(0.01 * 0.5 * 0.1 / (2 * SPREAD))
    assert theory.rate("D", SETTING) == pytest.approx(1 / (12 * condition))
    # The other terms of each maximum: the memory's 2(1+ω), and option D's 2m.
    easy = SETTING._replace(smoothness=0.5, lambda_min=2.0, max_weight=1e-9)
    assert theory.rate("B", easy) == pytest.approx(1 / 10)
    assert theory.rate("D", easy) == pytest.approx(1 / 80)


def test_step_size_of_corollary_c():
    sigma = math.sqrt(2.0)
    for target in (10.0, 1e-2, 1e-6):
        expected = min(1 / 6, math.sqrt(target) / (4 * sigma * math.sqrt(5)), target * 0.5 * 0.1 / (16 * 2.0 * SPREAD))
        assert theory.step_sizes("C", SETTING, target).eta == pytest.approx(expected)
        # The corollary's point: the noise floor is at most half the target.
        assert theory.noise_floor(SETTING, expected) <= target / 2 * (1 + 1e-12)


def test_iterations_of_corollary_c():
    target, start = 1e-2, 7e6
    eta, theta = theory.stochastic_eta(SETTING, target), 0.5 / (2 * SPREAD)
    terms = [
        2 * 5,
        4 * 3.0 * SPREAD / (0.5 * 0.1),
        8 * math.sqrt(2) * math.sqrt(5) * SPREAD / (0.5 * 0.1 * math.sqrt(target)),
        32 * 2.0 * SPREAD**2 / (target * 0.5**2 * 0.1**2),
    ]
    expected = max(terms) * math.log(4 * eta * start / (theta * target))
    assert theory.iterations("C", SETTING, target, start) == pytest.approx(expected, rel=1e-6, abs=1)


def test_lyapunov_weights():
    sizes = theory.StepSizes(theta=0.01, eta=0.2, alpha=0.1)
    memory = 8 * 0.01**2 * 4.0 * 0.25 / 0.1
    iterate = (1 - 0.2 * 0.5 / 2) * 0.01 / 0.2
    assert theory.lyapunov_coefficients("A", SETTING, sizes) == pytest.approx((0, memory, 0))
    assert theory.lyapunov_coefficients("B", SETTING, sizes) == pytest.approx((iterate, memory, 0))
    assert theory.lyapunov_coefficients("C", SETTING, sizes) == pytest.approx((iterate, memory, 0))
    anchor = 8 * 3.0 * 0.2 * 0.01  # times the batches of each node
    assert theory.lyapunov_coefficients("D", SETTING, sizes) == pytest.approx((iterate, memory, anchor))


@pytest.mark.parametrize("network", ["star", "ring", "complete"])
def test_free_compression_on_the_papers_networks(network):
    """The paper: ω = O(n) on the star, O(1) on the ring, and at most κρ."""
    nodes = 100
    inputs = inputs_for(Consensus.random(nodes, 10), make_network(network, nodes), make_quantizer("exact", 10))
    expected = {"star": 100.0, "ring": 4.0, "complete": 1.0}[network]  # ρ/ρ_∞ = λ_max / max w; complete: κρ = 1
    assert theory.free_omega(inputs) == pytest.approx(expected)


def test_broadcast_messages_have_their_own_noise_weight():
    problem, network = Consensus.random(10, 10), make_network("star", 10)
    inputs = inputs_for(problem, network, make_quantizer("rand-5", 10), messages="broadcast")
    assert inputs.max_weight == network.lambda_max / 2


@pytest.mark.parametrize("network", ["star", "ring", "erdos-renyi:0.4"])
def test_the_noise_of_edge_messages_is_bounded_by_the_weighted_degree(network):
    """E‖noise‖² in the norm of W† is at most 2ωδ Σ_i ‖x_i - h_i‖², with δ half the largest weighted degree.

    The noise of a link is put in as it is worst: orthogonal for any two links, of variance ω‖x_i - h_i‖².
    """
    network = make_network(network, 12, seed=1)
    problem = Consensus.random(12, 10)
    inputs = inputs_for(problem, network, make_quantizer("rand-5", 10), messages="edge")
    pseudo_inverse, sizes = network.pseudo_inverse(), np.random.default_rng(0).exponential(size=(50, 12))
    sizes = np.concatenate([sizes, np.eye(12)])  # one node alone too: the hub of a star reaches the bound
    total = np.zeros(len(sizes))
    for i, j, weight in zip(network.owner, network.neighbor, network.weight, strict=True):
        pull = np.zeros(12)
        pull[i], pull[j] = weight, -weight
        total += sizes[:, i] * (pull @ pseudo_inverse @ pull)
    bound = 2 * inputs.max_weight * sizes.sum(axis=1)
    assert (total <= bound * (1 + 1e-9)).all()
    if network.name == "star":
        assert (total / bound).max() == pytest.approx(1)


@pytest.mark.parametrize("messages", slow_but(["broadcast"], ["edge", "broadcast", "independent"]))
def test_the_corrected_method_converges_with_proven_step_sizes(messages):
    problem, network = LeastSquares.random(10, 12, condition=5.0), make_network("star", 10)
    method = primal_dual(problem, network, "dit-4", messages=messages, corrected=True)
    inputs = inputs_for(problem, network, method.quantizer)
    assert (method.theta, method.eta, method.alpha) == tuple(theory.corrected_step_sizes(inputs))
    assert simulate(problem, network, method, iterations=20_000, until=1e-12, record_every=10).converged


@pytest.mark.parametrize("option", "ABCD")
def test_theory_needs_strong_convexity(option):
    with pytest.raises(InputError, match="strong convexity"):
        theory.step_sizes(option, SETTING._replace(convexity=0.0))
