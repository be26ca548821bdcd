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


def test_a_node_that_loads_the_last_state_and_ends_is_named_with_what_it_has_done():
    def one(links):
        gossip = Gossip(make_model(), EVERY, links=links)
        train(make_model(), links.node, 4 * EVERY, gossip)
        return gossip.state_dict()

    last = ThreadLinks.run(2, one)

    def second(links):
        gossip = Gossip(make_model(), EVERY, links=links)
        if links.node:
            gossip.load_state_dict(last[1])
        while gossip.steps < 4 * EVERY:
            gossip.step()

    words = (
        "node 1 has ended after 20 steps and 4 exchanges, but node 0 waits for it after 0 steps: unless that node "
        "tells of an error of its own, give all nodes the same number of steps, even if they have different numbers of "
        "batches, and states of the same step"
    )
    with pytest.raises(EndedError, match=f"^{words}$"):
        ThreadLinks.run(2, second)


@pytest.mark.parametrize(("overlap", "tree"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("ending", [lambda gossip: None, Gossip.finish, Gossip.close])
def test_the_same_number_of_exchanges_is_a_clean_end(overlap, tree, ending):
    assert run([20, 21, 22, 24], overlap, tree, ending) == [4] * NODES
