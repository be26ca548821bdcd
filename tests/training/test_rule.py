"""The numbers of the gossip rule: chosen for a network and a quantizer, and stable where the model says so."""

import logging

import jax.numpy as jnp
import numpy as np
import pytest

from lessbits._internal.blocks import BLOCK
from lessbits._internal.randomness import Step, make_seed, message_draws
from lessbits.errors import InputError
from lessbits.networks import make_network
from lessbits.neural.quantizers import WeightQuantizer
from lessbits.theory.intervals import IntervalSizes, Messages, disagreement, growth
from lessbits.training.noise import noise_of
from lessbits.training.rule import Rule
from lessbits.training.stability import choose_rule, predicted_growth

NETWORKS = [("path", 2), ("ring", 8), ("random-regular:3", 10), ("complete", 6), ("star", 6), ("hypercube", 8)]
QUANTIZERS = ["exact", "block:1", "block:1.5", "block:2.5", "block-dither:1", "block-top:512"]


UNIT = np.eye(8)
RING = [(UNIT - UNIT[[1, 0, 3, 2, 5, 4, 7, 6]]) / 2, (UNIT - UNIT[[7, 2, 1, 4, 3, 6, 5, 0]]) / 2]  # in turn


@pytest.mark.parametrize("quantizer", QUANTIZERS[1:])
def test_the_noise_is_that_of_the_quantizer(quantizer):
    vectors = jnp.asarray(np.random.default_rng(0).standard_normal((4, BLOCK)).astype(np.float32))
    draws = message_draws(Step(make_seed(0), jnp.int32(0)), jnp.arange(4, dtype=jnp.uint32), per_link=False)
    decoded = WeightQuantizer(quantizer, [BLOCK]).send(vectors, jnp.zeros_like(vectors), draws)[1]
    assert float(jnp.square(decoded - vectors).mean()) == pytest.approx(noise_of(quantizer), rel=0.05)


@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.parametrize("turns", [True, False])
@pytest.mark.parametrize(("name", "nodes"), NETWORKS)
def test_chosen_numbers_are_stable_on_every_network(name, nodes, turns, quantizer):
    network = make_network(name, nodes=nodes)
    rule = Rule(turns=turns).chosen(network, noise_of(quantizer))
    assert predicted_growth(rule, network, quantizer) < 1


# θ, w, r, μ, δ of runs with a memory per link on a ring of 8 in benchmarks/neural/results.jsonl: (ended early, or not)
DIVERGED = [(1, 0.1, 1, 0.5, 0.231), (1, 0.2, 1, 0.3, 0.231), (0.5, 0.1, 1, 0.3, 0.551), (0.3, 0.05, 1, 0.3, 0.744)]
TRAINED = [(1, 0.15, 1, 0.3, 0.231), (0.8, 0.1, 1, 0.3, 0.334), (0.7, 0.1, 1, 0.3, 0.391), (1, 0.2, 0.7, 0.5, 0.158)]


@pytest.mark.parametrize("sizes", DIVERGED + TRAINED)
def test_the_model_tells_which_runs_diverged(sizes):
    theta, dual, rate, momentum, error = sizes
    found = growth(RING, IntervalSizes(theta, dual, rate, momentum), Messages.fitted(error))
    assert (found > 1) == (sizes in DIVERGED)


def simulated(pulls, sizes, messages, exchanges, dim=2000, seed=0):
    """The lines of the rule in plain NumPy, with normal noise; return the mean square disagreement of each exchange."""
    random, nodes = np.random.default_rng(seed), len(pulls[0])
    x = random.standard_normal((nodes, dim))
    x -= x.mean(0)
    dual, momentum, memories, found = np.zeros_like(x), np.zeros_like(x), [np.zeros_like(x) for _ in pulls], []
    for exchange in range(exchanges):
        old, number = x, exchange % len(pulls)
        x = x + sizes.dual * dual
        gap = x - memories[number]
        rms = np.sqrt(np.square(gap).mean(1, keepdims=True))
        memories[number] = (
            memories[number] + messages.kept * gap + np.sqrt(messages.noise) * rms * random.standard_normal(x.shape)
        )
        c = sizes.theta * pulls[number] @ memories[number]
        dual = dual - c
        change = old - (x - c)
        momentum = sizes.momentum * momentum + change
        x = old - sizes.rate * (change + sizes.momentum * momentum)
        found.append(np.square(x - x.mean(0)).mean())
    return np.array(found)


