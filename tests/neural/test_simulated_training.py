"""Training in simulation: the wire's models bit for bit, every method beside its parent, bytes, and mistakes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_problem import NODES, init, loss, make_problem
from tiers import slow_but

import lessbits.neural as neural
from lessbits.errors import InputError
from lessbits.networks import make_network
from lessbits.neural import METHODS, Gossip, NeuralProblem, Rule, SimulateOptions, ThreadLinks, simulate

PROBLEM, OPTIMIZER = make_problem(), optax.adam(0.01)
SHRINKING = neural.Shrinking(longest=6, steps=22, last=0.05)  # exchanges after steps 3, 9, 14, 17, 19, 21 and 22
ONE_BY_ONE = SimulateOptions(record=20, encoded=True, sequential=True)
BY_LAYER = {"bias": "exact", "out": "block-dither:0.5:16", "*": "block:1.0:tensor"}


@pytest.fixture(autouse=True)
def as_users():
    """Let optax promote types, which it needs."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def trained(method, steps=20, **named):
    options = SimulateOptions(**({"record": 10} | named))
    return simulate(PROBLEM, OPTIMIZER, method, steps=steps, seed=1, options=options)


def rows(trace):
    return np.concatenate([np.asarray(leaf).reshape(NODES, -1) for leaf in jax.tree.leaves(trace.models)], axis=1)


@jax.jit
def local_step(params, state, batch):
    updates, state = OPTIMIZER.update(jax.grad(PROBLEM.loss)(params, batch), state, params)
    return optax.apply_updates(params, updates), state


def over_links(links, rule, quantizer, network, seed=2**40 + 7, every=4):
    """Run the loop that a user would write, in a thread, which has settings of its own."""
    with jax.numpy_dtype_promotion("standard"):
        return user_loop(links, rule, quantizer, network, seed, every)


def user_loop(links, rule, quantizer, network, seed, every):
    params = PROBLEM.init(jax.random.key(seed))
    gossip = Gossip(params, every, quantizer, network, rule, links, seed)
    state = OPTIMIZER.init(params)
    for step in range(22):
        params, state = local_step(params, state, PROBLEM.draw(links.node, step, seed))
        params = gossip.step(params)
    return params, gossip.bits


@pytest.mark.parametrize(
    ("in_turn", "quantizer", "network", "every"),
    slow_but(
        [(True, BY_LAYER, "ring", SHRINKING)],
        [
            (True, BY_LAYER, "ring", SHRINKING),
            (True, "block:1.0", "ring", 4),
            (True, "block:1.0", "ring", SHRINKING),
            (False, "block:1.0", "star", 4),
            (False, "block:1.0", "star", SHRINKING),
            (True, "block-dither:0.5", "star", 4),
        ],
    ),
)
def test_what_is_simulated_runs_over_links_bit_for_bit(in_turn, quantizer, network, every):
    rule = Rule(dual=0.2, momentum=0.3, turns=in_turn, alone=3)
    kind = neural.GossipInTurn if in_turn else neural.GossipBroadcast
    method = kind(every=every, quantizer=quantizer, rule=rule)
    trace = simulate(PROBLEM, OPTIMIZER, method, network, steps=22, seed=2**40 + 7, options=ONE_BY_ONE)
    found = ThreadLinks.run(NODES, lambda links: over_links(links, rule, quantizer, network, every=every))
    for node, (params, _) in enumerate(found):
        for name, value in params.items():
            np.testing.assert_array_equal(value, trace.models[name][node])
    assert trace["bytes"][-1] == np.mean([bits / 8 for _, bits in found])
    assert trace["exchanges"][-1] == (4 if every == 4 else 7)


@pytest.mark.parametrize(
    ("quantizer", "alone"),
    slow_but([("block:3.25", 5)], [("block:3.25", 5), ("block:3.25", 0), ("block-dither:0.5", 0)]),
)
def test_sums_up_a_tree_run_over_links_bit_for_bit(quantizer, alone):
    rule = Rule(tree=True, rate=0.9, alone=alone)
    method = neural.TreeSums(every=4, quantizer=quantizer, rate=0.9, alone=alone)
    trace = simulate(PROBLEM, OPTIMIZER, method, "ring", steps=22, seed=2**40 + 7, options=ONE_BY_ONE)
    found = ThreadLinks.run(NODES, lambda links: over_links(links, rule, quantizer, "ring"))
    for node, (params, _) in enumerate(found):
        for name, value in params.items():
            np.testing.assert_array_equal(value, trace.models[name][node])
    assert trace["bytes"][-1] == np.mean([bits / 8 for _, bits in found])


