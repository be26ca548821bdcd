"""Vectors of all nodes to all nodes: the routes, plain NumPy, few exchanges, one point for all, and the engines."""

from dataclasses import replace

import numpy as np
import pytest
from engines.test_stepwise import same_run
from engines.threads import run_on
from tiers import slow_but

from lessbits import Checkpoints, Consensus, InputError, LeastSquares, LinkModel, make_method, make_network, simulate
from lessbits.networks.flooding import NOTHING, OWN, shortest_routes

PROBLEM, NETWORK = LeastSquares.random(12, 11, condition=5.0), make_network("torus:3x4", 12)
SHAPES = [("ring", 7), ("ring", 8), ("path", 5), ("star", 6), ("complete", 5), ("torus:3x4", 12), ("barbell", 12)]


@pytest.mark.parametrize(("name", "nodes"), [*SHAPES, ("erdos-renyi:0.3", 20), ("random-regular:4", 30), ("ring", 2)])
def test_every_vector_reaches_every_node_once_on_a_shortest_way(name, nodes):
    network = make_network(name, nodes)
    routes = shortest_routes(network)
    exchanges, _, slots = routes.place.shape
    first = np.searchsorted(network.owner, np.arange(nodes))
    known, held = [{node} for node in range(nodes)], {}
    for exchange in range(exchanges):
        before, held = held, {}
        for link, slot in np.argwhere(routes.place[exchange] != NOTHING).tolist():
            place, sender, hearer = routes.place[exchange, link, slot], network.owner[link], network.neighbor[link]
            source = sender if place == OWN else before[first[sender] + place // slots, place % slots]
            assert source not in known[hearer]
            known[hearer].add(source)
            held[network.reverse[link], slot] = source
        assert set(held) == {tuple(each) for each in np.argwhere(routes.comes[exchange]).tolist()}
    assert all(len(each) == nodes for each in known)
    assert exchanges == max(network_distance(network).values())


def network_distance(network):
    """How far all nodes are from each one, by steps of plain sets."""
    farthest = {}
    for node in range(network.nodes):
        reached, steps = {node}, 0
        while len(reached) < network.nodes:
            reached |= {int(j) for i, j in zip(network.owner, network.neighbor, strict=True) if int(i) in reached}
            steps += 1
        farthest[node] = steps
    return farthest


def test_ways_are_spread_over_links():
    """On a torus of 10 x 10 a link carries 25 vectors on average, and at most 5 at once, where 10 exchanges are."""
    network = make_network("torus:10x10", 100)
    carried = (shortest_routes(network).place != NOTHING).sum(axis=2)
    assert carried.shape[0] == 10
    assert carried.max() == 5
    assert carried.sum(axis=0).mean() == 99 / 4
    assert carried.sum(axis=0).max() <= 33


def coded(vectors, fineness):
    """grid:F in plain NumPy."""
    spacing = np.linalg.norm(vectors, axis=1) / np.sqrt(vectors.shape[1]) / fineness
    bits = np.frombuffer(spacing.astype(np.float32).tobytes(), np.uint32)
    short = np.frombuffer(((bits & 0xFFFF0000) + 0x10000).astype(np.uint32).tobytes(), np.float32)
    exact = (bits & 0xFFFF) == 0
    spacing = np.where(exact & (spacing.astype(np.float32) == spacing), spacing, short.astype(float))[:, None]
    return spacing * np.rint(vectors / spacing)


def in_numpy(fineness, eta, rounds):
    """The method without L-BFGS: all nodes at one point."""
    mu, x = PROBLEM.convexity, np.zeros(PROBLEM.dim)
    told = np.zeros((NETWORK.nodes, PROBLEM.dim))
    for _ in range(rounds):
        own = np.asarray(PROBLEM.gradient(np.broadcast_to(x, told.shape))) - mu * x
        told = told + coded(own - told, fineness)
        x = x - eta * (told.mean(axis=0) + mu * x)
    return x


def test_it_is_the_plain_numpy_version():
    method = replace(make_method("all-gather", PROBLEM, NETWORK, "grid:6"), pairs=0)
    trace = simulate(PROBLEM, NETWORK, method, iterations=5 * method.round_length)
    expected = in_numpy(6, float(method.eta), 5)
    np.testing.assert_allclose(trace.x, np.broadcast_to(expected, trace.x.shape), rtol=1e-9, atol=1e-12)
    assert trace["messages"][-1] == 5 * NETWORK.nodes * (NETWORK.nodes - 1)


@pytest.mark.parametrize(("name", "nodes"), slow_but([("ring", 8), ("torus:3x4", 12)], SHAPES))
def test_nodes_agree_after_as_many_exchanges_as_the_diameter(name, nodes):
    problem, network = Consensus.random(nodes, 9), make_network(name, nodes)
    method = make_method("all-gather", problem, network, "float32")
    trace = simulate(problem, network, method, iterations=method.round_length)
    assert method.round_length == max(network_distance(network).values())
    assert trace["error"][-1] < 1e-13


def test_it_needs_half_of_the_exchanges_of_a_tree_on_the_ring():
    network, problem = make_network("ring", 16), LeastSquares.random(16, 20, condition=10.0)
    seconds = {}
    for name in ("tree", "all-gather"):
        method = make_method(name, problem, network, "grid:30")
        link = LinkModel(latency=0.05, bandwidth=1e6)
        trace = simulate(problem, network, method, iterations=600, until=1e-10, record_every=1, link_model=link)
        assert trace.converged
        seconds[name] = trace["simulated_seconds"][-1]
    assert seconds["all-gather"] < 0.6 * seconds["tree"]


def test_an_exchange_takes_as_long_as_the_link_with_the_most_vectors():
    network, problem = make_network("barbell", 12), Consensus.random(12, 50)
    method = make_method("all-gather", problem, network, "float32")
    trace = simulate(problem, network, method, iterations=6, link_model=LinkModel(latency=0, bandwidth=1))
    most = (shortest_routes(network).place != NOTHING).sum(axis=2).max(axis=1)
    message = 8 * (4 * 50 + 4)  # float32, and a header of four bytes
    np.testing.assert_allclose(trace["simulated_seconds"][-1], 2 * most.sum() * message)


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", ["dit-8", "grid:6"])
def test_all_nodes_are_at_one_point_in_all_engines(quantizer):
    method = make_method("all-gather", PROBLEM, NETWORK, quantizer)
    iterations = 8 * method.round_length
    here = simulate(PROBLEM, NETWORK, method, iterations=iterations)
    assert np.ptp(here.x, axis=0).max() < 1e-13
    assert here["error"][-1] < here["error"][0] / 1000
    encoded = simulate(PROBLEM, NETWORK, method, iterations=iterations, encode=True)
    assert encoded.x.tobytes() == here.x.tobytes()
    for trace in run_on(3, PROBLEM, NETWORK, method, iterations=iterations):
        same_run(trace, here, {"wire_bits_per_link"})


@pytest.mark.slow
def test_it_goes_on_from_a_checkpoint_within_a_round(tmp_path):
    method = make_method("all-gather", PROBLEM, NETWORK, "grid:6")
    half, whole = 2 * method.round_length + 1, 4 * method.round_length
    run_on(4, PROBLEM, NETWORK, method, iterations=half, checkpoints=Checkpoints(tmp_path, half))
    resumed = simulate(PROBLEM, NETWORK, method, iterations=whole, checkpoints=Checkpoints(tmp_path, half, resume=True))
    straight = simulate(PROBLEM, NETWORK, method, iterations=whole)
    assert resumed.x.tobytes() == straight.x.tobytes()


@pytest.mark.parametrize(
    ("name", "nodes", "said"),
    [("star", 100, "98 vectors at once"), ("ring", 1200, "1200 nodes")],
)
def test_networks_on_which_it_cannot_run_are_refused(name, nodes, said):
    with pytest.raises(InputError, match=said):
        make_method("all-gather", Consensus.random(nodes, 3), make_network(name, nodes))


def test_quantizers_that_only_a_neighbour_can_decode_are_refused():
    with pytest.raises(InputError, match="nodes pass messages on"):
        make_method("all-gather", PROBLEM, NETWORK, "subtractive:8").check(PROBLEM, NETWORK)
