"""Eigenvalues: closed forms against dense ones, sparse ones against dense ones."""

from collections.abc import Iterator

import networkx as nx
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from lessbits.errors import InputError
from lessbits.networks import Network, make_network, spectrum


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """BLAS threads wait for each other in busy loops: on a machine with other work that made these 20 times slower."""
    with threadpool_limits(limits=1):
        yield


SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 25, 36, 50, 64, 99, 100]


def dense(network: Network) -> tuple[float, float]:
    eigenvalues = np.linalg.eigvalsh(network.laplacian().toarray())
    assert abs(eigenvalues[0]) < 1e-12 * eigenvalues[-1]
    return eigenvalues[1], eigenvalues[-1]


@pytest.mark.parametrize("weights", ["metropolis", "unit", "max-degree"])
@pytest.mark.parametrize("spec", ["ring", "path", "star", "complete", "torus"])
def test_closed_forms_are_the_dense_eigenvalues(spec: str, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lessbits.networks.network.laplacian_spectrum", None)  # the closed form must be what answers
    for nodes in SIZES:
        network = make_network(spec, nodes, weights)
        assert (network.lambda_min, network.lambda_max) == pytest.approx(dense(network), rel=1e-11), nodes


@pytest.mark.parametrize("sides", ["3x3", "3x4", "4x4", "5x7", "3x20", "2x2", "2x3", "2x9", "6x2", "1x2", "1x9"])
def test_closed_form_of_the_torus(sides: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lessbits.networks.network.laplacian_spectrum", None)
    network = make_network(f"torus:{sides}")
    assert (network.lambda_min, network.lambda_max) == pytest.approx(dense(network), rel=1e-11)


@pytest.mark.parametrize("dimension", range(1, 8))
def test_closed_form_of_the_hypercube(dimension: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lessbits.networks.network.laplacian_spectrum", None)
    network = make_network("hypercube", 2**dimension)
    assert (network.lambda_min, network.lambda_max) == pytest.approx(dense(network), rel=1e-11)


def test_the_closed_form_is_not_used_for_unequal_weights() -> None:
    ring = make_network("ring", 20)
    other = ring.with_weights(np.linspace(0.5, 1.5, 20))
    assert (other.lambda_min, other.lambda_max) == pytest.approx(dense(other), rel=1e-11)
    assert other.lambda_max != pytest.approx(ring.lambda_max * 3, rel=1e-3)


def test_facts_of_the_paper() -> None:
    ring, star = make_network("ring", 100), make_network("star", 100)
    assert ring.weight == pytest.approx(1 / 3, rel=1e-15)
    assert star.weight == pytest.approx(1 / 100, rel=1e-15)
    # Section 5 of the paper: ρ = n and ρ_∞ = 1 on the star, both about n² on the ring.
    assert star.rho == pytest.approx(100, rel=1e-12)
    assert star.rho_inf == pytest.approx(1, rel=1e-12)
    assert ring.rho == pytest.approx(100**2 / np.pi**2, rel=1e-3)
    assert ring.rho_inf == pytest.approx(ring.rho / 4, rel=1e-12)


def random_weights(network: Network) -> Network:
    return network.with_weights(np.random.default_rng(1).uniform(0.5, 1.5, network.edges))


FAMILIES = {
    "random regular": lambda n: make_network("random-regular:4", n),
    "erdos-renyi": lambda n: make_network("erdos-renyi", n),
    "small world": lambda n: make_network("watts-strogatz:4:0.1", n),
    "long small world": lambda n: make_network("watts-strogatz:4:0.002", n),
    "weighted torus": lambda n: random_weights(make_network("torus", n)),
    "weighted ring": lambda n: random_weights(make_network("ring", n + 1)),
    "weighted star": lambda n: random_weights(make_network("star", n)),
    "path without closed form": lambda n: make_network(nx.path_graph(n)),
    "grid": lambda n: make_network(nx.grid_2d_graph(20, n // 20)),
    "3D torus": lambda n: make_network(nx.grid_graph((8, 8, n // 64), periodic=True)),
    "tree": lambda n: make_network(nx.balanced_tree(2, n.bit_length() - 1)),
    "lollipop": lambda n: make_network(nx.lollipop_graph(40, n - 40)),
    "barbell": lambda n: make_network("barbell", n),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_sparse_eigenvalues_are_the_dense_ones(family: str) -> None:
    laplacian = FAMILIES[family](600).laplacian()
    assert spectrum.sparse_spectrum(laplacian) == pytest.approx(spectrum.dense_spectrum(laplacian), rel=1e-6)


@pytest.mark.parametrize("family", ["random regular", "weighted torus"])
def test_large_networks_take_the_sparse_way(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = FAMILIES[family](1600)
    expected = spectrum.dense_spectrum(network.laplacian())
    monkeypatch.setattr(spectrum, "dense_spectrum", None)
    assert (network.lambda_min, network.lambda_max) == pytest.approx(expected, rel=1e-6)


def test_sparse_eigenvalues_are_reproducible() -> None:
    laplacian = make_network("random-regular:4", 600).laplacian()
    assert spectrum.sparse_spectrum(laplacian) == spectrum.sparse_spectrum(laplacian)


@pytest.mark.parametrize("family", ["random regular", "weighted torus", "tree"])
def test_both_sparse_ways_agree(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laplacian = FAMILIES[family](600).laplacian()
    monkeypatch.setattr(spectrum, "LANCZOS_RESTARTS", 100_000)
    by_lanczos = spectrum._smallest(laplacian), spectrum._largest(laplacian, 100_000)
    by_factorisation = spectrum._smallest_by_factorisation(laplacian), spectrum._largest_by_factorisation(laplacian)
    assert by_factorisation == pytest.approx(by_lanczos, rel=1e-6)


def test_lanczos_that_does_not_converge_falls_back_on_a_factorisation(monkeypatch: pytest.MonkeyPatch) -> None:
    laplacian = make_network("random-regular:4", 600).laplacian()
    expected = spectrum.dense_spectrum(laplacian)
    monkeypatch.setattr(spectrum, "LANCZOS_RESTARTS", 1)
    assert spectrum.sparse_spectrum(laplacian) == pytest.approx(expected, rel=1e-6)


def test_thin_graphs_are_told_from_expanders() -> None:
    thin = [make_network("torus", 1600), make_network("path", 1600), make_network("torus:4x400")]
    wide = [make_network("random-regular", 1600), make_network("star", 1600), make_network("hypercube", 2048)]
    assert all(spectrum.is_thin(network.laplacian()) for network in thin)
    assert not any(spectrum.is_thin(network.laplacian()) for network in wide)


def test_a_network_that_does_not_fit_in_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(laplacian: object) -> float:
        raise MemoryError

    monkeypatch.setattr(spectrum, "_smallest_by_factorisation", no_memory)
    with pytest.raises(InputError, match="1600 nodes do not fit in memory: take fewer nodes"):
        spectrum.sparse_spectrum(make_network("torus", 1600).laplacian())


def test_weights_too_far_apart_to_find_the_smallest_eigenvalue() -> None:
    network = Network.from_edges(3, [(0, 1), (1, 2)], [1.0, 1e-18])
    with pytest.raises(InputError, match="cannot be told from rounding"):
        _ = network.lambda_min
