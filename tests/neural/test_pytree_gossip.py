"""Training pytrees with neighbours: the rule line by line, resumed runs, kinds of arrays, and mistakes."""

import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import slow_but

from lessbits.errors import InputError, WireError
from lessbits.networks import make_network
from lessbits.neural import Gossip, Rule, ThreadLinks, arithmetic
from lessbits.neural.layout import Layout
from lessbits.neural.quantizers import WeightQuantizer
from lessbits.training import pieces
from lessbits.training.partners import neighbours, turns

NODES, EVERY = 4, 3


def make_params(kind=jnp.float32):
    random = np.random.default_rng(0)
    made = {"in": {"w": random.normal(size=(5, 7)), "b": np.zeros(7)}, "out": [random.normal(size=(7, 3))]}
    return jax.tree.map(lambda array: jnp.asarray(array, kind), made)


@jax.jit
def descend(params, inputs, targets):
    def loss(params):
        hidden = jnp.tanh(inputs @ params["in"]["w"] + params["in"]["b"][None])
        return jnp.mean(jnp.square(hidden @ params["out"][0] - targets))

    return jax.tree.map(
        lambda value, slope: value - jnp.asarray(0.1, value.dtype) * slope, params, jax.grad(loss)(params)
    )


def train(params, node, steps, gossip=None, first=0):
    """Plain gradient steps on data that depend on the node and the step."""
    kind = jax.tree.leaves(params)[0].dtype
    for step in range(first, first + steps):
        random = np.random.default_rng([node, step])
        data = [jnp.asarray(random.normal(size=shape) + node, kind) for shape in ((8, 5), (8, 3))]
        params = descend(params, *data)
        if gossip is not None:
            params = gossip.step(params)
    return params


def flat(params):
    return np.asarray(Layout(params).gather(params))


def run_nodes(steps, rule, kind=jnp.float32, quantizer="block:1.0", network="ring"):
    def one(links):
        params = make_params(kind)
        gossip = Gossip(params, EVERY, quantizer, network, rule, links)
        return flat(train(params, links.node, steps, gossip)), gossip

    return ThreadLinks.run(NODES, one)


