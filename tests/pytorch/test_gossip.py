"""Training with neighbours: the rule line by line, resumed runs, all kinds of tensors, and mistakes."""

import copy
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lessbits.errors import InputError, WireError  # noqa: E402
from lessbits.networks import make_network  # noqa: E402
from lessbits.torch import Gossip, Rule, ThreadLinks  # noqa: E402
from lessbits.torch.layout import Layout  # noqa: E402
from lessbits.torch.quantizers import make_weight_quantizer  # noqa: E402
from lessbits.training.partners import neighbours, turns  # noqa: E402

NODES, EVERY = 4, 3


# Threads share one random generator, so that all nodes copy one model.
torch.manual_seed(0)
START = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))


def make_model(kind=torch.float32):
    return copy.deepcopy(START).to(kind)


def train(model, node, steps, gossip=None, first=0):
    """Plain gradient steps on data that depend on the node and the step."""
    for step in range(first, first + steps):
        random = np.random.default_rng([node, step])
        inputs = torch.from_numpy(random.normal(size=(8, 5)).astype(np.float32))
        targets = torch.from_numpy(random.integers(3, size=8))
        model.zero_grad()
        kind = next(iter(model.parameters())).dtype
        torch.nn.functional.cross_entropy(model(inputs.to(kind)).float(), targets).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.3 * parameter.grad
        if gossip is not None:
            gossip.step()
    return model


def flat(model):
    return Layout(model).gather()


def run_nodes(steps, rule, kind=torch.float32, quantizer="block:1.0", network="ring"):
    def one(links):
        model = make_model(kind)
        gossip = Gossip(model, EVERY, quantizer, network, rule, links)
        train(model, links.node, steps, gossip)
        return flat(model), gossip

    return ThreadLinks.run(NODES, one)


@pytest.mark.parametrize("in_turn", [True, False])
def test_the_rule_line_by_line(in_turn):
    rule = Rule(dual=0.2, rate=0.9, momentum=0.4, theta=0.8, turns=in_turn)
    network = make_network("ring", nodes=NODES)
    models = [make_model() for _ in range(NODES)]
    size = flat(models[0]).numel()
    quantizer = make_weight_quantizer("block:1.0", Layout(models[0]).sizes)
    dual, momentum = torch.zeros(NODES, size), torch.zeros(NODES, size)
    memory = {(i, j): flat(models[0]) for i in range(NODES) for j in range(NODES)}
    for turn in range(5):
        old = torch.stack([flat(model) for model in models])
        for node, model in enumerate(models):
            for step in range(EVERY):
                train(model, node, 1, first=turn * EVERY + step)
                if turn:
                    Layout(model).add(dual[node], rule.dual / EVERY)
        x = torch.stack([flat(model) for model in models])
        for node in range(NODES):
            spoken = [turns(network, node)[turn % 2]] if in_turn else list(neighbours(network, node))
            for other in spoken:
                quantizer.add(memory[node, other], quantizer.quantize(x[node] - memory[node, other]))
        for node, model in enumerate(models):
            if in_turn:
                other = turns(network, node)[turn % 2]
                pull = rule.theta / 2 * (memory[node, other] - memory[other, node])
            else:
                pull = rule.theta / 3 * sum(memory[node, j] - memory[j, node] for j in neighbours(network, node))
            dual[node] -= pull
            change = old[node] - (x[node] - pull)
            momentum[node] = rule.momentum * momentum[node] + change
            Layout(model).scatter(old[node] - rule.rate * (change + rule.momentum * momentum[node]))
    for node, (found, gossip) in enumerate(run_nodes(5 * EVERY, rule)):
        torch.testing.assert_close(found, flat(models[node]), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gossip.dual, dual[node], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("alone", "exchanged"), [(0, [5, 10, 15, 20]), (5, [5, 10, 15, 20]), (12, [12, 17]), (3, [8, 13, 18])]
)
def test_when_exchanges_are_due(alone, exchanged):
    rule = Rule(alone=alone)
    assert [step for step in range(1, 21) if rule.due(step, 5)] == exchanged


@pytest.mark.parametrize("network", ["ring", "complete", "star", "path"])
def test_every_link_has_its_turn_and_a_node_one_link_at_a_time(network):
    made = make_network(network, nodes=6)
    orders = [turns(made, node) for node in range(6)]
    assert len({len(order) for order in orders}) == 1
    for partners in zip(*orders, strict=True):
        for node, other in enumerate(partners):
            assert other is None or partners[other] == node
    for node, order in enumerate(orders):
        assert sorted(other for other in order if other is not None) == sorted(neighbours(made, node))


