"""Sums up a tree: plain NumPy with explicit loops, errors that are not lost, bytes, and a model for all nodes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_problem import NODES, make_problem
from tiers import slow_but

from lessbits._internal.randomness import make_seed
from lessbits.codecs.frames import CHECK_BYTES
from lessbits.networks import make_network
from lessbits.networks.tree import spanning_tree
from lessbits.neural import GossipInTurn, Rule, SimulateOptions, TreeSums, simulate
from lessbits.neural.methods.base import SEED_QUANTIZER, Room
from lessbits.neural.programs import sent_bytes
from lessbits.neural.quantizers import WeightQuantizer, row_of

SHAPES = [(5,), (6, 20)]
SIZE = 125


def room_of(network, quantizer):
    sizes = [int(np.prod(shape)) for shape in SHAPES]
    return Room(network, WeightQuantizer(quantizer, sizes), SHAPES, make_seed(3))


def send(quantizer, vector):
    """Return what is decoded, and the bytes of the frame, of one vector."""
    row = jnp.asarray(vector[None], jnp.float32)
    payload, decoded = quantizer.send(row, jnp.zeros_like(row), None)  # nothing is random here
    encoded = quantizer.codec().encode(row_of(payload))
    return np.asarray(decoded)[0], len(encoded) + CHECK_BYTES


class PlainTree:
    """The equations, node by node."""

    def __init__(self, network, up, rate, momentum):
        tree = spanning_tree(network)
        self.parent, self.depth = tree.parent.tolist(), tree.depth.tolist()
        self.nodes, self.rate, self.share = network.nodes, rate, momentum
        self.error, self.momentum = np.zeros((self.nodes, SIZE), np.float32), np.zeros(SIZE, np.float32)
        self.up = WeightQuantizer(up, [5, 120])
        self.bytes = 0
        self.told = np.zeros(SIZE, np.float32)

    def sum_of(self, node, changes):
        """Return s of a node, after all nodes below it have sent."""
        total = self.error[node] + changes[node]
        for child in range(self.nodes):
            if self.parent[child] == node and self.depth[child]:
                below = self.sum_of(child, changes)
                message, length = send(self.up, below)
                self.error[child] = below - message
                self.bytes += length
                total = total + message
        return total

    def exchange(self, old, x):
        root = self.depth.index(0)
        total = self.sum_of(root, old - x)
        message, length = send(self.up, total / np.float32(self.nodes))
        self.error[root] = total - np.float32(self.nodes) * message
        self.bytes += length * (self.nodes - 1)
        self.told = self.told + message
        self.momentum = np.float32(self.share) * self.momentum + message
        return old - np.float32(self.rate) * (message + np.float32(self.share) * self.momentum)


TREES = [("ring", 7, "block:3.25"), ("star", 4, "block:4"), ("path", 5, "block-top:256")]


@pytest.mark.parametrize(("name", "nodes", "up"), slow_but(TREES[1:2], TREES))
def test_the_method_is_plain_loops_over_a_tree(name, nodes, up):
    network, random = make_network(name, nodes), np.random.default_rng(5)
    method = TreeSums(quantizer=up, rate=0.9, momentum=0.5)
    plain, room = PlainTree(network, up, 0.9, 0.5), room_of(network, up)
    x = np.tile(random.normal(size=SIZE).astype(np.float32), (nodes, 1))
    state, changes, encoded, counted, messages = method.start(jnp.asarray(x), room), 0, 0, 0, 0
    for turn in range(4):
        change = random.normal(size=x.shape).astype(np.float32)
        done = method.exchange(state, jnp.asarray(x), jnp.asarray(x - change), turn, room)
        state, changes = done.state, changes + (x - (x - change))
        encoded, counted = encoded + sent_bytes(done, room, True), counted + sent_bytes(done, room, False)
        messages += sum(each.copies.sum() for each in done.messages)
        x = plain.exchange(x, x - change)
        np.testing.assert_allclose(done.x, x, rtol=0, atol=1e-5)
        assert (np.ptp(np.asarray(done.x), axis=0) == 0).all()
        np.testing.assert_allclose(state.error, plain.error, rtol=0, atol=1e-5)
        x = np.asarray(done.x)
        plain.error, plain.momentum = np.array(state.error), np.array(state.momentum)[0]
    assert messages == 4 * 2 * (nodes - 1)
    np.testing.assert_allclose(encoded, plain.bytes / nodes, rtol=1e-12)
    assert abs(counted - encoded) <= 8 * messages / nodes
    # What was told n times, and what is left at the nodes, is all that changed.
    left = nodes * plain.told + np.asarray(state.error).sum(axis=0)
    np.testing.assert_allclose(left, changes.sum(axis=0), rtol=0, atol=1e-4)
    assert np.abs(state.error).max() > 0.5


def test_fine_messages_give_the_mean_change_of_all_nodes():
    network, random = make_network("hypercube", 8), np.random.default_rng(6)
    method, room = TreeSums(quantizer="block:0.02", rate=1.0, momentum=0.0), room_of(network, "block:0.02")
    x = jnp.asarray(np.tile(random.normal(size=SIZE).astype(np.float32), (8, 1)))
    moved = x + jnp.asarray(random.normal(size=x.shape).astype(np.float32))
    done = method.exchange(method.start(x, room), x, moved, 0, room)
    np.testing.assert_allclose(done.x[3], np.mean(moved, axis=0), rtol=0, atol=0.05)


@pytest.fixture
def problem():
    """Let optax promote types, which it needs."""
    with jax.numpy_dtype_promotion("standard"):
        yield make_problem()


def models(trace):
    return np.concatenate([np.asarray(leaf).reshape(NODES, -1) for leaf in jax.tree.leaves(trace.models)], axis=1)


@pytest.mark.slow
def test_seeded_nodes_go_on_from_the_root_s_model(problem):
    optimizer, options = optax.adam(0.01), SimulateOptions(record=5, encoded=True)
    alone, seeded = (
        simulate(problem, optimizer, method, "star", 10, 1, options) for method in ("none", TreeSums(seeded=10))
    )
    start, root = (models(simulate(problem, optimizer, "none", steps=n, seed=1))[0] for n in (0, 10))
    quantizer = WeightQuantizer(SEED_QUANTIZER, [8, 48, 24])
    sent, length = send(quantizer, root - start)
    np.testing.assert_allclose(models(seeded), np.tile(start + sent, (NODES, 1)), rtol=0, atol=1e-6)
    np.testing.assert_allclose(models(seeded)[0], root, rtol=0, atol=0.01)
    assert alone["disagreement"][-1] > 0.05
    assert seeded["bytes"].tolist() == [0, 0, length * 0.75]
    assert seeded["exchanges"][-1] == 0

    ours = GossipInTurn(every=4, seeded=10, rule=Rule(dual=0.1, theta=0.7))
    trace = simulate(problem, optimizer, ours, "star", 18, 1, SimulateOptions(record=1))
    assert trace["disagreement"][10] == 0
    assert trace["exchanges"].tolist() == [0] * 14 + [1] * 4 + [2]
