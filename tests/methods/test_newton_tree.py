"""Newton's steps on a tree: against plain NumPy, on all engines, and how few rounds least squares need."""

from dataclasses import replace

import numpy as np
import pytest
from engines.test_stepwise import same_run
from engines.threads import run_on
from methods.test_tree_chunks import in_chunks
from tiers import slow_but

from lessbits import Custom, InputError, LeastSquares, Settings, make_method, make_network, simulate
from lessbits._internal.elimination import eliminate, solve
from lessbits.config.build import build_parts
from lessbits.networks.tree import spanning_tree

PROBLEM, NETWORK = LeastSquares.random(9, 7, condition=20.0), make_network("erdos-renyi:0.3", 9, seed=2)
FINENESS = 30


def newton_on_a_tree(problem, network, chunks, rounds):
    """Node by node, with dense matrices: plain NumPy."""
    tree, mu, (nodes, dim) = spanning_tree(network), problem.convexity, (problem.nodes, problem.dim)
    upper, deepest_first = np.triu_indices(dim), np.argsort(-tree.depth, kind="stable")
    root = int(np.argmin(tree.depth))
    children = [np.flatnonzero(tree.parent == node) for node in range(nodes)]
    hessians = np.asarray(problem.hessian(np.zeros((nodes, dim)))) - mu * np.eye(dim)
    told = np.zeros((nodes, dim, dim))
    for node in deepest_first:
        hessians[node] += told[children[node]].sum(axis=0)
        told[node][upper] = in_chunks(hessians[node][upper], chunks, FINENESS)
        told[node] = np.triu(told[node]) + np.triu(told[node], 1).T
    inverse = np.linalg.inv(hessians[root] / nodes + mu * np.eye(dim))
    x, reported, last, path = np.zeros(dim), np.zeros((nodes, dim)), None, []
    for _ in range(rounds):
        sums = np.asarray(problem.gradient(np.broadcast_to(x, (nodes, dim)))) - mu * x
        for node in deepest_first:
            sums[node] += reported[children[node]].sum(axis=0)
            reported[node] += in_chunks(sums[node] - reported[node], chunks, FINENESS)
        gradient = sums[root] / nodes + mu * x
        if last is not None:
            step, change = x - last[0], gradient - last[1]
            project = np.eye(dim) - np.outer(step, change) / (step @ change)
            inverse = project @ inverse @ project.T + np.outer(step, step) / (step @ change)
        last = x, gradient
        moved = in_chunks(-inverse @ gradient, chunks, FINENESS)
        x, reported = x + moved, reported + told @ moved
        path.append(x)
    return np.array(path)


@pytest.mark.parametrize("chunks", slow_but([3], [1, 3]))
def test_it_is_the_plain_numpy_version(chunks):
    method = make_method("newton-tree", PROBLEM, NETWORK, f"grid:{FINENESS}", chunks=chunks)
    expected = newton_on_a_tree(PROBLEM, NETWORK, chunks, 4)
    for rounds in (1, 2, 4):
        x = simulate(PROBLEM, NETWORK, method, iterations=rounds * method.round_length).x
        np.testing.assert_allclose(x, np.broadcast_to(expected[rounds - 1], x.shape), rtol=1e-7, atol=1e-11)


@pytest.mark.slow
def test_ranks_give_the_simulators_run_bit_for_bit():
    method = make_method("newton-tree", PROBLEM, NETWORK, chunks=2)
    iterations = 3 * method.round_length
    here = simulate(PROBLEM, NETWORK, method, iterations=iterations)
    for trace in run_on(2, PROBLEM, NETWORK, method, iterations=iterations):
        same_run(trace, here, {"wire_bits_per_link"})


@pytest.mark.slow
def test_least_squares_need_two_rounds_and_one_with_exact_messages():
    problem, network = LeastSquares.random(16, 20, condition=100.0), make_network("ring", 16)
    fine = make_method("newton-tree", problem, network, "grid:1000")
    trace = simulate(problem, network, fine, iterations=160, until=1e-9)
    assert trace["iteration"].tolist() == [0, 16, 32]
    assert trace["gradient_evaluations"].tolist() == [0, 16 * 20 * 21, 16 * 20 * 22]
    exact = make_method("newton-tree", problem, network, "exact")
    assert simulate(problem, network, exact, iterations=16)["error"][-1] < 1e-20
    slow = simulate(problem, network, make_method("tree", problem, network, "exact"), iterations=160, until=1e-9)
    assert slow["gradient_rounds"][-1] >= 5


def test_elimination_solves_and_raises_pivots():
    random = np.random.default_rng(0)
    matrix = random.normal(size=(3, 9, 9))
    matrix, vector = matrix @ matrix.transpose(0, 2, 1), random.normal(size=(3, 9))
    found = np.asarray(solve(eliminate(matrix, 1e-9), vector))
    np.testing.assert_allclose(found, np.linalg.solve(matrix, vector[..., None])[..., 0], rtol=1e-8)
    raised = np.asarray(solve(eliminate(np.diag([2.0, -1.0, 4.0])[None], 0.5), np.ones((1, 3))))
    np.testing.assert_allclose(raised, [[0.5, 2.0, 0.25]])


def test_only_full_gradients():
    with pytest.raises(InputError, match="option C was asked of newton-tree"):
        make_method("newton-tree", PROBLEM, NETWORK, option="C")


@pytest.mark.slow
def test_losses_that_are_not_quadratic_converge_too():
    centers = np.random.default_rng(1).normal(size=(6, 1, 4))
    problem = Custom.make(
        lambda x, sample: 0.5 * ((x - sample["center"]) ** 2).sum() + (x**4).sum(), {"center": centers}, 4
    )
    network = make_network("ring", 6)
    method = make_method("newton-tree", problem, network, "grid:10")
    assert simulate(problem, network, replace(method, eta=0.05), iterations=600, until=1e-14).converged


def test_a_run_that_diverges_is_told_what_to_take():
    """No η helps where the curvature changes much."""
    settings = Settings(problem="logistic", data="breast-cancer", scale=True, nodes=8)
    problem, network, _ = build_parts(settings)
    trace = simulate(problem, network, make_method("newton-tree", problem, network), iterations=200, until=1e-6)
    assert trace.diverged
    assert trace.message.endswith("Newton's steps are for losses that are nearly quadratic, take tree")
