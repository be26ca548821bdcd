"""Proven step sizes of edge-dual: Ψ shrinks as promised, in expectation and from the worst state."""

from itertools import product

import numpy as np
import pytest
from edge_reference import Quadratics, Run, network
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
    if kind == "nodes":  # a link speaks if both its ends take part, each with probability √p
        coins, part = [np.array(coin) for coin in product([False, True], repeat=edges.max() + 1)], speaking**0.5
        return [(np.prod(np.where(coin, part, 1 - part)), coin[edges].all(axis=1), coin) for coin in coins]
    coins = [np.array(coin, bool) for coin in product([False, True], repeat=len(edges))]
    return [(np.prod(np.where(coin, speaking, 1 - speaking)), coin) for coin in coins]


def worst_ratio(proof, inputs, edges, weights, curvatures, sets, frozen=False):
    """Return the largest E[Ψ⁺]/Ψ over all states of scalars, exactly: Ψ and its expectation are quadratic forms.

    If `frozen`, nodes that do not take part leave out their gradient step too.
    """
    theta, eta, alpha, gamma = proof.sizes
    nodes, links = len(curvatures), 2 * len(edges)
    rows, ends = (
        pulls(nodes, edges),
        edges.T.ravel(),
    )  # links from the first ends, then from the second
    laplacian = rows.T * weights @ rows
    size = 2 * nodes + links
    form = np.zeros((size, size))
    form[:nodes, :nodes] = proof.iterate * np.eye(nodes)
    form[nodes : 2 * nodes, nodes : 2 * nodes] = np.linalg.pinv(laplacian)
    form[2 * nodes :, 2 * nodes :] = proof.memory * np.diag(np.tile(weights, 2))
    expected = np.zeros((size, size))
    for probability, speaks, *taking_part in sets:
        steps = taking_part[0].astype(float) if frozen else np.ones(nodes)
        y = np.zeros((nodes, size))
        y[:, :nodes], y[:, nodes : 2 * nodes] = np.diag(1 - eta * steps * curvatures), eta * np.diag(steps)
        sent = y[ends] - np.eye(size)[2 * nodes :]
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


SILENCES = [("coins", 1.0), ("coins", 0.7), ("coins", 0.3), ("coins", 0.1), ("together", 0.3), ("one", 0.1)]
SILENCES += [("nodes", 0.5)]


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize(("kind", "speaking"), SILENCES)
def test_the_lyapunov_function_shrinks_as_proven_from_every_state(corrected, kind, speaking):
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


def test_nothing_is_proven_for_nodes_that_leave_out_their_gradient_step():
    """Links that are silent because an end does not take part do no harm, but that it takes no step does."""
    edges, weights, curvatures = np.array([(0, 1), (1, 2)]), np.full(2, 0.3), np.array([1, 0.05, 0.05])
    inputs = TheoryInputs(1.0, 0.05, lambda_max=0.9, lambda_min=0.3, max_weight=0.3, omega=0.0)
    proof = proven_edge_sizes(inputs, 0.25, corrected=True)
    sets = silences("nodes", edges, 0.25)
    stepping, frozen = (worst_ratio(proof, inputs, edges, weights, curvatures, sets, kind) for kind in (False, True))
    assert stepping <= 1 - proof.rate + 1e-9
    assert frozen > 1


@pytest.mark.parametrize("speaking", [1.0, 0.7, 0.3])
def test_runs_converge_at_least_as_fast_as_proven(speaking):
    """Rand-10 of 20 coordinates has ω = 1 for every vector. Nodes have different Hessians."""

    def half(random, v):
        return np.where(random.random(v.shape).argsort(-1) < 10, 2 * v, 0)

    edges, weights, graph = network("random-regular:4")
    degree = float(graph.weighted_degree.max())
    inputs = TheoryInputs(1.0, 0.25, graph.lambda_max, graph.lambda_min, degree / 2, omega=1.0)
    for corrected in (False, True):
        proof = proven_edge_sizes(inputs, speaking, corrected=corrected)
        run = Run(Quadratics(16, 20, 4.0), edges, weights, proof.sizes, speaking, quantize=half)
        # Ψ bounds ‖X - X*‖² up to a factor of the start, which a hundredth makes up for.
        assert run.until(1e-4 * run.error(), limit=int(np.log(1e6) / proof.rate)) < np.inf


def test_without_a_correction_silence_costs_no_messages():
    inputs = TheoryInputs(1.0, 0.01, lambda_max=2.0, lambda_min=0.1, max_weight=0.5, omega=2.0)
    whole = proven_edge_sizes(inputs, corrected=False)
    for speaking in (0.7, 0.3, 0.01):
        assert proven_edge_sizes(inputs, speaking, corrected=False).rate >= speaking * whole.rate


def test_other_options_have_smaller_gradient_steps():
    inputs = TheoryInputs(3.0, 0.5, lambda_max=2.0, lambda_min=0.1, max_weight=0.25, omega=0.0, samples=4000.0)
    assert proven_edge_sizes(inputs, option="B").sizes.eta == pytest.approx(2 / 3.5)
    assert proven_edge_sizes(inputs, option="C").sizes.eta == pytest.approx(1 / 6)
    variance_reduced = proven_edge_sizes(inputs, option="D")
    assert variance_reduced.sizes.eta == pytest.approx(1 / 18)
    assert variance_reduced.rate == 1 / 8000  # the anchors'


@pytest.mark.parametrize("speaking", [0.0, -0.1, 1.1, float("nan"), "often"])
def test_probabilities_are_above_0_and_at_most_1(speaking):
    inputs = TheoryInputs(1.0, 0.1, lambda_max=2.0, lambda_min=0.1, max_weight=0.25, omega=0.0)
    with pytest.raises(InputError, match="speaking"):
        proven_edge_sizes(inputs, speaking)
