"""The network itself: links, weights, Laplacian, and the properties that hold for every one."""

import pickle
from random import Random

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from lessbits.errors import InputError
from lessbits.networks import Network, make_network


@st.composite
def networks(draw: st.DrawFn, spread: float = 1e3) -> Network:
    """Any connected graph of up to 12 nodes, a random tree and more edges, with weights from 1/spread to spread."""
    nodes = draw(st.integers(2, 12))
    tree = [(draw(st.integers(0, node - 1)), node) for node in range(1, nodes)]
    pair = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    more = [(min(edge), max(edge)) for edge in draw(st.lists(pair, max_size=20)) if edge[0] != edge[1]]
    edges = draw(st.permutations(sorted(set(tree + more))))
    weights = draw(st.lists(st.floats(1 / spread, spread), min_size=len(edges), max_size=len(edges)))
    return Network.from_edges(nodes, edges, weights)


@given(networks())
@settings(deadline=None)
def test_links_come_in_pairs(network: Network) -> None:
    reverse = network.reverse
    assert reverse.dtype == np.int32
    assert np.array_equal(reverse[reverse], np.arange(network.links))
    assert np.array_equal(network.owner[reverse], network.neighbor)
    assert np.array_equal(network.neighbor[reverse], network.owner)
    assert np.array_equal(network.weight[reverse], network.weight)
    key = network.owner.astype(np.int64) * network.nodes + network.neighbor
    assert (np.diff(key) > 0).all(), "links are sorted by (owner, neighbor), each once"
    assert network.links == 2 * network.edges == network.degree.sum()


@given(networks())
@settings(deadline=None)
def test_laplacian(network: Network) -> None:
    laplacian = network.laplacian()
    assert isinstance(laplacian, scipy.sparse.csr_array)
    assert laplacian.dtype == np.float64
    matrix = laplacian.toarray()
    assert np.array_equal(matrix, matrix.T)
    assert abs(matrix.sum(axis=1)).max() <= 1e-13 * network.weighted_degree.max()
    assert np.array_equal(-matrix[network.owner, network.neighbor], network.weight)
    assert np.array_equal(np.diagonal(matrix), network.weighted_degree)


@given(networks())
@settings(deadline=None)
def test_the_papers_remark_for_any_network(network: Network) -> None:
    assert network.rho_inf <= network.rho * (1 + 1e-12)
    assert network.lambda_max >= network.weighted_degree.max() * (1 - 1e-12)
    assert network.rho >= 1
    assert network.lambda_min > 0


