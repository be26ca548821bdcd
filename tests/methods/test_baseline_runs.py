"""Whole runs of the competitors: they reach what their theory promises, count what they send, and compile once.

Tests share compiled programs: each method takes one quantizer and one batch size, on its own network.
"""

from dataclasses import replace
from itertools import pairwise

import jax
import numpy as np
import pytest
from baseline_reference import Oracle, ridge
from tiers import slow_but

from lessbits import (
    Consensus,
    Dgd,
    Logistic,
    load_samples,
    make_method,
    make_network,
    make_quantizer,
    simulate,
    split_samples,
)
from lessbits.methods.registry import all_methods

OURS = ("newton-tree", "twin-tree", "all-gather", "newton-gather", "proximal", "scheduled")  # have tests of their own
BASELINES = {kind.name: kind for kind in all_methods() if not kind.predictable and kind.name not in OURS}

NODES, DIM, SAMPLES, BATCH = 7, 5, 8, 4
RING, STAR = make_network("ring", NODES), make_network("star", NODES)
RIDGE = ridge(NODES, DIM, SAMPLES, regularization=0.1)


def logistic():
    """Benign and malignant tumours on different nodes."""
    samples = load_samples("breast-cancer").take(np.arange(70)).normalized_rows()
    return Logistic.from_samples(samples, split_samples(samples, NODES), samples.binary_labels(), 0.1)


PROBLEMS = {"ridge": RIDGE, "logistic": logistic()}
# Step sizes are the suggested ones, but where those are very small.
LINEAR = {
    "tree": {},
    "edge-dual": {"stepsizes": "practical"},
    "accelerated": {"stepsizes": "practical"},
    "extra": {},
    "gradient-tracking": {},
    "gradient-tracking-atc": {},
    "nids": {},
    "lead": {},
    "gt-svrg": {"eta": 0.1},
    "diana": {},
    "vr-diana": {"eta": 0.2},
    "dore": {},
    "ssda": {},
    "msda": {},
    "c-gt": {},
    "beer": {},
    "motef": {},
    "ef21": {},
    "scaffnew": {},
    "compressed-scaffnew": {},
    "locodl": {},
    "adiana": {},
    "opapc": {},
}
# With decreasing steps: option, step sizes, and by what the error may fall when a run is four times as long.
SUBLINEAR = {
    "dgd": ("B", {"eta": 1.5, "decay": 0.02}, (1 / 32, 1 / 8)),
    "d-sgd": ("C", {"eta": 0.7, "decay": 0.02}, (1 / 16, 1 / 2)),
    "choco": ("C", {"gamma": 0.4, "eta": 0.7, "decay": 0.02}, (1 / 16, 1 / 2)),
    "qdgd": ("B", {"epsilon": 0.3, "alpha": 0.3, "decay": 0.01}, (0.4, 0.75)),
}


def network_of(name):
    return STAR if BASELINES[name].needs_star else RING


def make(name, problem, option=None, **sizes):
    quantizer = "grid:2" if name == "tree" else "dit-2" if BASELINES[name].compresses else None
    return make_method(name, problem, network_of(name), quantizer, option=option, batch_size=BATCH, **sizes)


def slopes(errors):
    """Of the logarithm's first and second half, once the start is forgotten."""
    logarithm = np.log(errors)[len(errors) // 10 :]
    return [np.polyfit(np.arange(len(half)), half, 1)[0] for half in np.array_split(logarithm, 2)]


@pytest.mark.parametrize("name", slow_but(["tree", "edge-dual", "nids", "lead", "ef21", "opapc"], LINEAR))
@pytest.mark.parametrize("problem", slow_but(["ridge"], PROBLEMS))
def test_an_exact_method_goes_straight_to_the_solution_and_stays_there(name, problem):
    problem, network = PROBLEMS[problem], network_of(name)
    method = make(name, problem, **LINEAR[name])
    trace = simulate(problem, network, method, iterations=20_000, until=1e-16, record_every=2)
    assert trace.converged, trace.message
    first, second = slopes(trace["error"])
    assert first < 0
    assert 0.5 < second / first < (10 if name == "tree" else 2)  # which learns the curvature, and gets faster
    further = simulate(problem, network, method, iterations=2 * int(trace["iteration"][-1]) + 100)
    late = further["iteration"] > further["iteration"][-1] - 50
    assert further["error"][late].max() < 1e-24


@pytest.mark.parametrize(("quantizer", "gamma"), [("dit-2", 0.4), ("top-2", 0.25)])
def test_choco_gossip_goes_straight_to_the_average(quantizer, gamma):
    """With an unbiased quantizer, which is scaled down, and with a biased one."""
    problem = Consensus.random(NODES, DIM + 3)
    method = make_method("choco", problem, RING, quantizer, gamma=gamma)
    assert method.eta == 0
    trace = simulate(problem, RING, method, iterations=1000, until=1e-16)
    assert trace.converged, trace.message
    first, second = slopes(trace["error"])
    assert 0.5 < second / first < 2


def test_dgd_stops_at_its_known_bias_which_shrinks_with_the_step_size():
    oracle, mixing = Oracle(RIDGE), np.eye(NODES) - RING.laplacian().toarray()
    errors = []
    for eta in (0.5, 0.025, 0.0125):
        trace = simulate(RIDGE, RING, Dgd(eta), iterations=20_000)
        np.testing.assert_allclose(trace.x, oracle.bias(mixing, eta), rtol=0, atol=1e-10)
        errors.append(trace["error"][-1])
    assert errors[0] > 0.01
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.1)  # of order η², squared


