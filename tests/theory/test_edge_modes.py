"""Practical step sizes of edge-dual: what the model predicts, against moments computed otherwise, and against runs."""

import numpy as np
import pytest
from edge_reference import FAULTS, NETWORKS, Quadratics, Run, dither, inputs_of, network, typical_omega
from tiers import slow_but

from lessbits import InputError
from lessbits.theory import EdgeSizes, TheoryInputs, edge_rate, edge_step_sizes, mean_square_rate
from lessbits.theory.mean_square import NOISE_MARGIN
from lessbits.theory.theorems import StepSizes

OMEGA = NOISE_MARGIN * typical_omega(20)


def fine(random, v):
    return dither(random, v, levels=16)


@pytest.mark.parametrize("corrected", [False, True])
def test_without_faults_the_rate_is_that_of_the_covariances(corrected):
    """The other analysis solves for covariances; this one takes means over a circle. Its eigenvalues are fewer."""
    inputs = TheoryInputs(1.0, 0.05, lambda_max=4 / 3, lambda_min=0.1, max_weight=1 / 3, omega=0.25)
    for theta, eta, alpha in ((0.2, 1.0, 0.5), (0.3, 0.5, 0.3), (0.5, 0.3, 0.7)):
        known = mean_square_rate("B", inputs, StepSizes(theta, eta, alpha), "edge", corrected)
        found = edge_rate(inputs, EdgeSizes(theta, eta, alpha, float(corrected)))
        assert 1 - found == pytest.approx(1 - known, rel=0.05)


def test_the_rate_without_noise_is_the_largest_root():
    """One mode with a delay: the powers of its companion matrix, by hand."""
    inputs = TheoryInputs(1.0, 1.0, lambda_max=1.0, lambda_min=1.0, max_weight=0.5, omega=0.0)
    theta, eta, gamma, delay = 0.8, 0.3, 3.0, 3
    strength, gain = eta * theta / (delay + 1), 1 - eta
    polynomial = np.zeros(delay + 3)
    polynomial[:3] = [1, -(1 + gain), gain]
    polynomial[-2:] += strength * np.array([1 + gain * gamma, -gain * gamma])
    largest = np.abs(np.roots(polynomial)).max()
    assert largest < 1
    found = edge_rate(inputs, EdgeSizes(theta, eta, 1.0, gamma), delay=delay)
    assert found == pytest.approx(max(largest, gain) ** 2, abs=0.02)
    assert edge_rate(inputs, EdgeSizes(20 * theta, eta, 1.0, gamma), delay=delay) == 1.0


@pytest.mark.parametrize("local_steps", [1, 2, 5])
def test_a_round_of_local_steps_is_the_matrix_of_its_steps(local_steps):
    """One mode without noise: gradient steps one by one, then the dual step and the correction."""
    inputs = TheoryInputs(1.0, 1.0, lambda_max=0.7, lambda_min=0.7, max_weight=0.5, omega=0.0)
    theta, eta, gamma = 0.5, 0.25, 2.0
    whole = np.eye(2)  # of (x, z)
    for _ in range(local_steps):
        whole = np.array([[1 - eta, eta], [0, 1]]) @ whole
    pull = theta * 0.7
    whole = np.array([[1 - gamma * eta * pull, 0], [-pull, 1]]) @ whole
    largest = max(np.abs(np.linalg.eigvals(whole)).max(), (1 - eta) ** local_steps)
    found = edge_rate(inputs, EdgeSizes(theta, eta, 1.0, gamma), local_steps=local_steps)
    assert found**local_steps == pytest.approx(largest**2, abs=0.02)


CASES = [(name, condition, *fault) for name in NETWORKS for condition in (20, 200) for fault in FAULTS]
QUICK = [("ring", 20, 0.7, (0, 0)), ("random-regular:4", 20, 0.3, (0, 0)), ("geometric", 20, 1.0, (1, 5))]