@given(nodes=st.integers(3, 40), jumps=st.sets(st.integers(1, 20), max_size=6), weight=st.floats(1e-3, 1e3))
@settings(deadline=None)
def test_the_papers_remark_for_regular_graphs(nodes: int, jumps: set[int], weight: float) -> None:
    # A circulant graph is regular, and connected because it holds the ring.
    graph = nx.circulant_graph(nodes, [1, *(jump for jump in jumps if jump <= nodes // 2)])
    edges = list(graph.edges)
    network = Network.from_edges(nodes, edges, np.full(len(edges), weight))
    degree = network.maximal_degree
    assert (network.degree == degree).all()
    assert network.rho / network.rho_inf >= degree


@given(networks(spread=10))
@settings(deadline=None)
def test_pseudo_inverse(network: Network) -> None:
    matrix, inverse = network.laplacian().toarray(), network.pseudo_inverse()
    projection = np.eye(network.nodes) - 1 / network.nodes
    # Rounding in W† is relative to 1/λ_min⁺ with condition ρ, and the product with W multiplies it by λ_max.
    assert abs(matrix @ inverse - projection).max() <= 1e-15 * network.nodes * network.rho**2
    assert abs(inverse.sum(axis=1)).max() <= 1e-15 * network.nodes * network.rho * abs(inverse).max()
    assert np.array_equal(inverse, inverse.T)


def test_weights_by_hand() -> None:
    edges = [(0, 1), (0, 2), (0, 3), (3, 4)]  # degrees 3, 1, 1, 2, 1
    assert Network.from_edges(5, edges).weight[:3] == pytest.approx([1 / 4] * 3)
    assert Network.from_edges(5, edges).weight[-1] == pytest.approx(1 / 3)
    assert Network.from_edges(5, edges, "max-degree").weight == pytest.approx(1 / 4)
    assert (Network.from_edges(5, edges, "unit").weight == 1).all()
    given = Network.from_edges(5, edges, [1.0, 2.0, 3.0, 4.0])
    assert given.weight.tolist() == [1, 2, 3, 1, 2, 3, 4, 4]
    assert given.owner.tolist() == [0, 0, 0, 1, 2, 3, 3, 4]
    assert given.neighbor.tolist() == [1, 2, 3, 0, 0, 0, 4, 3]
    assert [network.weighting for network in (Network.from_edges(5, edges), given)] == ["metropolis", "given"]
    assert given.weighted_degree.tolist() == [6, 1, 2, 7, 4]
    assert (given.max_weight, given.maximal_degree) == (4.0, 3)


def test_arrays_have_fixed_types_and_cannot_be_changed() -> None:
    network = make_network("ring", 5)
    assert (network.owner.dtype, network.neighbor.dtype, network.weight.dtype) == (np.int32, np.int32, np.float64)
    with pytest.raises(ValueError, match="read-only"):
        network.weight[0] = 2


def test_an_edge_may_be_given_in_both_directions() -> None:
    both = Network.from_edges(3, [(0, 1), (1, 0), (2, 1)], [2.0, 2.0, 3.0])
    assert both.edges == 2
    assert both.weight.tolist() == [2, 2, 3, 3]


@given(networks(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_edges_in_both_directions_and_any_order_are_the_same_network(network: Network, shuffler: Random) -> None:
    some = [link for link in range(network.links) if network.owner[link] < network.neighbor[link] or link % 3]
    shuffler.shuffle(some)
    edges = np.stack((network.owner[some], network.neighbor[some]), axis=1)
    again = Network.from_edges(network.nodes, edges, network.weight[some])
    assert np.array_equal(again.neighbor, network.neighbor)
    assert np.array_equal(again.weight, network.weight)


def test_with_weights() -> None:
    ring = make_network("ring", 4)  # edges in order: 01 03 12 23
    other = ring.with_weights([1.0, 2.0, 3.0, 4.0])
    assert other.laplacian().toarray()[0].tolist() == [3, -1, 0, -2]
    assert ring.with_weights("unit").lambda_max == 4.0
    assert other.with_weights("metropolis").weight.tolist() == ring.weight.tolist()


def test_from_networkx_keeps_the_graphs_own_order_of_nodes() -> None:
    graph = nx.Graph()
    graph.add_nodes_from(["c", "a", "b"])
    graph.add_edge("a", "b", weight=5.0)
    graph.add_edge("c", "a", weight=2)
    network = make_network(graph, 3, weights="given")
    assert network.laplacian().toarray().tolist() == [[2, -2, 0], [-2, 7, -5], [0, -5, 5]]
    assert network.weighting == "given"
    assert make_network(graph, weights="unit").weight.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_from_matrix_takes_weights_and_laplacians(kind: type) -> None:
    original = Network.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0)], [0.1, 0.2, 0.3, 0.7])
    laplacian = original.laplacian().toarray()
    weights = np.diag(np.diagonal(laplacian)) - laplacian
    for matrix in (weights, laplacian):
        network = make_network(kind(matrix), 4)
        assert network.weight.tolist() == original.weight.tolist()
        assert network.neighbor.tolist() == original.neighbor.tolist()
        assert network.weighting == "given"


def test_from_matrix_forgives_rounding_in_a_laplacian() -> None:
    original = make_network("erdos-renyi:0.5", 12)
    values, vectors = np.linalg.eigh(original.laplacian().toarray())
    rebuilt = (vectors * values) @ vectors.T
    rebuilt[abs(rebuilt) < 1e-12] = 0
    assert (rebuilt != rebuilt.T).any()
    assert make_network(rebuilt).weight == pytest.approx(original.weight)


def test_a_network_passes_through_make_network() -> None:
    network = make_network("star", 7)
    assert make_network(network, 7) is network


def test_star_hub_is_node_zero() -> None:
    assert make_network("star", 6).degree.tolist() == [5, 1, 1, 1, 1, 1]


def test_repr_is_one_readable_line() -> None:
    text = repr(make_network("torus:10x10"))
    assert text == "Network('torus:10x10', 100 nodes, 200 edges, degree at most 4, metropolis weights up to 0.2)"


def test_networks_can_be_pickled() -> None:
    network = make_network("watts-strogatz", 30)
    copy = pickle.loads(pickle.dumps(network))
    assert copy.rho == network.rho
    assert np.array_equal(copy.reverse, network.reverse)


def test_pseudo_inverse_refuses_large_networks() -> None:
    with pytest.raises(InputError, match="5001 nodes does not fit: at most 5000 are allowed"):
        make_network("ring", 5001).pseudo_inverse()
