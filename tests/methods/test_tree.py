"""Sums up a spanning tree: the tree, the root's steps, what is sent, and how far it gets."""

import jax.numpy as jnp
import numpy as np
import pytest
from tiers import slow_but

from lessbits import Consensus, Custom, InputError, LeastSquares, Start, make_method, make_network, simulate, tune
from lessbits.networks.tree import spanning_tree


@pytest.mark.parametrize(
    ("name", "nodes", "height"),
    [("ring", 100, 50), ("ring", 7, 3), ("star", 100, 1), ("path", 9, 4), ("torus", 100, 10), ("complete", 9, 1)],
)
def test_the_tree_is_as_low_as_can_be(name, nodes, height):
    network = make_network(name, nodes)
    tree = spanning_tree(network)
    assert tree.height == height
    assert (tree.parent == -1).sum() == (tree.depth == 0).sum() == 1
    links = set(zip(network.owner.tolist(), network.neighbor.tolist(), strict=True))
    for node in np.flatnonzero(tree.depth):
        assert (node, tree.parent[node]) in links
        assert tree.depth[node] == tree.depth[tree.parent[node]] + 1


RUNS = [(option, network) for option in "BD" for network in ("star", "ring", "erdos-renyi:0.3")]


@pytest.mark.parametrize(("option", "network"), slow_but([("B", "erdos-renyi:0.3")], RUNS))
def test_it_converges_linearly_to_1e_20(option, network):
    problem, network = LeastSquares.random(10, 8, condition=20.0), make_network(network, 10, seed=2)
    method = make_method("tree", problem, network, "grid:2", option=option)
    start = Start(x=np.random.default_rng(0).normal(size=(10, 8)))
    trace = simulate(
        problem, network, method, iterations=60_000, until=1e-20, start=start, record_every=2 * int(method.height)
    )
    assert trace.converged
    error = trace["error"]
    halfway = error[len(error) // 2]
    assert 0.3 < np.log(halfway / error[0]) / np.log(error[-1] / halfway) < 3


@pytest.mark.slow
def test_option_c_stops_near_the_solution():
    problem, network = LeastSquares.random(10, 8, condition=5.0), make_network("star", 10)
    method = make_method("tree", problem, network, "grid:5", option="C", eta=0.05)
    error = simulate(problem, network, method, iterations=4000, record_every=2)["error"]
    assert 1e-6 < error[-500:].mean() < 0.3 * error[0]


def test_a_round_sends_one_message_up_and_one_down_every_edge_of_the_tree():
    problem, network = Consensus.random(12, 30), make_network("torus:3x4", 12)
    method = make_method("tree", problem, network)
    height = int(method.height)
    traces = [simulate(problem, network, method, iterations=k) for k in range(1, 4 * height + 1)]
    trace, sent = traces[-1], np.diff([0, *(each["messages"][-1] for each in traces)])
    per_depth = np.bincount(np.asarray(method.depth), minlength=height + 1)
    up = [per_depth[depth] for depth in range(height, 0, -1)]
    assert sent.tolist() == (up + up[::-1]) * 2
    assert trace["gradient_rounds"][-1] == 2
    assert trace["messages"][-1] == 4 * (12 - 1)


@pytest.mark.slow
def test_a_run_is_judged_at_the_ends_of_rounds():
    problem, network = Consensus.random(12, 30), make_network("ring", 12)
    method = make_method("tree", problem, network, "grid:100")
    trace = simulate(problem, network, method, iterations=600, until=1e-3, record_every=1)
    assert trace.converged
    assert trace["iteration"].tolist() == [0, 12]  # up and down
    assert np.ptp(trace.x, axis=0).max() == 0  # all nodes are at one point
    encoded = simulate(problem, network, method, iterations=600, until=1e-3, record_every=1, encode=True)
    assert encoded["iteration"].tolist() == [0, 12]
    found = tune(problem, network, method, {"eta": [1.0]}, until=1e-3, grow=False, record_every=5)
    assert found.best.mean("iterations") == 12
    early = simulate(problem, network, method, iterations=11, until=2.0)
    assert early["error"][-1] < 2
    assert not early.converged
    assert early.message.endswith("within a round of 12")


@pytest.mark.slow
def test_one_round_averages_as_well_as_messages_are_fine():
    """Each node's sum errs by half a spacing at most, its norm divided by √d·F: so does the mean in all."""
    problem, network = Consensus.random(30, 50), make_network("ring", 30)
    for fineness in (10, 1000):
        method = make_method("tree", problem, network, f"grid:{fineness}")
        error = simulate(problem, network, method, iterations=2 * int(method.height))["error"][-1]
        assert 1e-2 / fineness**2 < error < 30 / fineness**2


def sheared(nodes, dim, condition):
    """Least squares whose nodes share their eigenvectors, so that the mean is as badly conditioned as each."""
    random = np.random.default_rng(0)
    frame = np.linalg.qr(random.normal(size=(dim, dim)))[0]
    features = np.sqrt(dim) * np.sqrt(np.geomspace(1 / condition, 1, dim))[:, None] * frame
    targets = [features @ random.normal(size=dim) for _ in range(nodes)]
    return LeastSquares.from_parts([features] * nodes, targets, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", ["grid:10", "exact"])
@pytest.mark.parametrize("seed", [0, 1])
def test_steps_of_curvature_learnt_elsewhere_do_not_run_away(seed, quantizer):
    """log cosh is flat where its gradient is large, and steep at the solution: quasi-Newton steps go too far."""
    centers = 5 * np.random.default_rng(seed).normal(size=(6, 1, 4))

    def loss(x, sample):
        far = 10 * (x - sample["center"])
        return 0.05 * jnp.sum((x - sample["center"]) ** 2) + jnp.sum(jnp.logaddexp(far, -far))

    problem, network = Custom.make(loss, {"center": centers}, 4), make_network("ring", 6)
    method = make_method("tree", problem, network, quantizer)
    trace = simulate(problem, network, method, iterations=100 * 2 * int(method.height), until=1e-12, record_every=6)
    assert trace.converged


@pytest.mark.slow
def test_badly_conditioned_problems_need_far_fewer_rounds_than_gradient_descent():
    problem, network = sheared(nodes=8, dim=20, condition=1e4), make_network("star", 8)
    method = make_method("tree", problem, network, "grid:10")
    trace = simulate(problem, network, method, iterations=800, until=1e-12, record_every=2)
    assert trace.converged
    assert trace["gradient_rounds"][-1] < 400  # κ ln(1/ε) would be 3e5


@pytest.mark.parametrize(
    ("quantizer", "says"),
    [
        ("rand-3", "pass messages on: choose grid:10"),
        ("subtractive:4", "pass messages on: choose grid:10"),
        ("dit-1", r"noise is larger than what is sent \(ω = 2.83\): choose grid:10, or scaled-dit-1"),
    ],
)
def test_quantizers_that_cannot_work_are_refused(quantizer, says):
    problem, network = LeastSquares.random(10, 8), make_network("star", 10)
    with pytest.raises(InputError, match=says):
        simulate(problem, network, make_method("tree", problem, network, quantizer), iterations=2)