@pytest.mark.parametrize("in_turn", slow_but([True], [True, False]))
def test_the_rule_line_by_line(in_turn):
    rule = Rule(dual=0.2, rate=0.9, momentum=0.4, theta=0.8, turns=in_turn)
    network = make_network("ring", nodes=NODES)
    models = [make_params() for _ in range(NODES)]
    layout = Layout(models[0])
    made = WeightQuantizer("block:1.0", layout.sizes)
    dual, momentum = np.zeros((NODES, layout.size)), np.zeros((NODES, layout.size))
    memory = {(i, j): flat(models[0]) for i in range(NODES) for j in range(NODES)}
    for turn in range(5):
        old = np.stack([flat(model) for model in models])
        for node in range(NODES):
            for step in range(EVERY):
                models[node] = train(models[node], node, 1, first=turn * EVERY + step)
                added = flat(models[node]) + rule.dual / EVERY * dual[node]
                models[node] = layout.scatter(models[node], jnp.asarray(added, jnp.float32))
        x = np.stack([flat(model) for model in models])
        for node in range(NODES):
            for other in [turns(network, node)[turn % 2]] if in_turn else list(neighbours(network, node)):
                change = jnp.asarray(x[node] - memory[node, other])[None]
                memory[node, other] = (
                    memory[node, other] + np.asarray(made.send(change, jnp.zeros_like(change), None)[1])[0]
                )
        for node in range(NODES):
            if in_turn:
                other = turns(network, node)[turn % 2]
                pull = rule.theta / 2 * (memory[node, other] - memory[other, node])
            else:
                pull = rule.theta / 3 * sum(memory[node, j] - memory[j, node] for j in neighbours(network, node))
            dual[node] -= pull
            change = old[node] - (x[node] - pull)
            momentum[node] = rule.momentum * momentum[node] + change
            new = old[node] - rule.rate * (change + rule.momentum * momentum[node])
            models[node] = layout.scatter(models[node], jnp.asarray(new, jnp.float32))
    for node, (found, gossip) in enumerate(run_nodes(5 * EVERY, rule)):
        np.testing.assert_allclose(found, flat(models[node]), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(gossip.dual[0], dual[node], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("quantizer", slow_but(["block:1.0"], ["block:1.0", "block-dither:1.0", "block-top:512"]))
def test_nodes_come_together_and_send_fewer_bits(quantizer):
    coarse = quantizer.startswith("block-top")  # which needs a gentle rule
    rule = Rule(dual=0, momentum=0, theta=0.3) if coarse else Rule(theta=0.5)
    alone = np.stack([flat(train(make_params(), node, 60)) for node in range(NODES)])
    results = run_nodes(60, rule, quantizer=quantizer)
    together = np.stack([found for found, _ in results])
    assert np.linalg.norm(together.std(axis=0)) < (0.9 if coarse else 0.6) * np.linalg.norm(alone.std(axis=0))
    for found, gossip in results:
        assert gossip.exchanges == 20
        assert 0 < gossip.bits < 20 * 32 * found.size
        assert "20 exchanges" in gossip.report()


@pytest.mark.parametrize("in_turn", slow_but([True], [True, False]))
def test_vectors_that_are_moved_in_parts_are_the_same(in_turn, monkeypatch):
    whole, _ = run_nodes(7, Rule(turns=in_turn))[1]
    monkeypatch.setattr(arithmetic, "parts", partial(pieces.parts, most=13))
    in_parts, gossip = run_nodes(7, Rule(turns=in_turn))[1]
    assert len(list(arithmetic.parts(gossip.layout.size))) == 5
    np.testing.assert_array_equal(in_parts, whole)


def test_arrays_of_64_bits_are_rounded_to_32_at_exchanges_only():
    def one(links):
        params = make_params(jnp.float64)
        gossip = Gossip(params, EVERY, "block:1.0", "ring", Rule(dual=0.2), links)
        found = []
        for step in range(2 * EVERY):
            params = train(params, links.node, 1, gossip, first=step)
            leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
            assert {leaf.dtype for leaf in leaves} == {np.dtype(np.float64)}
            found.append(all((leaf == leaf.astype(np.float32)).all() for leaf in leaves))
        return found

    assert ThreadLinks.run(2, one) == [[False, False, True] * 2] * 2


@pytest.mark.parametrize(
    ("in_turn", "kind"), slow_but([(True, jnp.bfloat16)], [(True, jnp.bfloat16), (False, jnp.float32)])
)
def test_a_run_goes_on_from_its_state(in_turn, kind, tmp_path):
    rule = Rule(dual=0.2, momentum=0.3, turns=in_turn)
    whole = run_nodes(18, rule, kind)

    def first(links):
        params = make_params(kind)
        gossip = Gossip(params, EVERY, rule=rule, links=links)
        return train(params, links.node, 10, gossip), gossip.state_dict()  # in the middle of an interval

    saved = ThreadLinks.run(NODES, first)
    for node, (_, state) in enumerate(saved):
        np.savez(tmp_path / f"{node}.npz", **state["tensors"])

    def second(links):
        params, state = saved[links.node]
        gossip = Gossip(make_params(kind), EVERY, rule=rule, links=links)
        with np.load(tmp_path / f"{links.node}.npz") as arrays:  # nothing is unpickled
            gossip.load_state_dict(state | {"tensors": dict(arrays)})
        return flat(train(params, links.node, 8, gossip, first=10)), gossip

    for (found, after), (expected, before) in zip(ThreadLinks.run(NODES, second), whole, strict=True):
        np.testing.assert_array_equal(found, expected)
        assert (after.bits, after.exchanges, after.steps) == (before.bits, before.exchanges, before.steps)
    with pytest.raises(InputError, match=f"saved with every={EVERY}, but this Gossip has every={EVERY + 1}: "):
        Gossip(make_params(kind), EVERY + 1, rule=rule).load_state_dict(saved[0][1] | {"nodes": 1})


def test_arrays_of_16_bits_keep_what_they_cannot_hold_and_whole_numbers_stay():
    def one(links):
        params = {"w": jnp.full(4, 1, jnp.bfloat16), "steps": jnp.arange(3), "kind": 7}
        gossip = Gossip(params, 1, "block:0.1", rule=Rule(dual=0, momentum=0, theta=1.0), links=links)
        gossip.carry = gossip.carry + 1e-4 * links.node
        params = gossip.exchange(params)
        assert params["w"].dtype == jnp.bfloat16
        np.testing.assert_array_equal(params["steps"], [0, 1, 2])
        assert params["kind"] == 7
        return np.asarray(gossip.old[0])

    for found in ThreadLinks.run(2, one):
        np.testing.assert_allclose(found, 1 + 5e-5, rtol=0, atol=2e-6)


def mistake(change, nodes=1):
    def one(links):
        given = {"params": make_params(), "network": "complete", "links": links} | change(links.node)
        return Gossip(given.pop("params"), **given)

    with pytest.raises(InputError) as caught:
        ThreadLinks.run(nodes, one)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_mistakes_at_the_start_are_told_in_one_line():
    assert "every" in mistake(lambda node: {"every": 0})
    assert "block:1.0" in mistake(lambda node: {"quantizer": "dit-4"})
    assert "Rule" in mistake(lambda node: {"rule": 0.3})
    assert "nothing to train" in mistake(lambda node: {"params": {"count": jnp.arange(3)}})
    assert "are a generator without" in mistake(lambda node: {"params": (each for each in [jnp.ones(2)])})
    assert "are a function without" in mistake(lambda node: {"params": make_params})
    assert "are a dict without" in mistake(lambda node: {"params": {}})
    assert "jnp.asarray(0.5)" in mistake(lambda node: {"params": {"w": 0.5}})
    assert "real" in mistake(lambda node: {"params": jnp.ones(2, jnp.complex64)})
    assert "'w' has NaN" in mistake(lambda node: {"params": {"w": jnp.asarray([np.nan], jnp.float32)}})
    different = mistake(lambda node: {"params": {"w": jnp.ones(2 + node)}}, nodes=2)
    assert "nodes 0 and 1 have different models" in different
    assert "same seed" in mistake(lambda node: {"params": {"w": jnp.ones(2) * node}}, nodes=2)
    for own, other in (
        (np.arange(3), np.zeros(3, int)),
        (7, 8),
        (True, False),
        (jnp.ones(2, bool), jnp.zeros(2, bool)),
    ):
        told = mistake(lambda node, kept=(own, other): {"params": {"w": jnp.ones(2), "own": kept[node]}}, 2)
        assert "start from different numbers" in told
    assert "different settings" in mistake(lambda node: {"every": 2 + node}, nodes=2)


def test_arrays_of_numpy_that_jax_would_round_are_refused_at_the_start():
    with jax.enable_x64(False), pytest.raises(InputError, match=r"'a' is a NumPy array of float64, .*jnp\.asarray"):
        Gossip({"a": np.zeros(3)}, every=1)
    Gossip({"a": np.zeros(3)}, every=1)


def test_nodes_may_have_their_own_keys_and_functions():
    def one(links):
        params = {"w": jnp.ones(2), "key": jax.random.key(links.node), "do": lambda: 0, "kind": "a"}
        return Gossip(params, links=links).fixed

    assert ThreadLinks.run(2, one) == [b"", b""]


def test_changed_parameters_are_told_in_one_line():
    def tried(params):
        gossip = Gossip(make_params(), 1)
        with pytest.raises(InputError) as caught:
            gossip.step(params)
        return str(caught.value)

    params = make_params()
    assert "another structure" in tried({**params, "new": jnp.ones(1)})
    assert "'in.b' was float32[7]" in tried({**params, "in": {**params["in"], "b": jnp.ones(8, jnp.float32)}})
    assert "'in.b' was float32[7]" in tried({**params, "in": {**params["in"], "b": jnp.ones(7, jnp.float16)}})
    assert "'out.0' has NaN" in tried({**params, "out": [params["out"][0] * jnp.nan]})


def test_a_step_that_jax_traces_is_told_in_one_line():
    gossip = Gossip(make_params(), 2)
    for function in (gossip.step, gossip.exchange, lambda params: Gossip(params).old):
        with pytest.raises(InputError, match=r"outside of jax\.jit") as caught:
            jax.jit(function)(make_params())
        assert "\n" not in str(caught.value)
    assert gossip.steps == 0


def test_quantizers_by_layer_and_progress(capfd):
    def one(links):
        params = make_params()
        chosen = {"in.b": "exact", "out.*": "block:0.1:16", "*": "block-dither:1"}
        gossip = Gossip(params, 1, chosen, rule=Rule(dual=0, momentum=0, theta=1.0), links=links, progress=1)
        params["in"]["b"] = params["in"]["b"] + links.node
        params = gossip.exchange(params)
        np.testing.assert_array_equal(params["in"]["b"], np.full(7, 0.5))  # as exact messages tell it
        return gossip.quantizer.noisiest, gossip.state_dict()["settings"]

    for noisiest, settings in ThreadLinks.run(2, one):
        assert noisiest == "block-dither:1"
        assert "in.b→exact out.*→block:0.1:16 *→block-dither:1" in settings
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("lessbits: 0 steps, 1 exchange, ")
    told = mistake(lambda node: {"quantizer": {"body.*": "block:1", "*": "exact"}})
    assert "'body.*'" in told
    assert "'in.b'" in told


def test_links_may_be_any_object_with_node_nodes_and_exchange():
    def one(links):
        params = make_params()
        given = SimpleNamespace(node=links.node, nodes=links.nodes, exchange=links.exchange)
        gossip = Gossip(params, EVERY, links=given)
        params = train(params, links.node, EVERY, gossip)
        gossip.close()
        return gossip.exchanges

    assert ThreadLinks.run(2, one) == [1, 1]


def test_a_message_of_another_exchange_is_refused():
    def one(links):
        params = make_params()
        gossip = Gossip(params, EVERY, links=links)
        params = train(params, links.node, 1, gossip)
        gossip.exchanges += 2 * links.node
        train(params, links.node, EVERY - 1, gossip)

    with pytest.raises(WireError):
        ThreadLinks.run(2, one)


def test_neither_pytorch_nor_optax_is_loaded():
    code = "import sys, lessbits.neural; print([name for name in ('torch', 'optax') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_leaves_that_are_not_exchanged_stay_as_they_are():
    """Numbers that 32 bits do not hold, functions and texts, also in steps between exchanges."""
    kept = {"count": np.array([2**40 + 7]), "whole": 2**33, "act": jax.nn.relu, "name": "digits", "on": True}

    def one(links):
        params = {"weights": jnp.ones(2), **kept}
        gossip = Gossip(params, every=2, links=links, network="path")
        for _ in range(5):
            params = {**params, "weights": params["weights"] + links.node}
            params = gossip.step(params)
        return params

    for params in ThreadLinks.run(2, one):
        assert params["count"].dtype == np.int64
        assert {name: params[name] for name in kept} == kept