@pytest.mark.parametrize("sizes", [DIVERGED[0], DIVERGED[2], TRAINED[1], TRAINED[3]])
def test_growth_is_that_of_the_simulated_model(sizes):
    theta, dual, rate, momentum, error = sizes
    arguments = IntervalSizes(theta, dual, rate, momentum), Messages.fitted(error)
    found = simulated(RING, *arguments, exchanges=80)
    slope = np.polyfit(np.arange(40), np.log(found[40:]), 1)[0]
    assert np.exp(slope) == pytest.approx(growth(RING, *arguments), abs=0.03)


def test_a_dual_cancels_drift_that_lasts_and_amplifies_what_does_not():
    def distance(dual, persistence):
        return disagreement(RING, IntervalSizes(0.65, dual, 1.0, 0.3), Messages.fitted(0.158), persistence)

    assert distance(0.1, 40) < 0.7 * distance(0.0, 40)
    assert distance(0.2, 2) > 1.2 * distance(0.0, 2)
    assert distance(1.0, 40) == np.inf


def test_given_numbers_stay_and_open_ones_follow_the_momentum():
    ring = make_network("ring", nodes=8)
    assert Rule(dual=0.05, theta=0.7).chosen(ring, 0.2).numbers == (0.05, 1.0, 0.3, 0.7, 0.3)
    assert Rule(momentum=0.0).chosen(ring, 0.0).theta == 1.0
    assert Rule(momentum=0.5).chosen(ring, 0.1).theta == pytest.approx(0.654)
    star = make_network("star", nodes=9)
    assert Rule().chosen(star, 0.1).numbers.dual < 0.1 * Rule().chosen(ring, 0.1).numbers.dual  # leaves speak once in 8


def test_numbers_that_are_predicted_to_diverge_are_told(caplog):
    ring = make_network("ring", nodes=8)
    with caplog.at_level(logging.WARNING):
        choose_rule(Rule(dual=1.0), ring, "block:1.5")
        assert "drift apart" in caplog.text
        assert "leave out dual and theta, which would be 0.104 and 0.734" in caplog.text
        caplog.clear()
        choose_rule(Rule(dual=0.1, theta=0.8), ring, "block:1.5")
        choose_rule(Rule(dual=1.0), ring, "block:1.5", node=3)  # one node tells
        assert not caplog.text


@pytest.mark.parametrize(
    ("quantizer", "rule", "finer"),
    [
        ("block-top:8", Rule(), "take block-top:16 or finer ones"),
        ("block-dither:2", Rule(), "take block-dither:1.5 or finer ones"),
        ("block-dither:2:1024", Rule(), "take block-dither:1.5:1024 or finer ones"),
        ("block-top:2:1024", Rule(), "take block-top:4:1024 or finer ones"),
        ("block-dither:2:tensor", Rule(), "take block-dither:1.5:tensor or finer ones"),
        ("block-dither:1.5", Rule(turns=False), "take block-dither:1 or finer ones"),
        ("block-dither:2", Rule(dual=0.1), "take block-dither:1.5 or finer ones and leave out dual and theta"),
        (
            "exact",
            Rule(rate=0.05, dual=0.15, momentum=0.999),
            "take less momentum, or a rate nearer to 1, and leave out",
        ),
    ],
)
def test_messages_that_are_too_coarse_are_told_with_finer_ones(caplog, quantizer, rule, finer):
    with caplog.at_level(logging.WARNING):
        choose_rule(rule, make_network("ring", nodes=4), quantizer)
    assert "drift apart" in caplog.text
    assert finer in caplog.text
    assert "which would be" not in caplog.text  # no number that was chosen is advised


def test_mistakes_get_one_line():
    with pytest.raises(InputError, match="open"):
        _ = Rule().numbers
    with pytest.raises(InputError, match="not known"):
        noise_of("dithering:4")


# What a rule must not have.
WRONG = {
    "rate": [None, 0, 0.0, -1, 11, "1", True, float("nan")],
    "dual": [-0.1, 2, "x", [0.1]],
    "momentum": [1, -1, "x"],
    "theta": [-1, 3, "x"],
    "turns": [None, 1, "yes"],
    "tree": [None, 0],
    "alone": [None, -1, 0.5, "x"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_wrong_numbers_are_told_in_one_line(name, value):
    with pytest.raises(InputError, match=rf"^{name} is .* must be") as caught:
        Rule(**{name: value})
    assert "\n" not in str(caught.value)


def test_open_numbers_may_be_none():
    assert Rule(dual=None, momentum=None, theta=None) == Rule()
