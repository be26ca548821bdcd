"""Sums over a tree with two roots: the tree, plain NumPy, one point for all, and the engines."""

from dataclasses import replace

import numpy as np
import pytest
from engines.test_stepwise import same_run
from engines.threads import run_on
from methods.test_tree_chunks import in_chunks
from tiers import slow_but

from lessbits import Checkpoints, Consensus, LeastSquares, make_method, make_network, simulate
from lessbits.networks.tree import twin_tree

PROBLEM, NETWORK = LeastSquares.random(12, 11, condition=5.0), make_network("torus:3x4", 12)


@pytest.mark.parametrize(
    ("name", "nodes", "round_length"),
    [("ring", 100, 99), ("ring", 7, 6), ("star", 100, 2), ("path", 9, 8), ("path", 8, 7), ("torus:10x10", 100, 19)],
)
def test_two_roots_are_taken_where_a_round_is_shorter(name, nodes, round_length):
    network = make_network(name, nodes)
    tree, single = twin_tree(network), make_method("tree", Consensus.random(nodes, 3), network).round_length
    assert make_method("twin-tree", Consensus.random(nodes, 3), network).round_length == round_length
    assert (single == round_length) == (tree.depth.min() == 0)
    assert len(tree.below) == nodes - 1
    if tree.depth.min():
        one, other = np.flatnonzero(tree.depth == 1)
        assert (tree.parent[one], tree.parent[other]) == (other, one)
        links = set(zip(network.owner.tolist(), network.neighbor.tolist(), strict=True))
        assert all((node, parent) in links for node, parent in enumerate(tree.parent.tolist()))
        lower = np.flatnonzero(tree.depth > 1)
        assert (tree.depth[lower] == tree.depth[tree.parent[lower]] + 1).all()


def in_numpy(chunks, fineness, eta, rounds):
    """The method without L-BFGS, node by node."""
    tree, mu = twin_tree(NETWORK), PROBLEM.convexity
    roots = np.flatnonzero(tree.depth == 1)
    x, reported = np.zeros(PROBLEM.dim), np.zeros((NETWORK.nodes, PROBLEM.dim))
    for _ in range(rounds):
        sums = np.asarray(PROBLEM.gradient(np.broadcast_to(x, reported.shape))) - mu * x
        for node in np.argsort(-tree.depth, kind="stable"):
            below = (tree.parent == node) & (tree.depth > tree.depth[node])
            sums[node] += reported[below].sum(axis=0)
            reported[node] += in_chunks(sums[node] - reported[node], chunks, fineness)
        goal = x - eta * (reported[roots].sum(axis=0) / NETWORK.nodes + mu * x)
        x = x + in_chunks(goal - x, chunks, fineness)
    return x


@pytest.mark.parametrize("chunks", slow_but([4], [1, 4]))
def test_it_is_the_plain_numpy_version(chunks):
    method = replace(make_method("twin-tree", PROBLEM, NETWORK, "grid:6", chunks=chunks), pairs=0)
    assert method.top == 1
    trace = simulate(PROBLEM, NETWORK, method, iterations=5 * method.round_length)
    expected = in_numpy(chunks, 6, float(method.eta), 5)
    np.testing.assert_allclose(trace.x, np.broadcast_to(expected, trace.x.shape), rtol=1e-9, atol=1e-12)
    assert trace["messages"][-1] == 5 * 2 * chunks * (NETWORK.nodes - 1)


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", ["dit-8", "grid:6"])
def test_all_nodes_are_at_one_point_in_all_engines(quantizer):
    """Both roots pass down the same message, also where it is rounded at random."""
    method = make_method("twin-tree", PROBLEM, NETWORK, quantizer, chunks=2)
    iterations = 3 * method.round_length
    here = simulate(PROBLEM, NETWORK, method, iterations=iterations)
    assert np.ptp(here.x, axis=0).max() == 0
    assert here["error"][-1] < here["error"][0] / 10
    for trace in run_on(3, PROBLEM, NETWORK, method, iterations=iterations):
        same_run(trace, here, {"wire_bits_per_link"})


@pytest.mark.slow
def test_it_goes_on_from_a_checkpoint_of_ranks_that_each_hold_a_root(tmp_path):
    method = make_method("twin-tree", PROBLEM, NETWORK, "grid:6")
    half, whole = 2 * method.round_length, 4 * method.round_length
    run_on(NETWORK.nodes, PROBLEM, NETWORK, method, iterations=half, checkpoints=Checkpoints(tmp_path, half))
    resumed = simulate(PROBLEM, NETWORK, method, iterations=whole, checkpoints=Checkpoints(tmp_path, half, resume=True))
    straight = simulate(PROBLEM, NETWORK, method, iterations=whole)
    assert resumed.x.tobytes() == straight.x.tobytes()


def test_two_nodes_have_one_root():
    """Each of two roots would have nobody to tell of the step, and would not take it itself."""
    problem, network = LeastSquares.random(2, 4, condition=5.0), make_network("path", 2)
    method = make_method("twin-tree", problem, network)
    assert method.top == 0
    assert simulate(problem, network, method, iterations=200, until=1e-6).converged
