"""Messages that travel while parameters are trained: duals, resumed runs, and mistakes. PyTorch's has the equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lessbits.errors import InputError
from lessbits.neural import Gossip, Rule, ThreadLinks

NODES, RULE = 4, Rule(dual=0.2, momentum=0.3)


def make_params(kind=jnp.float32):
    return {"w": jnp.asarray(np.random.default_rng(0).normal(size=(9, 5)), kind), "b": jnp.zeros(5, kind)}


def move(params, node, step):
    """Pull a model to a point of the node's own, with noise."""
    random = np.random.default_rng([node, step])

    def moved(each):
        here = np.asarray(each, np.float32)
        return jnp.asarray(here - 0.1 * (here - node + random.normal(size=here.shape)), each.dtype)

    return jax.tree.map(moved, params)


def make_gossip(links, kind):
    return Gossip(make_params(kind), 2, rule=RULE, links=links, overlap=True)


def train(gossip, params, first, steps):
    for step in range(first, first + steps):
        params = gossip.step(move(params, gossip.links.node, step))
    return params


@pytest.mark.slow
def test_duals_add_up_to_zero_and_the_last_correction_is_taken():
    def one(links):
        gossip = make_gossip(links, jnp.float32)
        params = train(gossip, make_params(), 0, 40)
        before = np.asarray(params["w"])
        params = gossip.finish(params)
        assert not np.array_equal(before, params["w"])
        assert gossip.finish(params)["w"] is params["w"]  # once
        gossip.close()
        assert "s waited" in gossip.report()
        return before, np.asarray(params["w"]), np.asarray(gossip.dual)

    before, after, duals = (np.stack(each) for each in zip(*ThreadLinks.run(NODES, one), strict=True))
    assert np.abs(duals).max() > 1e-3
    assert np.abs(duals.sum(axis=0)).max() < 1e-5 * np.abs(duals).max()
    assert np.linalg.norm(after.std(axis=0)) < np.linalg.norm(before.std(axis=0)) < 0.8 * np.sqrt(45)


@pytest.mark.parametrize("kind", [jnp.float32, jnp.bfloat16])
def test_a_run_goes_on_from_its_state_with_a_message_under_way(kind):
    def whole(links):
        gossip = make_gossip(links, kind)
        return train(gossip, make_params(kind), 0, 12), gossip.bits

    def first(links):
        gossip = make_gossip(links, kind)
        params = train(gossip, make_params(kind), 0, 7)
        assert gossip.memory.flight is not None
        return params, gossip.state_dict()

    saved = ThreadLinks.run(NODES, first)

    def second(links):
        gossip = make_gossip(links, kind)
        gossip.load_state_dict(saved[links.node][1])
        return train(gossip, saved[links.node][0], 7, 5), gossip.bits

    for (found, bits), (expected, sent) in zip(
        ThreadLinks.run(NODES, second), ThreadLinks.run(NODES, whole), strict=True
    ):
        assert bits == sent
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)


def test_mistakes_are_told_in_one_line():
    for given, words in [({"overlap": 3}, "overlap is 3"), ({"progress": -1}, "progress is -1")]:
        with pytest.raises(InputError, match=words):
            Gossip(make_params(), **given)
    with pytest.raises(InputError, match="tree=True"):
        Gossip(make_params(), rule=Rule(tree=True), overlap=True)
    with pytest.raises(InputError, match="overlap=False at node 0, overlap=True at node 1"):
        ThreadLinks.run(2, lambda links: Gossip(make_params(), links=links, overlap=links.node == 1))