@pytest.mark.parametrize("name", slow_but(["diloco"], METHODS))
def test_every_method_trains_and_counts(name):
    trace = trained(METHODS[name](**{} if name == "ddp" else {"every": 4}), steps=60)
    table = trace.to_pandas()
    assert table["step"].tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert trace["loss"][-1] < 0.8 * trace["loss"][0]
    same = name in ("tree", "ddp", "diloco", "sparseloco", "powersgd")  # all nodes have one model after an exchange
    assert (abs(trace["loss_worst"][-1] - trace["loss"][-1]) < 1e-5) == same
    assert (trace["disagreement"][-1] < 1e-5) == same
    assert (np.diff(trace["bytes"]) > 0).all() or name == "none"
    assert (trace["bytes"][-1] == 0) == (name == "none")
    assert not trace.diverged
    assert trace.bytes_until("loss", trace["loss"][-1]) <= trace["bytes"][-1]
    assert trace.bytes_until("accuracy", 1.1) is None
    assert trace.best("accuracy") == trace["accuracy"].max()


def close(one, other, tolerance=1e-4):
    np.testing.assert_allclose(rows(one), rows(other), rtol=0, atol=tolerance)


@pytest.mark.slow
def test_methods_with_neutral_settings_are_their_parents():
    plain = Rule(dual=0, momentum=0, rate=1, theta=0.8, turns=False)
    # After one exchange; later a last bit may move a number in the middle of two levels either way.
    choco, ours = neural.ChocoSgd(every=5, theta=0.8), neural.GossipBroadcast(every=5, rule=plain)
    close(trained(choco, steps=5), trained(ours, steps=5), 1e-6)
    close(trained(neural.Beer(every=5)), trained(neural.Motef(every=5, momentum=1.0)), 0)
    alone, lost = trained("none"), Rule(dual=0, momentum=0)
    close(trained(neural.GossipInTurn(every=5, rule=lost, failures=1.0)), alone)
    close(trained(neural.GossipEdges(every=5, rule=lost, failures=1.0)), alone)
    fine = neural.DiLoCo(every=5, quantizer="block:0.02", rate=0.9, momentum=0.5)
    whole = neural.PowerSgd(every=5, rank=8, rate=0.9, momentum=0.5)  # all matrices as they are
    close(trained(fine), trained(whole), 2e-2)
    edges = trained(neural.GossipEdges(every=5, quantizer="block:0.02", rule=Rule(turns=False)))
    close(edges, trained(neural.GossipBroadcast(every=5, quantizer="block:0.02", rule=Rule(turns=False))), 2e-2)


@pytest.mark.slow
def test_exact_averages_of_all_nodes_are_those_of_numpy():
    start = rows(trained("none", steps=0))
    alone = rows(trained("none", steps=5))
    mean = np.broadcast_to(alone.mean(axis=0), alone.shape)
    options = SimulateOptions(record=10)
    found = simulate(PROBLEM, OPTIMIZER, neural.DPsgd(every=5), "complete", steps=5, seed=1, options=options)
    np.testing.assert_allclose(rows(found), mean, rtol=0, atol=1e-5)
    outer = trained(neural.PowerSgd(every=5, rank=8, rate=0.5, momentum=0.4), steps=5)
    np.testing.assert_allclose(rows(outer), start - 0.5 * 1.4 * (start - mean), rtol=0, atol=1e-5)
    tracking = trained(neural.Motef(every=5, momentum=0.5, rate=1.5), steps=5)
    np.testing.assert_allclose(rows(tracking), start - 0.75 * (start - alone), rtol=0, atol=1e-5)
    kept = trained(neural.SparseLoCo(every=5, quantizer="block-top:4096", rate=0.5), steps=5)
    signs = np.sign(start - alone)
    leaves = np.split(np.abs(start - alone), [8, 56], axis=1)  # each array has its own mean magnitude
    sizes = np.concatenate([np.broadcast_to(part.mean(axis=1, keepdims=True), part.shape) for part in leaves], axis=1)
    np.testing.assert_allclose(rows(kept), start - 0.5 * (signs * sizes).mean(axis=0), rtol=0, atol=2e-3)