@pytest.mark.parametrize("quantizer", ["block:1.0", "block-dither:1.0", "block-top:512"])
@pytest.mark.parametrize("in_turn", [True, False])
def test_nodes_come_together_and_send_fewer_bits(quantizer, in_turn):
    coarse = quantizer.startswith("block-top")  # which needs a gentle rule
    rule = Rule(dual=0, momentum=0, theta=0.3, turns=in_turn) if coarse else Rule(dual=0.1, theta=0.5, turns=in_turn)
    alone = torch.stack([flat(train(make_model(), node, 90)) for node in range(NODES)])
    results = run_nodes(90, rule, quantizer=quantizer)
    together = torch.stack([found for found, _ in results])
    assert together.std(dim=0).norm() < (0.9 if coarse else 0.5) * alone.std(dim=0).norm()
    for _, gossip in results:
        assert gossip.exchanges == 30
        assert gossip.bits > 0
        assert "30 exchanges" in gossip.report()


def test_both_ends_of_a_link_have_the_same_memory():
    gossips = [gossip for _, gossip in run_nodes(30, Rule(momentum=0.5))]
    for node, gossip in enumerate(gossips):
        for other in gossip.memory.own:
            theirs = gossip.memory.own[other] - gossip.memory.gap[other]
            torch.testing.assert_close(theirs, gossips[other].memory.own[node], rtol=0, atol=1e-6)


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_a_run_goes_on_from_its_state(in_turn, kind):
    rule = Rule(dual=0.2, momentum=0.5, turns=in_turn)
    whole = run_nodes(24, rule, kind)

    def first(links):
        model = make_model(kind)
        gossip = Gossip(model, EVERY, "block:1.0", "ring", rule, links)
        train(model, links.node, 13, gossip)  # in the middle of an interval
        return copy.deepcopy((model.state_dict(), gossip.state_dict()))

    saved = ThreadLinks.run(NODES, first)

    def second(links):
        model = make_model(kind)
        gossip = Gossip(model, EVERY, "block:1.0", "ring", rule, links)
        model.load_state_dict(saved[links.node][0])
        gossip.load_state_dict(saved[links.node][1])
        train(model, links.node, 11, gossip, first=13)
        return flat(model), gossip

    for (found, after), (expected, before) in zip(ThreadLinks.run(NODES, second), whole, strict=True):
        assert torch.equal(found, expected)
        assert (after.bits, after.exchanges, after.steps) == (before.bits, before.exchanges, before.steps)


def test_parameters_of_16_bits_keep_what_they_cannot_hold():
    model = make_model(torch.bfloat16)
    layout = Layout(model)
    vector = flat(model) + 1e-5 * torch.arange(layout.size)
    layout.scatter(vector)
    torch.testing.assert_close(layout.gather(), vector, rtol=0, atol=1e-9)
    assert all(parameter.dtype == torch.bfloat16 for parameter in model.parameters())


def test_parameters_of_64_bits_are_rounded_to_32_at_exchanges_only():
    def one(links):
        model = make_model(torch.float64)
        gossip = Gossip(model, EVERY, links=links, rule=Rule(dual=0.2))
        found = []
        for step in range(2 * EVERY + 1):
            train(model, links.node, 1, gossip, first=step)
            found.append(all(bool((each == each.float().double()).all()) for each in model.parameters()))
        assert {each.dtype for each in model.parameters()} == {torch.float64}
        return found

    expected = [False, False, True, False, False, True, False]
    assert ThreadLinks.run(2, one) == [expected] * 2


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        self.norm = torch.nn.BatchNorm1d(4)


def test_shared_parameters_count_once_buffers_are_exchanged_and_frozen_ones_stay():
    layout = Layout(Shared())
    names = [entry.name for entry in layout.entries]
    assert names == [
        "first.weight", "first.bias", "second.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"
    ]  # fmt: skip
    assert layout.trained == 16 + 4 * 4
    assert layout.size == layout.trained + 8

    def one(links):
        model = Shared()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(0.5)
        gossip = Gossip(model, 1, "block:0.1", "ring", Rule(theta=1.0), links)
        model.norm.running_mean.fill_(float(links.node))
        gossip.step()
        return model

    for model in ThreadLinks.run(2, one):
        assert torch.allclose(model.norm.running_mean, torch.full((4,), 0.5), atol=0.01)
        assert model.second.weight is model.first.weight


def mistake(change, nodes=1):
    def one(links):
        model = make_model()
        settings = change(model, links.node) or {}
        given = {"network": "complete", "links": links} | settings
        return Gossip(given.pop("model", model), **given)

    with pytest.raises(InputError) as caught:
        ThreadLinks.run(nodes, one)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_tensors_without_numbers_or_with_few_digits_are_told_in_one_line():
    short = torch.nn.Parameter(torch.zeros(3).to(torch.float8_e4m3fn))
    assert "'0.weight' is of torch.float8_e4m3fn" in mistake(lambda model, node: setattr(model[0], "weight", short))
    for frozen in (False, True):
        made = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, device="meta"))
        made[1].requires_grad_(not frozen)
        assert "'1.weight' is on the meta device" in mistake(lambda model, node, made=made: {"model": made}, 2)
    expanded = torch.zeros(1, 3).expand(4, 3)
    assert "was made by expand" in mistake(lambda model, node: model.register_buffer("mean", expanded))
    assert "no shape yet" in mistake(lambda model, node: {"model": torch.nn.LazyLinear(3)})