@pytest.mark.parametrize("name", SUBLINEAR)
def test_with_decreasing_steps_a_biased_method_keeps_coming_closer(name):
    option, sizes, (most, least) = SUBLINEAR[name]
    method = make("dgd" if name == "d-sgd" else name, RIDGE, option, **sizes)
    error = simulate(RIDGE, RING, method, iterations=64_000, record_every=250)["error"]
    lengths = [len(error) // 16, len(error) // 4, len(error) - 1]
    levels = [error[length // 2 : length + 1].mean() for length in lengths]
    assert levels[0] < error[0] / 4
    for before, after in pairwise(levels):
        assert most < after / before < least


@pytest.fixture
def compilations():
    """Count the programs that XLA compiles."""
    counted = []

    def listen(event, seconds, **_):
        if "backend_compile" in event:
            counted.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    jax.jit(lambda x: x + 1)(0.0)
    assert counted  # the counter works
    yield counted
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("name", slow_but(["tree", "lead", "diana", "beer", "scaffnew"], BASELINES))
def test_other_step_sizes_and_seeds_compile_nothing(name, compilations):
    option, sizes, _ = SUBLINEAR.get(name, (None, LINEAR.get(name), None))
    method, network = make(name, RIDGE, option, **sizes), network_of(name)
    first = simulate(RIDGE, network, method, iterations=20)
    compilations.clear()
    smaller = {size: 0.9 * float(getattr(method, size)) for size in method.step_size_names}
    second = simulate(RIDGE, network, replace(method, **smaller), iterations=20, seed=1)
    assert not compilations
    assert np.abs(first.x - second.x).max() > 1e-6


NUMBERS, QUANTIZED = 32 * DIM, make_quantizer("dit-2", DIM).bits(DIM)
EVERYTHING, BATCHES = NODES * SAMPLES, NODES * 2 * BATCH
# Bits of an even and of an odd iteration, rounds of gradients in six, and sample gradients in six.
ACCOUNTS = {
    "dgd": (RING.links * NUMBERS, RING.links * NUMBERS, 6, 6 * EVERYTHING),
    "qdgd": (RING.links * QUANTIZED, RING.links * QUANTIZED, 6, 6 * EVERYTHING),
    "lead": (RING.links * QUANTIZED, RING.links * QUANTIZED, 6, 6 * EVERYTHING),
    "gradient-tracking": (RING.links * 2 * NUMBERS, RING.links * 2 * NUMBERS, 6, 6 * EVERYTHING),
    # The gradient before the first iteration, and one in each odd iteration.
    "gradient-tracking-atc": (RING.links * NUMBERS, RING.links * NUMBERS, 4, 4 * EVERYTHING),
    # Two batches in each iteration, and everything in each second.
    "gt-svrg": (RING.links * 2 * NUMBERS, RING.links * 2 * NUMBERS, 6, 6 * BATCHES + 3 * EVERYTHING),
    # The leaves send up, then the hub sends down.
    "diana": ((NODES - 1) * QUANTIZED, (NODES - 1) * NUMBERS, 3, 3 * EVERYTHING),
    "msda": (RING.links * NUMBERS, RING.links * NUMBERS, 3, 3 * EVERYTHING),
    "c-gt": (RING.links * 2 * QUANTIZED, RING.links * 2 * QUANTIZED, 6, 6 * EVERYTHING),
    # The gradient before the first iteration too.
    "beer": (RING.links * 2 * QUANTIZED, RING.links * 2 * QUANTIZED, 6, 7 * EVERYTHING),
    "ef21": ((NODES - 1) * QUANTIZED, (NODES - 1) * NUMBERS, 3, 3 * EVERYTHING),
    "dore": ((NODES - 1) * QUANTIZED, (NODES - 1) * QUANTIZED, 3, 3 * EVERYTHING),
    "opapc": (RING.links * NUMBERS, RING.links * NUMBERS, 3, 3 * EVERYTHING),
}


@pytest.mark.parametrize("name", ACCOUNTS)
def test_bits_and_gradients_are_counted_as_they_are_sent_and_taken(name):
    even, odd, rounds, gradients = ACCOUNTS[name]
    trace = simulate(RIDGE, network_of(name), make(name, RIDGE), iterations=6, record_every=1)
    np.testing.assert_allclose(np.diff(trace["total_bits"]), [even, odd] * 3)
    assert trace["gradient_rounds"][-1] == rounds
    assert trace["gradient_evaluations"][-1] == gradients


@pytest.mark.parametrize("stepsizes", slow_but(["theory"], ["theory", "practical"]))
@pytest.mark.parametrize("name", BASELINES)
def test_suggested_step_sizes_do_not_diverge(name, stepsizes):
    method = make(name, RIDGE, stepsizes=stepsizes)
    trace = simulate(RIDGE, network_of(name), method, iterations=2000, record_every=20)
    assert not trace.diverged
    # Methods with a bias may stop further away than they started, but not far away.
    assert trace["error"][20:].max() < (1 if name in LINEAR else 5) * trace["error"][0]


def test_suggested_step_sizes_of_gradient_tracking_do_not_diverge_on_a_complete_network():
    network = make_network("complete", NODES)
    method = make_method("gradient-tracking", RIDGE, network)
    assert not simulate(RIDGE, network, method, iterations=500).diverged


def test_every_method_is_held_to_a_promise():
    assert {*LINEAR, *SUBLINEAR} - {"d-sgd"} == set(BASELINES)
