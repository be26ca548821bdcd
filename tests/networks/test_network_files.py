"""Networks from files: each format there and back, and each way to get one wrong."""

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from lessbits.errors import InputError
from lessbits.networks import Network, make_network

EDGES = [(0, 1), (0, 3), (1, 2), (2, 3), (3, 4)]
WEIGHTS = [0.1, 1 / 3, 2.5e-7, 4.0, 1e5]


@pytest.fixture
def network() -> Network:
    return Network.from_edges(5, EDGES, WEIGHTS)


def same(first: Network, second: Network) -> bool:
    return (
        first.nodes == second.nodes
        and np.array_equal(first.owner, second.owner)
        and np.array_equal(first.neighbor, second.neighbor)
        and np.array_equal(first.weight, second.weight)
    )


def weight_matrix(network: Network) -> np.ndarray:
    matrix = np.zeros((network.nodes, network.nodes))
    matrix[network.owner, network.neighbor] = network.weight
    return matrix


def write(folder: Path, text: str, name: str = "graph.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_edge_list_with_weights(tmp_path: Path, network: Network) -> None:
    lines = [f"{i} {j}\t{weight!r}" for (i, j), weight in zip(EDGES, WEIGHTS, strict=True)]
    path = write(tmp_path, "# a network\n\n" + "\n".join(lines) + "  # the last\n")
    for spec in (path, str(path)):
        read = make_network(spec, 5)
        assert same(read, network)
        assert (read.weighting, read.name) == ("given", "graph.txt")
    assert same(make_network(path, weights="given"), network)


def test_edge_list_without_weights(tmp_path: Path) -> None:
    path = write(tmp_path, "".join(f"{j} {i}\n" for i, j in EDGES), "graph.edges")
    for weights in ("metropolis", "unit", "max-degree"):
        assert same(make_network(path, weights=weights), Network.from_edges(5, EDGES, weights))
    assert make_network(path).weighting == "metropolis"


def test_edge_list_with_both_directions(tmp_path: Path) -> None:
    path = write(tmp_path, "0 1 2.5\n1 0 2.5\n1 2 1\n")
    assert make_network(path).weight.tolist() == [2.5, 2.5, 1, 1]


def test_npy(tmp_path: Path, network: Network) -> None:
    np.save(tmp_path / "weights.npy", weight_matrix(network))
    np.save(tmp_path / "laplacian.npy", network.laplacian().toarray())
    assert same(make_network(tmp_path / "weights.npy"), network)
    assert same(make_network(tmp_path / "laplacian.npy", 5), network)


def test_csv(tmp_path: Path, network: Network) -> None:
    np.savetxt(tmp_path / "weights.csv", weight_matrix(network), delimiter=",", fmt="%.17g")
    assert same(make_network(str(tmp_path / "weights.csv")), network)


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_matrix_market(tmp_path: Path, network: Network, symmetry: str) -> None:
    path = tmp_path / "weights.mtx"
    scipy.io.mmwrite(path, scipy.sparse.coo_array(weight_matrix(network)), symmetry=symmetry, precision=17)
    assert same(make_network(path), network)


def test_matrix_market_pattern_has_edges_and_no_weights(tmp_path: Path, network: Network) -> None:
    path = tmp_path / "pattern.mtx"
    scipy.io.mmwrite(path, scipy.sparse.coo_array(weight_matrix(network)), field="pattern", symmetry="symmetric")
    read = make_network(path)
    assert same(read, Network.from_edges(5, EDGES, "metropolis"))
    assert (read.weighting, read.name) == ("metropolis", "pattern.mtx")
    assert same(make_network(path, weights="unit"), Network.from_edges(5, EDGES, "unit"))


MISTAKES = {
    "too many fields": ("0 1 2 3\n", "line 1 is '0 1 2 3', but every line must be 'i j'"),
    "one field": ("0 1\n2\n", "line 2 is '2', but every line"),
    "weights on some lines": ("0 1\n1 2 0.5\n", "line 2 is '1 2 0.5', but every line must be 'i j', or every line"),
    "commas": ("0,1\n", "line 1 is '0,1', but every line"),
    "letters": ("0 1\n\na b\n", "line 3 is 'a b', but every line"),
    "fractions": ("0 1.5\n", "line 1 is '0 1.5', but every line"),
    "negative node": ("0 -1\n", "with node numbers from 0"),
    "huge node": ("0 99999999999\n", "with node numbers from 0"),
    "bad weight": ("0 1 heavy\n", "line 1 is '0 1 heavy', but every line"),
    "long line": ("0 " * 500, "line 1 is '0 0 0"),
    "nan weight": ("0 1 nan\n", "the weight of edge (0, 1) is nan, but weights must be finite and above 0"),
    "infinite weight": ("0 1 1\n1 2 inf\n", "the weight of edge (1, 2) is inf, but weights must be finite"),
    "zero weight": ("0 1 0\n", "the weight of edge (0, 1) is 0, but weights must be finite and above 0"),
    "negative weight": ("0 1 -2\n", "the weight of edge (0, 1) is -2, but weights must be finite and above 0"),
    "loop": ("0 1\n1 1\n", "node 1 has an edge to itself: a network has no self loops, remove it"),
    "duplicate": ("0 1\n1 2\n0 1\n", "edge (0, 1) is given twice: give each edge once"),
    "duplicate of a pair": ("1 0 1\n0 1 1\n1 0 1\n", "edge (1, 0) is given twice: give each edge once"),
    "asymmetric": ("0 1 2\n1 0 3\n", "the weights are asymmetric: edge (0, 1) has 2 and (1, 0) has 3"),
    "disconnected": ("0 1\n2 3\n", "'graph.txt' of 4 nodes is disconnected: it falls into 2 components"),
    "isolated": ("0 1\n1 4\n", "'graph.txt' of 5 nodes is disconnected: it falls into 3 components"),
    "empty": ("# nothing\n\n", "has no edges: write a line 'i j' or 'i j weight' for each"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_an_edge_list(tmp_path: Path, mistake: str) -> None:
    text, expected = MISTAKES[mistake]
    with pytest.raises(InputError) as raised:
        make_network(write(tmp_path, text))
    message = str(raised.value)
    assert expected in message
    assert "\n" not in message
    assert len(message) < 400


def test_the_number_of_nodes_must_agree(tmp_path: Path) -> None:
    path = write(tmp_path, "0 1\n1 2\n")
    for nodes in (2, 4):
        with pytest.raises(InputError, match=f"'graph.txt' has 3 nodes, but {nodes} were asked for"):
            make_network(path, nodes)


def test_weights_cannot_replace_those_of_a_file(tmp_path: Path, network: Network) -> None:
    path = write(tmp_path, "0 1 2\n")
    with pytest.raises(InputError, match=r"weights='unit' was asked for, but .* carries weights of its own"):
        make_network(path, weights="unit")
    np.save(tmp_path / "weights.npy", weight_matrix(network))
    with pytest.raises(InputError, match=r"weights='max-degree' was asked for, but .* carries weights of its own"):
        make_network(tmp_path / "weights.npy", weights="max-degree")


def test_given_weights_that_are_not_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"weights='given' needs weights: this network has none"):
        make_network(write(tmp_path, "0 1\n"), weights="given")


BROKEN = {
    "text.npy": b"0 1\n1 2\n",
    "empty.npy": b"",
    "letters.csv": b"0,a\nb,0\n",
    "ragged.csv": b"0,1\n1,0,3\n",
    "empty.csv": b"",
    "binary.csv": b"\xff\xfe\x00\x01",
    "text.mtx": b"hello\nworld\n",
    "empty.mtx": b"",
    "cut.mtx": b"%%MatrixMarket matrix coordinate real general\n3 3 4\n1 2 0.5\n",
    "outside.mtx": b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 7 0.5\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_matrix_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(BROKEN[name])
    with pytest.raises(InputError, match=f"is not a readable {path.suffix} matrix of numbers") as raised:
        make_network(path)
    assert "\n" not in str(raised.value)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([[{}, 1], [1, {}]], dtype=object))
    with pytest.raises(InputError, match=r"is not a readable \.npy matrix"):
        make_network(tmp_path / "objects.npy")


def test_binary_edge_lists_and_folders(tmp_path: Path) -> None:
    (tmp_path / "graph.bin").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="is not a text file: an edge list has a line"):
        make_network(tmp_path / "graph.bin")
    with pytest.raises(InputError, match=r"is not a file: give an edge list or a \.npy, \.csv, \.mtx matrix"):
        make_network(tmp_path)
