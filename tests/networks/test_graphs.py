"""Generators: order, size, degrees, and networkx's own graphs where the labelling agrees."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest

from lessbits.errors import InputError
from lessbits.networks import NETWORK_NAMES, Network, make_network
from lessbits.networks import graphs as named_graphs


def edge_set(network: Network) -> set[tuple[int, int]]:
    once = network.owner < network.neighbor
    return set(zip(network.owner[once].tolist(), network.neighbor[once].tolist(), strict=True))


def relabelled(graph: nx.Graph) -> set[tuple[int, int]]:
    """The edges of a networkx graph, its nodes numbered in sorted order."""
    number = {node: index for index, node in enumerate(sorted(graph.nodes))}
    return {tuple(sorted((number[first], number[second]))) for first, second in graph.edges}


def histogram(network: Network) -> dict[int, int]:
    return dict(Counter(network.degree.tolist()))


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 8, 17, 100])
@pytest.mark.parametrize(
    ("spec", "peer"),
    [
        ("ring", lambda n: nx.cycle_graph(n) if n > 2 else nx.path_graph(2)),
        ("path", nx.path_graph),
        ("star", lambda n: nx.star_graph(n - 1)),
        ("complete", nx.complete_graph),
    ],
)
def test_simple_graphs_are_those_of_networkx(spec: str, peer: object, nodes: int) -> None:
    network = make_network(spec, nodes)
    assert network.nodes == nodes
    assert edge_set(network) == relabelled(peer(nodes))


@pytest.mark.parametrize("nodes", [4, 5, 6, 7, 10, 21])
def test_barbell_is_that_of_networkx(nodes: int) -> None:
    assert edge_set(make_network("barbell", nodes)) == relabelled(nx.barbell_graph(nodes // 2, nodes % 2))


@pytest.mark.parametrize("nodes", [2, 3])
def test_smallest_barbells_are_paths(nodes: int) -> None:
    assert edge_set(make_network("barbell", nodes)) == edge_set(make_network("path", nodes))


@pytest.mark.parametrize("dimension", [1, 2, 3, 6])
def test_hypercube_is_that_of_networkx(dimension: int) -> None:
    network = make_network("hypercube", 2**dimension)
    # networkx labels with tuples of bits (a plain number for one bit); sorted, they are the binary numbers in order.
    assert edge_set(network) == relabelled(nx.hypercube_graph(dimension))


@pytest.mark.parametrize("sides", [(3, 3), (3, 5), (4, 7), (10, 10), (2, 2), (2, 5), (5, 2), (1, 7), (1, 2)])
def test_torus_is_that_of_networkx(sides: tuple[int, int]) -> None:
    network = make_network(f"torus:{sides[0]}x{sides[1]}", None)
    grid = nx.grid_2d_graph(*sides, periodic=True)
    grid.remove_edges_from(list(nx.selfloop_edges(grid)))
    assert network.nodes == sides[0] * sides[1]
    assert edge_set(network) == relabelled(grid)


@pytest.mark.parametrize(
    ("nodes", "sides"), [(100, "10x10"), (12, "3x4"), (72, "8x9"), (6, "2x3"), (7, "1x7"), (9, "3x3"), (1000, "25x40")]
)
def test_torus_is_as_nearly_square_as_can_be(nodes: int, sides: str) -> None:
    assert make_network("torus", nodes).name == f"torus:{sides}"


def test_large_torus() -> None:
    network = make_network("torus", 100_000)
    assert (network.name, network.nodes, network.edges, network.links) == ("torus:250x400", 100_000, 200_000, 400_000)
    assert histogram(network) == {4: 100_000}
    assert network.lambda_max == pytest.approx(8 / 5, rel=1e-14)
    assert network.lambda_min == pytest.approx((2 - 2 * np.cos(2 * np.pi / 400)) / 5, rel=1e-10)
    assert np.array_equal(network.owner[network.reverse], network.neighbor)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7])
def test_random_regular_has_one_degree(degree: int) -> None:
    nodes = 2 if degree == 1 else 30
    network = make_network(f"random-regular:{degree}", nodes, seed=1)
    assert histogram(network) == {degree: nodes}


def test_defaults_of_the_random_graphs() -> None:
    assert make_network("random-regular", 50).name == "random-regular:4"
    assert make_network("watts-strogatz", 50).name == "watts-strogatz:4:0.1"
    assert make_network("watts-strogatz:6", 50).name == "watts-strogatz:6:0.1"
    assert make_network("erdos-renyi", 50).name == f"erdos-renyi:{2 * np.log(50) / 50:.6g}"
    assert edge_set(make_network("erdos-renyi", 2)) == {(0, 1)}


def test_watts_strogatz_keeps_the_number_of_edges_and_rewires_about_p_of_them() -> None:
    nodes, neighbors, probability = 1000, 6, 0.2
    network = make_network(f"watts-strogatz:{neighbors}:{probability}", nodes, seed=3)
    lattice = edge_set(make_network(f"watts-strogatz:{neighbors}:0", nodes))
    assert lattice == relabelled(nx.circulant_graph(nodes, [1, 2, 3]))
    assert network.edges == nodes * neighbors // 2
    moved = len(edge_set(network) - lattice) / network.edges
    assert moved == pytest.approx(probability, abs=0.03)  # standard deviation 0.007


def test_erdos_renyi_has_about_p_of_all_edges() -> None:
    network = make_network("erdos-renyi:0.3", 200, seed=5)
    assert network.edges / (200 * 199 / 2) == pytest.approx(0.3, abs=0.015)  # standard deviation 0.003
    assert make_network("erdos-renyi:1", 20).edges == 190


@pytest.mark.parametrize("spec", ["random-regular:3", "erdos-renyi:0.2", "watts-strogatz:4:0.5"])
def test_the_seed_decides_a_random_graph(spec: str) -> None:
    first, again, other = (make_network(spec, 40, seed=seed) for seed in (7, 7, 8))
    assert edge_set(first) == edge_set(again)
    assert edge_set(first) != edge_set(other)


def test_a_random_graph_that_comes_out_disconnected_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # A random graph of degree 2 is a union of rings, and most of them are not a single one.
    for seed in range(10):
        assert make_network("random-regular:2", 30, seed=seed).edges == 30
    monkeypatch.setattr(named_graphs, "DRAWS", 1)
    failed = 0
    for seed in range(10):
        try:
            make_network("random-regular:2", 30, seed=seed)
        except InputError:
            failed += 1
    assert failed > 0


@pytest.mark.parametrize("spec", NETWORK_NAMES)
def test_every_name_makes_a_valid_network(spec: str) -> None:
    network = make_network(spec, 16)
    assert network.nodes == 16
    assert network.weighting == "metropolis"
    assert network.name.partition(":")[0] == spec
    assert nx.is_connected(nx.Graph(edge_set(network)))


def test_geometric_graphs_connect_points_that_are_near() -> None:
    assert make_network("geometric", 50).name == "geometric:0.395577"
    near, far = (make_network(f"geometric:{radius}", 40, seed=5) for radius in (0.3, 0.5))
    assert near.edges < far.edges
    assert make_network("geometric:2", 10).edges == 45
    assert edge_set(make_network("geometric:0.3", 40, seed=5)) == edge_set(near)
    with pytest.raises(InputError, match="R is '-1', but it must be a number above 0"):
        make_network("geometric:-1", 10)
