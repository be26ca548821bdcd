"""States that are damaged, or of another run: one line at the door, in both libraries."""

import copy
import re

import numpy as np
import pytest

from lessbits.errors import InputError


def torch_gossip(**settings):
    """Return a Gossip of PyTorch that exchanges with nobody, and what makes a tensor of an array."""
    torch = pytest.importorskip("torch")
    from lessbits.torch import Gossip

    return Gossip(torch.nn.Linear(3, 2), **settings), torch.from_numpy


def jax_gossip(**settings):
    """The same with JAX, whose states have arrays of NumPy."""
    jnp = pytest.importorskip("jax.numpy")
    from lessbits.neural import Gossip

    return Gossip({"weight": jnp.ones((2, 4), jnp.float32)}, **settings), np.asarray


def counts(**changed):
    return lambda state, _: state["counts"].update(changed)


def missing(name):
    return lambda state, _: state["counts"].pop(name)


def tensor(array):
    return lambda state, make: state["tensors"].update(old=make(array) if isinstance(array, np.ndarray) else array)


HOLED = np.array([0, np.nan, 0, 0, 0, 0, 0, 0], np.float32)
DAMAGE = [
    (lambda state, _: state.update(counts={}), "steps of the state is None, but it must be a whole number"),
    (missing("bits"), "bits of the state is None"),
    (counts(steps="a"), "steps of the state is 'a', but it must be a whole number"),
    (counts(exchanges=-1), "exchanges of the state is -1"),
    (counts(steps=1.5), "steps of the state is 1.5"),
    (tensor(np.zeros(7, np.float32)), "'old' of the state is float32[7], but it must be float32[8]"),
    (tensor(np.zeros((2, 4), np.float32)), "'old' of the state is float32[2, 4], but it must be float32[8]"),
    (tensor(np.zeros(8, np.float64)), "'old' of the state is float64[8], but it must be float32[8]"),
    (tensor([0.0] * 8), "'old' of the state is list, but it must be float32[8]"),
    (tensor(None), "'old' of the state is NoneType, but it must be float32[8]"),
    (tensor(HOLED), "'old' of the state has NaN or infinite numbers"),
    (tensor(np.where(np.isnan(HOLED), -np.inf, HOLED)), "'old' of the state has NaN or infinite numbers"),
]


@pytest.mark.parametrize("make", [torch_gossip, jax_gossip])
@pytest.mark.parametrize(("damage", "words"), DAMAGE)
def test_a_damaged_state_is_told_in_one_line_and_nothing_is_loaded(make, damage, words):
    gossip, made = make()
    state = copy.deepcopy(gossip.state_dict() | {"counts": {"steps": 7, "exchanges": 1, "bits": 800, "waits": False}})
    damage(state, made)
    with pytest.raises(InputError, match=f"^{re.escape(words)}"):
        gossip.load_state_dict(state)
    assert (gossip.steps, gossip.exchanges) == (0, 0)


@pytest.mark.parametrize("make", [torch_gossip, jax_gossip])
def test_a_state_of_another_run_is_told_by_what_differs(make):
    gossip, _ = make(every=10, seed=3)
    state = gossip.state_dict()
    for changed, words in [
        ({"every": 20, "seed": 3}, "saved with every=10, but this Gossip has every=20: give the same settings"),
        ({"every": 10, "seed": 3, "overlap": True}, "saved with overlap=False, but this Gossip has overlap=True: give"),
        ({"every": 10}, "saved with seed=3, but this Gossip has seed=0: give"),
    ]:
        with pytest.raises(InputError, match=f"^the state was {words}"):
            make(**changed)[0].load_state_dict(state)
    with pytest.raises(InputError, match=r"^the state is of a run with 4 nodes, but this one has 1: start as many$"):
        make()[0].load_state_dict(state | {"nodes": 4})  # which comes first
    with pytest.raises(InputError, match=r"^the state is of another model: names, shapes"):
        gossip.load_state_dict(state | {"layout": "a"})
    del state["nodes"]  # as in states of earlier versions
    gossip.load_state_dict(state)


@pytest.mark.parametrize("make", [torch_gossip, jax_gossip])
def test_a_whole_state_is_loaded(make):
    gossip, _ = make()
    gossip.load_state_dict(gossip.state_dict() | {"counts": {"steps": 7, "exchanges": 1, "bits": 800}})
    assert (gossip.steps, gossip.exchanges) == (7, 1)