def test_mistakes_at_the_start_are_told_in_one_line():
    assert "torch.nn.Module" in mistake(lambda model, node: {"model": 3})
    assert "every" in mistake(lambda model, node: {"every": 0})
    assert "block:1.0" in mistake(lambda model, node: {"quantizer": "dit-4"})
    assert "no parameters that are trained" in mistake(lambda model, node: model.requires_grad_(False) and None)
    assert "Rule" in mistake(lambda model, node: {"rule": 0.3})
    different = mistake(lambda model, node: {"model": torch.nn.Linear(2, 2 + node)}, nodes=2)
    assert "nodes 0 and 1 have different models" in different
    start = mistake(lambda model, node: {"model": model[0].bias.data.add_(node) is None or model}, nodes=2)
    assert "same seed" in start
    assert "make the Gossip first, and then load" in start
    assert "different settings" in mistake(lambda model, node: {"every": 2 + node}, nodes=2)
    with pytest.raises(InputError, match="dual"):
        Rule(dual=3)


def test_a_changed_model_is_told_in_one_line():
    def tried(change):
        model = make_model()
        gossip = Gossip(model, 1)
        change(model)
        with pytest.raises(InputError) as caught:
            gossip.step()
        return str(caught.value)

    def replace(model):
        model[0].weight = torch.nn.Parameter(torch.zeros(7, 5))

    def spoil(model):
        model[2].bias.data[1] = float("nan")

    assert "'0.weight' was replaced" in tried(replace)
    assert "'2.extra' is new" in tried(
        lambda model: model[2].register_parameter("extra", torch.nn.Parameter(torch.ones(1)))
    )
    assert "'0.bias' is gone or frozen" in tried(lambda model: model[0].bias.requires_grad_(False))

    def widen(model):
        model[0].weight.data = torch.zeros(7, 6)

    assert "'2.bias' has NaN" in tried(spoil)
    assert "'0.weight' was float32[7, 5] on cpu when" in tried(lambda model: model.bfloat16())
    assert "and is float64[7, 5] on cpu now" in tried(lambda model: model.double())
    assert "and is float32[7, 6] on cpu now" in tried(widen)
    assert "on meta now" in tried(lambda model: model.to("meta"))


def test_a_parameter_that_changes_its_shape_is_told_before_the_dual_is_added():
    def one(links):
        model = make_model()
        gossip = Gossip(model, EVERY, links=links, rule=Rule(dual=0.2))
        train(model, links.node, EVERY, gossip)
        model[0].weight.data = torch.zeros(7, 6)
        gossip.step()

    with pytest.raises(InputError, match=r"is float32\[7, 6\] on cpu now"):
        ThreadLinks.run(2, one)


def test_a_message_of_another_exchange_is_refused():
    def one(links):
        model = make_model()
        gossip = Gossip(model, EVERY, links=links)
        train(model, links.node, 1, gossip)
        gossip.exchanges += 2 * links.node
        train(model, links.node, EVERY - 1, gossip)

    with pytest.raises(WireError):
        ThreadLinks.run(2, one)


def test_a_training_process_never_loads_jax():
    code = """
import sys, torch, lessbits.torch
from lessbits.torch import Gossip, ThreadLinks
def one(links):
    model = torch.nn.Linear(3, 3)
    torch.nn.init.ones_(model.weight), torch.nn.init.ones_(model.bias)
    gossip = Gossip(model, 1, links=links)
    gossip.step()
ThreadLinks.run(2, one)
print('jax' in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("turns", [True, False])
def test_nodes_with_different_networks_or_weights_are_told(turns):
    """Those with other neighbours would wait for each other for ever."""
    rule = Rule(turns=turns)
    told = mistake(lambda model, node: {"network": "complete" if node == 1 else "ring", "rule": rule}, nodes=4)
    assert "have different settings: network=" in told
    assert "dual" not in told
    told = mistake(
        lambda model, node: {"network": make_network("star", 4, weights="metropolis" if node else "unit")}, nodes=4
    )
    assert "have different settings: other weights at node 0" in told
    told = mistake(lambda model, node: {"every": 10 + node}, nodes=2)
    assert told.endswith("different settings: every=10 at node 0, every=11 at node 1: give the same at all nodes")
