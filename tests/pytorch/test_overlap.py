"""Messages that travel while a model is trained: the rule line by line, duals, resumed runs, and mistakes."""

import copy
import subprocess
import sys
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytorch.test_gossip import EVERY, NODES, flat, make_model, train  # noqa: E402

from lessbits.errors import InputError, WireError  # noqa: E402
from lessbits.networks import make_network  # noqa: E402
from lessbits.torch import Gossip, Links, Rule, ThreadLinks  # noqa: E402
from lessbits.torch.layout import Layout  # noqa: E402
from lessbits.torch.memory import neighbours, turns  # noqa: E402
from lessbits.torch.quantizers import make_weight_quantizer  # noqa: E402


def run_nodes(steps, rule, kind=torch.float32, finish=False):
    def one(links):
        model = make_model(kind)
        gossip = Gossip(model, EVERY, links=links, rule=rule, overlap=True)
        train(model, links.node, steps, gossip)
        if finish:
            gossip.finish()
        return flat(model), gossip

    return ThreadLinks.run(NODES, one)


@pytest.mark.parametrize("in_turn", [True, False])
def test_the_rule_line_by_line(in_turn):
    rule = Rule(dual=0.2, rate=0.9, momentum=0.4, theta=0.8, turns=in_turn)
    network = make_network("ring", nodes=NODES)
    models = [make_model() for _ in range(NODES)]
    size = flat(models[0]).numel()
    quantizer = make_weight_quantizer("block:1.0", Layout(models[0]).sizes)
    dual, momentum, pulls = (torch.zeros(NODES, size) for _ in range(3))
    memory = {(i, j): flat(models[0]) for i in range(NODES) for j in range(NODES)}
    for turn in range(5):
        for node, model in enumerate(models):
            old = flat(model)
            for step in range(EVERY):
                train(model, node, 1, first=turn * EVERY + step)
                if turn:
                    Layout(model).add(dual[node], rule.dual / EVERY)
            dual[node] -= pulls[node]  # of the model at the start of this interval
            change = old - (flat(model) - pulls[node])
            momentum[node] = rule.momentum * momentum[node] + change
            Layout(model).scatter(old - rule.rate * (change + rule.momentum * momentum[node]))
        for node, model in enumerate(models):
            for other in [turns(network, node)[turn % 2]] if in_turn else list(neighbours(network, node)):
                quantizer.add(memory[node, other], quantizer.quantize(flat(model) - memory[node, other]))
        for node in range(NODES):
            spoken = {turns(network, node)[turn % 2]: 0.5} if in_turn else neighbours(network, node)
            pulls[node] = rule.theta * sum(
                weight * (memory[node, other] - memory[other, node]) for other, weight in spoken.items()
            )
    for node, (found, gossip) in enumerate(run_nodes(5 * EVERY, rule)):
        torch.testing.assert_close(found, flat(models[node]), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gossip.dual, dual[node], rtol=1e-4, atol=1e-6)
    for node, (found, gossip) in enumerate(run_nodes(5 * EVERY, rule, finish=True)):
        torch.testing.assert_close(found, flat(models[node]) - pulls[node], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gossip.dual, dual[node] - pulls[node], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("finish", [True, False])
def test_the_duals_of_all_nodes_add_up_to_zero(finish):
    duals = torch.stack([gossip.dual for _, gossip in run_nodes(8 * EVERY, Rule(dual=0.2), finish=finish)])
    assert duals.abs().max() > 1e-3
    assert duals.sum(dim=0).abs().max() < 1e-5 * duals.abs().max()


def test_nodes_come_together():
    alone = torch.stack([flat(train(make_model(), node, 60)) for node in range(NODES)])
    together = torch.stack([found for found, _ in run_nodes(60, Rule(dual=0.1, theta=0.5), finish=True)])
    assert together.std(dim=0).norm() < 0.5 * alone.std(dim=0).norm()


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("cut", [12, 13])
def test_a_run_goes_on_from_its_state_with_a_message_under_way(kind, cut):
    rule = Rule(dual=0.2, momentum=0.5)
    whole = run_nodes(24, rule, kind)

    def first(links):
        model = make_model(kind)
        gossip = Gossip(model, EVERY, links=links, rule=rule, overlap=True)
        train(model, links.node, cut, gossip)
        assert gossip.flight is not None
        return copy.deepcopy((model.state_dict(), gossip.state_dict()))

    saved = ThreadLinks.run(NODES, first)

    def second(links):
        model = make_model(kind)
        gossip = Gossip(model, EVERY, links=links, rule=rule, overlap=True)
        model.load_state_dict(saved[links.node][0])
        gossip.load_state_dict(saved[links.node][1])
        train(model, links.node, 24 - cut, gossip, first=cut)
        return flat(model), gossip

    for (found, after), (expected, before) in zip(ThreadLinks.run(NODES, second), whole, strict=True):
        assert torch.equal(found, expected)
        assert (after.bits, after.exchanges, after.steps) == (before.bits, before.exchanges, before.steps)


class Held(Links):
    """Links that hold messages back until they are let go."""

    def __init__(self, links):
        self.links, self.node, self.nodes = links, links.node, links.nodes
        self.go = threading.Event()
        self.go.set()

    def exchange(self, frames):
        self.go.wait(60)
        return self.links.exchange(frames)


def test_a_model_is_trained_while_messages_are_under_way():
    def one(links):
        held, model = Held(links), make_model()
        gossip = Gossip(model, EVERY, links=held, overlap=True)
        train(model, links.node, 1, gossip)  # neighbours are met
        held.go.clear()
        train(model, links.node, 2 * EVERY - 2, gossip, first=1)
        assert gossip.exchanges == 1  # nobody has heard anything yet
        held.go.set()
        train(model, links.node, 1, gossip, first=2 * EVERY - 1)
        return gossip.exchanges

    assert ThreadLinks.run(2, one) == [2, 2]


class Broken(Held):
    def exchange(self, frames):
        if frames and len(next(iter(frames.values()))) > 24:
            raise WireError("the cable is cut")
        return self.links.exchange(frames)


def test_what_goes_wrong_on_the_way_is_raised_at_the_next_exchange():
    def one(links):
        model = make_model()
        gossip = Gossip(model, EVERY, links=Broken(links), overlap=True)
        train(model, links.node, EVERY, gossip)
        with pytest.raises(WireError, match="cable"):
            train(model, links.node, EVERY, gossip, first=EVERY)

    ThreadLinks.run(2, one)


def test_mistakes_are_told_in_one_line():
    def one(links):
        Gossip(make_model(), links=links, overlap=links.node == 1)

    with pytest.raises(InputError, match="overlap=False at node 0, overlap=True at node 1"):
        ThreadLinks.run(2, one)
    with pytest.raises(InputError, match="overlap is 3"):
        Gossip(make_model(), overlap=3)


SCRIPT = """
import torch
import lessbits.torch

torch.manual_seed(0)
model = torch.nn.Linear(200, 50)
gossip = lessbits.torch.Gossip(model, every=2, overlap=True)
for step in range(11):
    random = torch.Generator().manual_seed(2 * step + gossip.links.node)
    model.weight.data += 0.01 * torch.randn(50, 200, generator=random)
    gossip.step()
FINISH
dual = float(gossip.dual.abs().sum())
print(f"node {gossip.links.node}: {gossip.exchanges} exchanges, dual {dual:.6g}\\n", end="", flush=True)
"""


@pytest.mark.parametrize("ending", [pytest.param("gossip.finish(); gossip.close()", marks=pytest.mark.slow), ""])
def test_processes_overlap_and_end_even_with_a_message_under_way(tmp_path, ending):
    pytest.importorskip("mpi4py")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("FINISH", ending))
    command = [str(Path(sys.executable).parent / "lessbits"), "launch", "--nodes", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.split("\n"))[1:]
    assert [line[:22] for line in lines] == ["node 0: 5 exchanges, d", "node 1: 5 exchanges, d"]
    assert lines[0].split("dual ")[1] == lines[1].split("dual ")[1] != "0"  # equal but for the sign
