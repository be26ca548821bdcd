"""Nodes whose steps end at different times: no one waits for ever, and equal ends stay clean."""

import pytest

torch = pytest.importorskip("torch")

from pytorch.test_gossip import make_model, train  # noqa: E402

from lessbits.torch import Gossip, Rule, ThreadLinks  # noqa: E402
from lessbits.training import links as module  # noqa: E402
from lessbits.training.links import EndedError  # noqa: E402

NODES, EVERY = 4, 5


def run(steps, overlap, tree, ending=lambda gossip: None):
    def one(links):
        model = make_model()
        gossip = Gossip(model, EVERY, links=links, rule=Rule(tree=tree), overlap=overlap)
        train(model, links.node, steps[links.node], gossip)
        ending(gossip)
        return gossip.exchanges

    return ThreadLinks.run(NODES, one)


@pytest.mark.parametrize(("overlap", "tree"), [(False, False), (True, False), (False, True)])
def test_a_node_with_fewer_steps_is_named(monkeypatch, overlap, tree):
    monkeypatch.setattr(module, "PATIENCE", 20.0)
    with pytest.raises(EndedError, match=r"^node 0 has ended after 12 steps and 2 exchanges, but node \d waits for it"):
        run([12, 30, 30, 30], overlap, tree)


@pytest.mark.parametrize(("overlap", "tree"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("ending", [lambda gossip: None, Gossip.finish, Gossip.close])
def test_the_same_number_of_exchanges_is_a_clean_end(overlap, tree, ending):
    assert run([20, 21, 22, 24], overlap, tree, ending) == [4] * NODES
