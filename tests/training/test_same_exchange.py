"""Nodes that go on from states of different exchanges: both ends of a link say so, before they train."""

import copy

import pytest

from lessbits.errors import InputError, WireError
from lessbits.training.links import ThreadLinks

EVERY = 3


def torch_node(links, rule, overlap):
    """Return a function that takes a step, and what saves and loads the state of a node with PyTorch."""
    torch = pytest.importorskip("torch")
    from lessbits.torch import Gossip, Rule

    model = torch.nn.Linear(3, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    gossip = Gossip(model, EVERY, links=links, rule=Rule(**rule), overlap=overlap)
    return gossip.step, gossip


def jax_node(links, rule, overlap):
    """The same with JAX."""
    jnp = pytest.importorskip("jax.numpy")
    from lessbits.neural import Gossip, Rule

    params = {"weight": jnp.full((2, 3), 0.5, jnp.float32)}
    gossip = Gossip(params, EVERY, links=links, rule=Rule(**rule), overlap=overlap)
    return lambda: gossip.step(params), gossip


KINDS = [({}, False), ({"turns": False}, False), ({"tree": True}, False), ({}, True)]
CASES = [(make, *kind) for make in (torch_node, jax_node) for kind in KINDS]


def run(make, rule, overlap, loaded, nodes=4):
    """Train 9 steps, with the states after 3 and 6; then go on with those that were loaded, and return the errors."""

    def first(links):
        step, gossip = make(links, rule, overlap)
        states = [None]
        for number in range(1, 3 * EVERY + 1):
            step()
            if number % EVERY == 0:
                states.append(copy.deepcopy(gossip.state_dict()))
        return states

    saved = ThreadLinks.run(nodes, first)
    errors = [None] * nodes

    def second(links):
        step, gossip = make(links, rule, overlap)
        if loaded[links.node]:
            gossip.load_state_dict(saved[links.node][loaded[links.node]])
        try:
            step()
        except InputError as error:
            errors[links.node] = error

    ThreadLinks.run(nodes, second)
    return errors


@pytest.mark.parametrize(("make", "rule", "overlap"), CASES)
def test_states_of_different_exchanges_are_told_in_one_line(make, rule, overlap):
    zero, one, two, three = run(make, rule, overlap, [2, 2, 1, 2])
    assert zero is None
    for error, low, high in ((one, (1, 2), (2, 1)), (two, (1, 2), (2, 1)), (three, (2, 1), (3, 2))):
        assert not isinstance(error, WireError)
        assert str(error) == (
            f"node {low[0]} is at exchange {low[1]}, but node {high[0]} is at exchange {high[1]}: load states of the "
            "same step at all nodes"
        )


@pytest.mark.parametrize("make", [torch_node, jax_node])
def test_a_state_that_is_not_there_is_told_and_equal_ones_go_on(make):
    assert "node 0 is at exchange 3, but node 3 is at exchange 0" in str(run(make, {}, False, [3, 3, 3, 0])[3])
    assert run(make, {}, False, [3, 3, 3, 3]) == [None] * 4


def test_a_node_that_loads_a_state_amid_training_is_named():
    def one(links):
        step, gossip = torch_node(links, {}, False)
        for _ in range(EVERY):
            step()
        if links.node:
            gossip.load_state_dict(gossip.state_dict())
            with pytest.raises(InputError, match="node 1 has loaded a state at exchange 1, but node 0 has not"):
                step()
        else:
            for _ in range(EVERY - 1):
                step()
            with pytest.raises(WireError):
                step()

    ThreadLinks.run(2, one)


def test_a_corrupted_message_is_still_no_mistake_of_the_user():
    class Spoiled(ThreadLinks):
        def exchange(self, frames):
            sent = {other: frame[:-1] + bytes([frame[-1] ^ 1]) for other, frame in frames.items() if len(frame) > 24}
            return super().exchange(frames | sent)

    def one(links):
        links.__class__ = Spoiled
        step, _ = torch_node(links, {}, False)
        for _ in range(EVERY):
            step()

    with pytest.raises(WireError, match="the message is corrupted"):
        ThreadLinks.run(2, one)