@pytest.mark.slow
def test_a_low_rank_keeps_what_it_does_not_send():
    low = trained(neural.PowerSgd(every=5, rank=1, momentum=0), steps=5)
    full = trained(neural.PowerSgd(every=5, rank=8, momentum=0), steps=5)
    change = rows(trained("none", steps=0))[0] - rows(low)[0]
    assert np.linalg.matrix_rank(change[8:56].reshape(6, 8), tol=1e-4) == 1
    assert low["bytes"][-1] == 4 * 1.5 * (8 + (6 + 8) + (8 + 3))
    assert full["bytes"][-1] == 4 * 1.5 * 80


@pytest.mark.slow
def test_averaged_gradients_are_one_large_batch():
    params = PROBLEM.init(jax.random.key(1))
    state = OPTIMIZER.init(params)
    for step in range(3):
        parts = [PROBLEM.draw(node, step, seed=1) for node in range(NODES)]
        batch = jax.tree.map(lambda *each: jnp.concatenate(each), *parts)
        params, state = local_step(params, state, batch)
    found = trained("ddp", steps=3)
    for name, value in params.items():
        np.testing.assert_allclose(found.models[name][2], value, rtol=0, atol=1e-4)
    assert found["bytes"][-1] == 3 * 4 * 1.5 * 80
    assert found["disagreement"][-1] < 1e-5


@pytest.mark.slow
def test_bytes_of_quantizers_by_layer_are_counted_and_progress_is_told(capsys):
    method = neural.GossipInTurn(every=5, quantizer=BY_LAYER)
    counted, encoded = trained(method, progress=2), trained(method, encoded=True)
    assert abs(counted["bytes"][-1] - encoded["bytes"][-1]) <= 2 * 8 * 4  # two messages of three pieces
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith("lessbits: 10 steps, 2 exchanges, ")
    assert not rest
    assert ", loss " in first


@pytest.mark.slow
def test_bytes_by_count_are_close_to_encoded_ones_and_runs_are_repeated():
    counted, encoded = trained("in-turn", steps=60), trained("in-turn", steps=60, encoded=True)
    close(counted, encoded, 0)
    exchanges = counted["exchanges"][-1]
    assert abs(counted["bytes"][-1] - encoded["bytes"][-1]) <= 8 * exchanges
    close(trained("in-turn", sequential=True), trained("in-turn"), 0.1)


@pytest.mark.slow
def test_failing_links_still_bring_nodes_together():
    apart = trained("none", steps=60)["disagreement"][-1]
    for kind in (neural.GossipInTurn, neural.GossipEdges):
        trace = trained(kind(every=4, failures=0.3, rule=Rule(theta=0.5)), steps=60)
        assert trace["disagreement"][-1] < 0.6 * apart


def test_a_run_that_diverges_ends():
    trace = simulate(PROBLEM, optax.sgd(1e38), "in-turn", steps=100, options=SimulateOptions(record=10))
    assert trace.diverged
    assert len(trace) < 11
    assert "diverged" in repr(trace)


