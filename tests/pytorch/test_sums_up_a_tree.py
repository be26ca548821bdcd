"""Sums up a tree between PyTorch processes: the equations, one model for all, resumed runs, and mistakes."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lessbits.codecs.frames import CHECK_BYTES  # noqa: E402
from lessbits.errors import InputError  # noqa: E402
from lessbits.networks import make_network  # noqa: E402
from lessbits.networks.tree import spanning_tree  # noqa: E402
from lessbits.torch import Gossip, Rule, ThreadLinks  # noqa: E402
from lessbits.torch.layout import Layout  # noqa: E402
from lessbits.torch.pieces import Pieces  # noqa: E402

EVERY = 3
torch.manual_seed(0)
START = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 3))


def moved(model, node, step):
    """Change a model as if it were trained, by numbers that depend on node and step."""
    random = np.random.default_rng([node, step])
    with torch.no_grad():
        for tensor in [*model.parameters(), *(each for each in model.buffers() if each.is_floating_point())]:
            tensor += torch.from_numpy(random.normal(size=tuple(tensor.shape)).astype(np.float32)).to(tensor.dtype) / 8


def flat(model):
    return Layout(model).gather().numpy()


def run_nodes(nodes, network, quantizer, rule, steps=4 * EVERY, kind=torch.float32):
    def one(links):
        model = copy.deepcopy(START).to(kind)
        gossip = Gossip(model, EVERY, quantizer, network, rule, links)
        for step in range(steps):
            moved(model, links.node, step)
            gossip.step()
        return flat(model), gossip

    return ThreadLinks.run(nodes, one)


def plain(nodes, network, spelling, rate, momentum, exchanges=4):
    """The equations with explicit loops: models and the bits of each node."""
    tree = spanning_tree(make_network(network, nodes))
    layout = Layout(START)
    pieces = Pieces(spelling, layout.names, layout.sizes, layout.buffers)
    models = [copy.deepcopy(START) for _ in range(nodes)]
    old, errors = flat(START), np.zeros((nodes, layout.size), np.float32)
    average, bits = np.zeros(layout.trained, np.float32), np.zeros(nodes)

    def send(vector):
        decoded, parts = torch.zeros(layout.size), []
        for piece in pieces:
            payload = piece.quantizer.quantize(torch.from_numpy(vector)[piece.part])
            piece.add(decoded, payload)
            parts.append(piece.codec.encode(piece.quantizer.to_host(payload)))
        assert np.array_equal(decoded[layout.trained :].numpy(), vector[layout.trained :])  # buffers are not rounded
        return decoded.numpy(), 8 * (len(pieces.codec.join(parts)) + CHECK_BYTES)

    for exchange in range(exchanges):
        for node in range(nodes):
            for step in range(EVERY):
                moved(models[node], node, exchange * EVERY + step)
        sums = [errors[node] + (old - flat(models[node])) for node in range(nodes)]
        order = sorted(range(nodes), key=lambda node: (-tree.depth[node], node))
        for node in order[:-1]:
            message, length = send(sums[node])
            errors[node], bits[node] = sums[node] - message, bits[node] + length
            sums[tree.parent[node]] = sums[tree.parent[node]] + message
        root = order[-1]
        mean, length = send(sums[root] / np.float32(nodes))
        errors[root] = sums[root] - nodes * mean
        for node in order[:-1]:
            bits[tree.parent[node]] += length
        trained, rest = mean[: layout.trained], mean[layout.trained :]
        average = momentum * average + trained
        old = old - np.concatenate([rate * (trained + momentum * average), rest])
        for model in models:
            Layout(model).scatter(torch.from_numpy(old.astype(np.float32)))
    return old, bits


@pytest.mark.parametrize(("network", "nodes"), [("ring", 7), ("star", 4), ("path", 2)])
@pytest.mark.parametrize("quantizer", ["block:3.25", "exact"])
def test_an_exchange_is_the_equations_and_all_nodes_have_one_model(network, nodes, quantizer):
    found = run_nodes(nodes, network, quantizer, Rule(tree=True, rate=0.9, momentum=0.5))
    expected, bits = plain(nodes, network, quantizer, np.float32(0.9), np.float32(0.5))
    for model, gossip in found:
        assert np.array_equal(model, found[0][0])
        assert np.allclose(model, expected, rtol=1e-5, atol=1e-6)
        assert gossip.bits == bits[gossip.links.node]


def test_nothing_that_is_not_told_is_lost():
    """What nodes changed is what all were told, and what the nodes have left."""
    found = run_nodes(5, "ring", "block:4", Rule(tree=True, momentum=0.0))
    left = sum(gossip.memory.error.numpy() for _, gossip in found)
    changes = np.zeros_like(found[0][0])
    model = flat(START)
    for node in range(5):
        changed = copy.deepcopy(START)
        for step in range(4 * EVERY):
            moved(changed, node, step)
        changes += flat(changed) - flat(START)
    told = 5 * (found[0][0] - model)
    assert np.allclose(told - left, changes, atol=1e-4)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_models_of_16_bits_stay_equal(kind):
    found = run_nodes(4, "ring", "block:3.25", Rule(tree=True), kind=kind)
    assert all(np.array_equal(model, found[0][0]) for model, _ in found)


def test_a_resumed_run_is_the_run():
    rule, nodes = Rule(tree=True), 3
    whole = run_nodes(nodes, "path", "block:3.25", rule)

    def first(links):
        model = copy.deepcopy(START)
        gossip = Gossip(model, EVERY, "block:3.25", "path", rule, links)
        for step in range(2 * EVERY):
            moved(model, links.node, step)
            gossip.step()
        return model, gossip.state_dict()

    saved = ThreadLinks.run(nodes, first)

    def second(links):
        model, state = saved[links.node]
        gossip = Gossip(copy.deepcopy(START), EVERY, "block:3.25", "path", rule, links)
        gossip.layout.model.load_state_dict(model.state_dict())
        gossip.load_state_dict(state)
        for step in range(2 * EVERY, 4 * EVERY):
            moved(gossip.layout.model, links.node, step)
            gossip.step()
        return flat(gossip.layout.model), gossip

    for (model, gossip), (expected, before) in zip(ThreadLinks.run(nodes, second), whole, strict=True):
        assert np.array_equal(model, expected)
        assert gossip.bits == before.bits


@pytest.mark.parametrize("wrong", [{"theta": 0.5}, {"dual": 0.1}, {"turns": False}])
def test_settings_of_gossip_are_refused(wrong):
    with pytest.raises(InputError, match="there is no gossip"):
        Rule(tree=True, **wrong)


def test_overlap_is_refused():
    with pytest.raises(InputError, match="overlap is for gossip"):
        Gossip(copy.deepcopy(START), rule=Rule(tree=True), overlap=True)
