"""Theorems A to D as numbers, against the formulas written out, and what stands in their place for other messages."""

import math

import numpy as np
import pytest
from requests_for import inputs_for
from scipy.linalg import block_diag, eigh
from tiers import slow_but

from lessbits import Consensus, InputError, LeastSquares, make_network, make_quantizer, primal_dual, simulate, theory

SETTING = theory.TheoryInputs(
    smoothness=3.0, convexity=0.5, lambda_max=2.0, lambda_min=0.1, max_weight=0.25, omega=4.0, samples=40.0, noise=2.0
)
SPREAD = 2.0 + 12 * 4.0 * 0.25  # λ_max + 12ω max w, as in the paper
NETWORKS = ("star", "ring", "complete", "barbell", "erdos-renyi:0.4")


def test_half_the_weighted_degree_stands_where_the_paper_has_the_largest_weight():
    corrected = SETTING._replace(weighted_degree=3.0)
    for option in "ABCD":
        same = SETTING._replace(max_weight=1.5)
        assert theory.step_sizes(option, corrected, 1e-3) == theory.step_sizes(option, same, 1e-3)
        assert theory.rate(option, corrected) == theory.rate(option, same)
        sizes = theory.step_sizes(option, same)
        weights = [theory.lyapunov_coefficients(option, each, sizes) for each in (corrected, same)]
        assert weights[0] == weights[1]
    assert theory.free_omega(corrected) == theory.free_omega(SETTING._replace(max_weight=1.5)) == 2 / 1.5
    assert corrected.as_published() == SETTING


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
    published = {"star": 100.0, "ring": 4.0, "complete": 1.0}[network]  # ρ/ρ_∞ = λ_max / max w; complete: κρ = 1
    assert theory.free_omega(inputs.as_published()) == pytest.approx(published)
    proven = {"star": 200 / 99, "ring": 400 / 99, "complete": 1.0}[network]
    assert theory.free_omega(inputs) == pytest.approx(proven)


def noise_weights(network, messages):
    """E‖noise‖² of the dual step in the norm of W†, for a unit of variance in the message of each node.

    The noise of a link is put in as it is worst: orthogonal for any two links, or of two nodes if they broadcast.
    """
    pseudo_inverse = network.pseudo_inverse()
    if messages == "broadcast":
        laplacian = network.laplacian().toarray()
        return np.diag(laplacian @ pseudo_inverse @ laplacian)
    weights = np.zeros(network.nodes)
    for i, j, weight in zip(network.owner, network.neighbor, network.weight, strict=True):
        pull = np.zeros(network.nodes)
        pull[i], pull[j] = weight, -weight
        weights[i] += pull @ pseudo_inverse @ pull
    return weights


@pytest.mark.parametrize("messages", ["independent", "broadcast"])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_noise_of_messages_weighs_half_the_weighted_degree_at_most(network, messages):
    """The lemma "Variance bound" with D/2; with max w_ij, as in the paper, it fails on the star."""
    network = make_network(network, 12, seed=1)
    inputs = inputs_for(Consensus.random(12, 10), network, make_quantizer("rand-5", 10), messages=messages)
    weights = noise_weights(network, messages)
    assert weights.max() == pytest.approx(2 * inputs.noise_weight)
    assert inputs.noise_weight <= network.weighted_degree.max() / 2 * (1 + 1e-12)
    if network.name == "star":
        assert weights.max() == pytest.approx(11 * inputs.as_published().noise_weight)
    assert network.leverage.sum() / 2 == pytest.approx(11)


def test_on_large_networks_resistances_are_not_computed(monkeypatch):
    monkeypatch.setattr("lessbits.methods.prediction.LARGEST_INVERSE", 11)
    inputs = inputs_for(Consensus.random(12, 10), make_network("complete", 12), make_quantizer("rand-5", 10))
    assert inputs.noise_weight == pytest.approx(11 / 12 / 2)


def worst_growth(option, inputs, network, noise, curvatures):
    """The largest E Ψ⁺ / Ψ over all states, for quadratic losses with these curvatures.

    Everything is relative to the solution, one coordinate suffices, and z has the sum zero.
    """
    nodes, sizes = network.nodes, theory.step_sizes(option, inputs)
    weights = theory.lyapunov_coefficients(option, inputs, sizes)
    laplacian, pseudo_inverse = network.laplacian().toarray(), network.pseudo_inverse()
    centred = np.linalg.svd(np.eye(nodes) - 1 / nodes)[0][:, :-1]
    x, z, h = np.split(np.eye(3 * nodes), 3)
    moved = z / curvatures[:, None] if option == "A" else x + sizes.eta * (z - curvatures[:, None] * x)

    def square(rows, metric):
        return rows.T @ metric @ rows

    unit = np.eye(nodes)
    before = square(z, pseudo_inverse) + weights.iterate * square(x, unit) + weights.memory * square(h, unit)
    after = square(z - sizes.theta * laplacian @ moved, pseudo_inverse) + weights.iterate * square(moved, unit)
    after += sizes.theta**2 * inputs.omega * square(moved - h, np.diag(noise))
    after += weights.memory * ((1 - sizes.alpha) * square(h, unit) + sizes.alpha * square(moved, unit))
    states = block_diag(*([] if option == "A" else [unit]), centred, unit)
    states = states if option != "A" else np.concatenate([np.zeros((nodes, states.shape[1])), states])
    return eigh(square(states, after), square(states, before), eigvals_only=True)[-1]


@pytest.mark.parametrize("option", "AB")
@pytest.mark.parametrize("network", NETWORKS)
def test_lyapunov_functions_shrink_from_every_state(network, option):
    """With all noise that a quantizer may have, E Ψ⁺ ≤ (1 - rate)Ψ. On the star the paper's step sizes let Ψ grow."""
    network = make_network(network, 20, seed=1)
    generator = np.random.default_rng(0)
    for omega, condition in ((0.5, 1.0), (3.0, 20.0), (50.0, 3.0)):
        curvatures = generator.uniform(1, condition, 20)
        curvatures[:2] = 1, condition
        facts = condition, 1.0, network.lambda_max, network.lambda_min, network.max_weight, omega
        for messages in ("independent", "broadcast"):
            noise = noise_weights(network, messages)
            inputs = theory.TheoryInputs(*facts, weighted_degree=noise.max())
            assert worst_growth(option, inputs, network, noise, curvatures) <= 1 - theory.rate(option, inputs) + 1e-9
        if network.name == "star":
            assert worst_growth(option, inputs.as_published(), network, noise, curvatures) > 1


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