def test_mistakes_are_told_in_one_line():
    def told(function):
        with pytest.raises(InputError) as caught:
            function()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    data, shards = PROBLEM.data, PROBLEM.shards
    assert "method" in told(lambda: simulate(PROBLEM, OPTIMIZER, "sgd"))
    assert "optax" in told(lambda: simulate(PROBLEM, 0.1))
    assert "NeuralProblem" in told(lambda: simulate(3, OPTIMIZER))
    assert "network" in told(lambda: simulate(PROBLEM, OPTIMIZER, network=7))
    assert "block" in told(lambda: simulate(PROBLEM, OPTIMIZER, neural.DiLoCo(quantizer="dit-4")))
    assert "'hid'" in told(
        lambda: simulate(PROBLEM, OPTIMIZER, neural.DiLoCo(quantizer={"hid": "exact", "*": "block:1"}))
    )
    assert "rule=Rule(alone" in told(lambda: neural.GossipInTurn(alone=3))
    assert r"every(0) is 0" in told(lambda: neural.DiLoCo(every=lambda step: 0))
    assert "every is 0" in told(lambda: neural.GossipInTurn(every=0))
    assert "failures" in told(lambda: neural.GossipEdges(failures=2))
    assert "rows outside" in told(lambda: NeuralProblem(init, loss, data, [np.array([0, 300])]))
    assert "count the samples" in told(lambda: NeuralProblem(init, loss, (data[0], data[1][:7]), shards))
    assert "at least one" in told(lambda: NeuralProblem(init, loss, data, [np.array([], int)]))
    doubles = NeuralProblem(lambda key: {"w": jnp.zeros(3, jnp.float64)}, loss, data, shards)
    assert "float32" in told(lambda: simulate(doubles, OPTIMIZER))
    assert "8 nodes, but the samples are split for 4" in told(
        lambda: simulate(PROBLEM, OPTIMIZER, network=make_network("ring", nodes=8))
    )


def samples(params, batch):
    return jnp.float32(0)


def made(**given):
    return NeuralProblem(init, loss, PROBLEM.data, **{"shards": PROBLEM.shards, "metrics": {}} | given)


# What is called, the name of an argument, and values that it must not have.
BAD = [
    (
        made,
        "shards",
        [3, ["ab"], "ab", [[0.5, 1.5]], [np.array([0.0, 1.0])], [[-1]], [[300]], [[[0, 1]]], [None], [], None],
    ),
    (made, "metrics", [3, [3], [len], None, {"a": 3}, {"a": None}, {"": len}, {3: len}, {"a": samples}]),
    (made, "metrics", [{name: len} for name in ("step", "exchanges", "bytes", "disagreement", "seconds")]),
    (made, "metrics", [{"a": len, "a_worst": len}]),
    (neural.Metric, "function", ["x", None, samples]),
    (partial(neural.Metric, len), "larger", [3, "yes", None]),
    (partial(neural.Metric, lambda params: 0), "data", [PROBLEM.data]),
    (neural.PowerSgd, "rank", [0, -1, 1.5, "x", None, True]),
    (neural.Ddp, "every", [3, "x"]),
    (neural.Ddp, "alone", [1]),
    (partial(simulate, PROBLEM, OPTIMIZER, steps=1), "options", [3, {}, "x", SimulateOptions]),
    (partial(simulate, PROBLEM, OPTIMIZER, steps=1), "method", [neural.GossipInTurn, METHODS, None, 3]),
    (partial(PROBLEM.draw, step=0), "node", [4, -1, 1.5, None, 9]),
    (partial(PROBLEM.draw, 0), "step", [-1, 0.5, "x", 2**31]),
    (partial(PROBLEM.draw, 0, 0), "seed", [-1, "x"]),
]


@pytest.mark.parametrize(("call", "name", "value"), [(*call, each) for *call, wrong in BAD for each in wrong])
def test_wrong_values_are_told_in_one_line(call, name, value):
    with pytest.raises(InputError) as caught:
        call(**{name: value})
    assert "\n" not in str(caught.value)
    assert str(caught.value)[0].islower()


def test_what_to_write_is_said():
    with pytest.raises(InputError, match=r"write GossipInTurn\(\)"):
        simulate(PROBLEM, OPTIMIZER, neural.GossipInTurn)
    with pytest.raises(InputError, match=r"Metric\(function, data\)"):
        made(metrics={"a": samples})
    with pytest.raises(InputError, match=r"write lessbits.neural.TreeSums"):
        neural.GossipBroadcast(rule=Rule(tree=True))
    with pytest.raises(InputError, match=r"write lessbits.neural.GossipBroadcast"):
        neural.GossipInTurn(rule=Rule(turns=False))


def test_a_run_without_an_exchange_is_warned_of(caplog):
    trained(neural.DPsgd(every=500), steps=2)
    assert "no exchange took place in 2 steps" in caplog.text
    caplog.clear()
    trained(neural.DPsgd(every=2), steps=2)
    trained("none", steps=2)
    trained("ddp", steps=2)
    assert caplog.text == ""
