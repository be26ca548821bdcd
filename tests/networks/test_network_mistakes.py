"""Every mistake in asking for a network gets one line that says what was given and what is allowed."""

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse

from lessbits.errors import InputError
from lessbits.networks import Network, make_network

NAN, INF = float("nan"), float("inf")
DIRECTED = nx.DiGraph([(0, 1), (1, 0)])
PARALLEL = nx.MultiGraph([(0, 1), (0, 1)])
LOOP = nx.Graph([(0, 1), (1, 1)])
HALF_WEIGHTED = nx.Graph([(0, 1), (1, 2)])
HALF_WEIGHTED[0][1]["weight"] = 1.0
LOSSY = nx.Graph([(0, 1), (1, 2)])
LOSSY[1][2]["loss"] = 0.1
TWO_PARTS = nx.Graph([(0, 1), (2, 3)])

MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    # names
    "misspelt": (lambda: make_network("rign", 5), "unknown network 'rign': did you mean 'ring'? choose one of ring,"),
    "misspelt with parameter": (lambda: make_network("erdos-reny:0.05", 5), "did you mean 'erdos-renyi'?"),
    "nothing like it": (lambda: make_network("zzz", 5), "unknown network 'zzz': choose one of ring, path,"),
    "empty name": (lambda: make_network("", 5), "unknown network '': choose one of ring,"),
    "missing file": (
        lambda: make_network("no/such/file", 5),
        "there is no network file 'no/such/file': check the path",
    ),
    "missing matrix": (lambda: make_network("graph.npy", 5), "there is no network file 'graph.npy'"),
    "wrong type": (lambda: make_network(3.5, 5), "a network cannot be made from a float: give a name, a file,"),
    "several": (lambda: make_network(["ring", "star"], 5), "the network is a list, as if it changed in time"),
    "matrices": (
        lambda: make_network((np.eye(2), np.eye(2))),
        "as if it changed in time: give the network of all links",
    ),
    "function": (
        lambda: make_network(lambda iteration: "ring", 5),
        "as if it changed in time: give the network of all links",
    ),
    "generator": (
        lambda: make_network(iter([nx.path_graph(2)])),
        "as if it changed in time: give the network of all links",
    ),
    "nested lists": (lambda: make_network([[0, 1], [1, 0]]), "a network cannot be made from a list: give a name"),
    "lossy": (
        lambda: make_network(LOSSY),
        "edge (1, 2) has the attribute 'loss', but a network does not say what goes wrong",
    ),
    "weights": (
        lambda: make_network("ring", 5, "metropolitan"),
        "unknown weights 'metropolitan': did you mean 'metropolis'?",
    ),
    "given for a name": (lambda: make_network("ring", 5, "given"), "weights='given' needs weights"),
    # sizes
    "no nodes": (lambda: make_network("ring", None), "'ring' does not say how many nodes it has: give the number"),
    "one node": (
        lambda: make_network("ring", 1),
        "the number of nodes is 1, but it must be at least 2",
    ),
    "zero nodes": (lambda: make_network("star", 0), "the number of nodes is 0, but it must be at least 2"),
    "negative nodes": (lambda: make_network("path", -3), "the number of nodes is -3, but it must be at least 2"),
    "half a node": (lambda: make_network("path", 2.5), "nodes is 2.5, but it must be a whole number, at least 2"),
    "too large": (lambda: make_network("complete", 100_000), "would have 1e+10 links, but at most 1e+08 are allowed"),
    "too large barbell": (lambda: make_network("barbell", 100_000), "take fewer nodes or a sparser network"),
    "too large erdos": (lambda: make_network("erdos-renyi:0.5", 100_000), "would have 5e+09 links"),
    "hypercube": (
        lambda: make_network("hypercube", 12),
        "cannot have 12 nodes: the number must be a power of two, such as 8 or 16",
    ),
    "network of another size": (
        lambda: make_network(make_network("ring", 5), 6),
        "'ring' has 5 nodes, but 6 were asked for",
    ),
    # parameters
    "ring takes none": (lambda: make_network("ring:5", 5), "'ring:5' has 1 parameters, but it is written ring"),
    "too many": (lambda: make_network("erdos-renyi:1:2", 5), "has 2 parameters, but it is written erdos-renyi:P"),
    "torus sides": (
        lambda: make_network("torus:3by4", 12),
        "torus:3by4 is not a torus: write rows x columns, as in torus:10x10",
    ),
    "torus one side": (lambda: make_network("torus:12", 12), "torus:12 is not a torus"),
    "torus empty side": (lambda: make_network("torus:0x4"), "torus:0x4 is empty: both sides must be at least 1"),
    "torus of one": (lambda: make_network("torus:1x1"), "the number of nodes is 1, but it must be at least 2"),
    "torus nodes": (lambda: make_network("torus:3x4", 13), "'torus:3x4' has 12 nodes, but 13 were asked for"),
    "degree too large": (lambda: make_network("random-regular:5", 5), "the degree must be between 1 and 4"),
    "degree zero": (lambda: make_network("random-regular:0", 5), "the degree must be between 1 and 4"),
    "degree odd": (lambda: make_network("random-regular:3", 5), "nodes x degree must be even, change one of them"),
    "degree text": (lambda: make_network("random-regular:x", 5), "the degree is 'x', but it must be a whole number"),
    "P above one": (
        lambda: make_network("erdos-renyi:1.5", 9),
        "the probability P is '1.5', but it must be a number between",
    ),
    "P nan": (lambda: make_network("erdos-renyi:nan", 9), "the probability P is 'nan'"),
    "P text": (lambda: make_network("watts-strogatz:4:p", 9), "the probability P is 'p'"),
    "K odd": (lambda: make_network("watts-strogatz:3:0.1", 9), "K = 3 on 9 nodes: K must be even, from 2 to 8"),
    "K large": (lambda: make_network("watts-strogatz", 4), "K = 4 on 4 nodes: K must be even, from 2 to 3"),
    "K text": (lambda: make_network("watts-strogatz:k", 9), "K is 'k', but it must be a whole number"),
    # disconnected random graphs
    "small P": (
        lambda: make_network("erdos-renyi:0.001", 100),
        "components), but every node must be reachable from every other: take a larger P",
    ),
    "P zero": (lambda: make_network("erdos-renyi:0", 7), "(the last fell into 7 components)"),
    "degree one": (
        lambda: make_network("random-regular:1", 8),
        "(the last fell into 4 components), but every node must be reachable from every other: take a larger degree",
    ),
    # edges
    "no edges": (lambda: Network.from_edges(3, []), "'edges' of 3 nodes is disconnected: it falls into 3 components"),
    "parts": (
        lambda: Network.from_edges(5, [(0, 1), (2, 3)]),
        "it falls into 3 components, but every node must be reachable",
    ),
    "outside": (
        lambda: Network.from_edges(3, [(0, 3)]),
        "edge (0, 3) names a node that does not exist: nodes go from 0 to 2",
    ),
    "negative": (lambda: Network.from_edges(3, [(-1, 2)]), "edge (-1, 2) names a node that does not exist"),
    "triples": (
        lambda: Network.from_edges(3, [(0, 1, 2)]),
        "the edges have shape (1, 3), but they must be pairs (i, j)",
    ),
    "ragged": (lambda: Network.from_edges(3, [(0, 1), (2,)]), "the edges are ragged, but each must be a pair"),
    "fractions": (
        lambda: Network.from_edges(3, [(0.5, 1)]),
        "the edges hold float64 values, but node numbers must be integers",
    ),
    "loop": (lambda: Network.from_edges(3, [(0, 1), (2, 2)]), "node 2 has an edge to itself"),
    "twice": (lambda: Network.from_edges(2, [(0, 1), (0, 1)]), "edge (0, 1) is given twice: give each edge once"),
    "asymmetric": (
        lambda: Network.from_edges(2, [(0, 1), (1, 0)], [1, 2]),
        "the weights are asymmetric: edge (0, 1) has 1 and (1, 0) has 2",
    ),
    "too few weights": (
        lambda: Network.from_edges(3, [(0, 1), (1, 2)], [1.0]),
        "the weights have shape (1,), but 2 edges need one weight each",
    ),
    "text weights": (lambda: Network.from_edges(2, [(0, 1)], ["a"]), "the weights are not numbers"),
    "zero": (
        lambda: Network.from_edges(2, [(0, 1)], [0]),
        "the weight of edge (0, 1) is 0, but weights must be finite and above 0",
    ),
    "negative weight": (lambda: Network.from_edges(2, [(0, 1)], [-1]), "the weight of edge (0, 1) is -1"),
    "nan": (lambda: Network.from_edges(3, [(0, 1), (1, 2)], [1, NAN]), "the weight of edge (1, 2) is nan"),
    "infinite": (lambda: Network.from_edges(2, [(0, 1)], [INF]), "the weight of edge (0, 1) is inf"),
    # networkx
    "directed": (
        lambda: make_network(DIRECTED),
        "the networkx graph is directed, but links go both ways: call graph.to_undirected()",
    ),
    "parallel": (lambda: make_network(PARALLEL), "edge (0, 1) is given twice"),
    "graph loop": (lambda: make_network(LOOP), "node 1 has an edge to itself"),
    "weight missing": (
        lambda: make_network(HALF_WEIGHTED, weights="given"),
        "edge (1, 2) has no attribute 'weight': set one",
    ),
    "graph parts": (
        lambda: make_network(TWO_PARTS),
        "'networkx' of 4 nodes is disconnected: it falls into 2 components",
    ),
    "empty graph": (lambda: make_network(nx.Graph()), "the number of nodes is 0, but it must be at least 2"),
    "graph size": (lambda: make_network(nx.path_graph(4), 5), "'networkx' has 4 nodes, but 5 were asked for"),
    # matrices
    "not square": (lambda: make_network(np.ones((2, 3))), "the matrix has shape (2, 3), but a weight matrix is square"),
    "a vector": (lambda: make_network(np.ones(3)), "the matrix has shape (3,), but a weight matrix is square"),
    "asymmetric matrix": (
        lambda: make_network(np.array([[0, 1, 0], [2, 0, 1], [0, 1, 0]])),
        "the matrix is asymmetric: entry (0, 1) is 1 and entry (1, 0) is 2; weights must be the same",
    ),
    "one direction": (lambda: make_network(np.array([[0, 1], [0, 0]])), "entry (0, 1) is 1 and entry (1, 0) is 0"),
    "nan matrix": (
        lambda: make_network(np.array([[0, NAN], [NAN, 0]])),
        "the matrix has an entry nan, but weights must be finite",
    ),
    "inf sparse": (lambda: make_network(scipy.sparse.csr_array([[0, INF], [INF, 0]])), "the matrix has an entry inf"),
    "complex": (
        lambda: make_network(np.array([[0, 1j], [1j, 0]])),
        "the matrix holds complex128 entries, but weights must be real",
    ),
    "mixed signs": (
        lambda: make_network(np.array([[0, 1, -2], [1, 0, 1], [-2, 1, 0.0]])),
        "the matrix mixes signs: entry (0, 2) is -2 while others are above 0; weights must be above 0",
    ),
    "no laplacian": (
        lambda: make_network(np.array([[0, -1], [-1, 0.0]])),
        "the matrix has negative entries, as a Laplacian has, but its row 0 sums to -1 instead of 0",
    ),
    "diagonal": (
        lambda: make_network(np.array([[0.5, 0.5], [0.5, 0.5]])),
        "node 0 has a weight to itself: a matrix of weights has a zero diagonal (for a mixing matrix M give",
    ),
    "matrix parts": (
        lambda: make_network(np.kron(np.eye(2), 1 - np.eye(2))),
        "'matrix' of 4 nodes is disconnected: it falls into 2",
    ),
    "zero matrix": (lambda: make_network(np.zeros((3, 3))), "it falls into 3 components"),
    "one by one": (lambda: make_network(np.zeros((1, 1))), "the number of nodes is 1, but it must be at least 2"),
    "ragged matrix": (lambda: Network.from_matrix([[0, 1], [1]]), "the matrix is ragged"),
    "matrix weights": (
        lambda: make_network(1 - np.eye(3), weights="unit"),
        "but the matrix carries weights of its own",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake(mistake: str) -> None:
    attempt, expected = MISTAKES[mistake]
    with pytest.raises(InputError) as raised:
        attempt()
    message = str(raised.value)
    assert expected in message
    assert "\n" not in message
