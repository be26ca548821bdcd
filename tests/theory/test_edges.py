"""Proven step sizes of edge-dual: Ψ shrinks as promised, in expectation and from the worst state."""

from itertools import product

import numpy as np
import pytest
from scipy.linalg import eigh

from lessbits import InputError
from lessbits.theory import TheoryInputs, proven_edge_sizes


def random_network(random, nodes=5, extra=2):
    """Return edges and weights: a random tree and some more, with weights that differ tenfold."""
    tree = [(int(random.integers(node)), node) for node in range(1, nodes)]
    others = [(i, j) for i in range(nodes) for j in range(i + 1, nodes) if (i, j) not in tree]
    picked = [others[at] for at in random.permutation(len(others))[:extra]]
    return np.array(tree + picked), 10 ** random.uniform(-1, 0, len(tree) + extra)


def pulls(nodes, edges):
    """Return one row per edge: 1 at its first end, -1 at its second."""
    rows = np.zeros((len(edges), nodes))
    rows[np.arange(len(edges)), edges[:, 0]], rows[np.arange(len(edges)), edges[:, 1]] = 1, -1
    return rows


def silences(kind, edges, speaking):
    """Return sets of edges that speak with their probabilities; every edge speaks with the same probability."""
    if kind == "together":
        return [(speaking, np.ones(len(edges), bool)), (1 - speaking, np.zeros(len(edges), bool))]
    if kind == "one":  # one edge, or none
        some = [(speaking, at == np.arange(len(edges))) for at in range(len(edges))]
        return [*some, (1 - speaking * len(edges), np.zeros(len(edges), bool))]
    coins = [np.array(coin, bool) for coin in product([False, True], repeat=len(edges))]
    return [(np.prod(np.where(coin, speaking, 1 - speaking)), coin) for coin in coins]


def worst_ratio(proof, inputs, edges, weights, curvatures, sets):
    """Return the largest E[Ψ⁺]/Ψ over all states of scalars, exactly: Ψ and its expectation are quadratic forms."""
    theta, eta, alpha, gamma = proof.sizes
    nodes, links = len(curvatures), 2 * len(edges)
    rows, ends = pulls(nodes, edges), edges.T.ravel()  # link e goes from edges[e, 0], link e + len(edges) from the other
    laplacian = rows.T * weights @ rows
    size = 2 * nodes + links
    form = np.zeros((size, size))
    form[:nodes, :nodes] = proof.iterate * np.eye(nodes)
    form[nodes : 2 * nodes, nodes : 2 * nodes] = np.linalg.pinv(laplacian)
    form[2 * nodes :, 2 * nodes :] = proof.memory * np.diag(np.tile(weights, 2))
    y = np.zeros((nodes, size))
    y[:, :nodes], y[:, nodes : 2 * nodes] = np.diag(1 - eta * curvatures), eta * np.eye(nodes)
    sent = y[ends] - np.eye(size)[2 * nodes :]
    expected = np.zeros((size, size))
    for probability, speaks in sets:
        change = -theta * (rows.T * (weights * speaks) @ rows) @ y
        step = np.concatenate([y + gamma * eta * change, np.eye(size)[nodes:]])
        step[nodes : 2 * nodes] += change
        step[2 * nodes :] += alpha * np.tile(speaks, 2)[:, None] * sent
        expected += probability * step.T @ form @ step
        for link in np.flatnonzero(np.tile(speaks, 2)):
            edge = link % len(edges)
            noise = -theta * weights[edge] * rows[edge] * (1 if link < len(edges) else -1)
            effect = np.concatenate([gamma * eta * noise, noise, np.zeros(links)])
            effect[2 * nodes + link] = alpha
            expected += probability * inputs.omega * (effect @ form @ effect) * np.outer(sent[link], sent[link])
    basis = np.eye(size)
    basis[nodes : 2 * nodes, nodes : 2 * nodes] -= 1 / nodes  # duals sum to zero
    kept = np.delete(np.arange(size), nodes if proof.memory else [nodes, *range(2 * nodes, size)])
    basis = basis[:, kept]
    return eigh(basis.T @ expected @ basis, basis.T @ form @ basis, eigvals_only=True)[-1]


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("kind", ["coins", "together", "one"])
@pytest.mark.parametrize("speaking", [1.0, 0.7, 0.3, 0.1])
def test_the_lyapunov_function_shrinks_as_proven_from_every_state(corrected, kind, speaking):
    if kind == "one" and speaking > 0.2:
        pytest.skip("the probabilities of edges that never speak together sum to at most 1")
    random = np.random.default_rng(1)
    for condition, omega in product([1.0, 3.0, 100.0], [0.0, 0.3, 5.0]):
        edges, weights = random_network(random)
        rows = pulls(5, edges)
        eigenvalues = np.linalg.eigvalsh(rows.T * weights @ rows)
        degree = np.bincount(edges.ravel(), np.repeat(weights, 2)).max()
        smooth = random.uniform(0.5, 2)
        curvatures = smooth * np.append(random.permutation([1, 1 / condition]), condition ** -random.random(3))
        inputs = TheoryInputs(smooth, smooth / condition, eigenvalues[-1], eigenvalues[1], degree / 2, omega)
        proof = proven_edge_sizes(inputs, speaking, corrected=corrected)
        ratio = worst_ratio(proof, inputs, edges, weights, curvatures, silences(kind, edges, speaking))
        assert 0 < proof.rate < 1
        assert ratio <= 1 - proof.rate + 1e-9