@pytest.mark.parametrize(("name", "condition", "speaking", "delay"), slow_but(QUICK, CASES))
def test_runs_converge_at_least_as_fast_as_predicted(name, condition, speaking, delay):
    """With equal Hessians, the model's, and with rotated ones, which are faster."""
    edges, weights, graph = network(name)
    inputs = inputs_of(graph, condition, OMEGA)
    sizes = edge_step_sizes(inputs, speaking, delay[1])
    rate = edge_rate(inputs, sizes, speaking, delay[1])
    for alike in (True, False):
        run = Run(Quadratics(16, 20, condition, alike), edges, weights, sizes, speaking, delay)
        expected = np.log(run.error() / 1e-12) / -np.log(rate)
        assert run.until(1e-12, limit=int(1.25 * expected) + 15) < np.inf


@pytest.mark.parametrize(("name", "condition"), slow_but([("ring", 20)], [(n, c) for n in NETWORKS for c in (20, 200)]))
def test_three_silent_links_in_ten_cost_at_most_half_more_messages(name, condition):
    edges, weights, graph = network(name)
    inputs, sent = inputs_of(graph, condition, OMEGA), {}
    for speaking in (1.0, 0.7):
        run = Run(Quadratics(16, 20, condition), edges, weights, edge_step_sizes(inputs, speaking), speaking)
        assert run.until(1e-12, limit=5000) < np.inf
        sent[speaking] = run.messages
    assert sent[0.7] <= 1.5 * sent[1.0]


def test_delays_need_the_correction():
    """Without it the dual step is an integrator with lag. The prediction says so, and so does a run."""
    edges, weights, graph = network("random-regular:4")
    inputs = inputs_of(graph, 20, OMEGA)
    sizes = edge_step_sizes(inputs, delay=5)
    assert sizes.gamma > 3
    assert edge_rate(inputs, sizes, delay=5) < 1
    bare = sizes._replace(gamma=0.0)
    assert edge_rate(inputs, bare, delay=5) == 1.0
    run = Run(Quadratics(16, 20, 20, alike=True), edges, weights, bare, delay=(5, 5))
    assert run.until(1e-6, limit=3000) == np.inf


def test_edges_that_are_all_in_step_converge_as_predicted():
    """One edge is always in step with itself. Step sizes for edges out of step made this run diverge."""
    inputs = TheoryInputs(1.0, 1.0, lambda_max=1.0, lambda_min=1.0, max_weight=0.5, omega=0.02)
    sizes = edge_step_sizes(inputs, delay=30)
    rate = edge_rate(inputs, sizes, delay=30)
    run = Run(Quadratics(2, 20, 1.0), [(0, 1)], np.array([0.5]), sizes, delay=(30, 30), quantize=fine)
    expected = np.log(run.error() / 1e-6) / -np.log(rate)
    assert run.until(1e-6, limit=int(1.25 * expected) + 15) < np.inf


@pytest.mark.parametrize("name", ["theta", "eta", "alpha", "gamma"])
def test_step_sizes_that_are_given_stay(name):
    inputs = TheoryInputs(1.0, 0.05, lambda_max=4 / 3, lambda_min=0.05, max_weight=1 / 3, omega=0.25)
    sizes = edge_step_sizes(inputs, speaking=0.5, given={name: 0.3})
    assert getattr(sizes, name) == 0.3
    assert edge_rate(inputs, sizes, speaking=0.5) < 1


def test_gradient_steps_that_are_too_large_leave_a_small_dual_step():
    inputs = TheoryInputs(1.0, 0.05, lambda_max=4 / 3, lambda_min=0.05, max_weight=1 / 3, omega=0.25)
    sizes = edge_step_sizes(inputs, given={"eta": 5.0})
    assert sizes.eta == 5.0
    assert edge_rate(inputs, sizes) == 1.0


@pytest.mark.parametrize("delay", [-1, 1.5, "late"])
def test_delays_are_whole_numbers(delay):
    inputs = TheoryInputs(1.0, 0.05, lambda_max=4 / 3, lambda_min=0.05, max_weight=1 / 3, omega=0.25)
    with pytest.raises(InputError, match="delay"):
        edge_step_sizes(inputs, delay=delay)
