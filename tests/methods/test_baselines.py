"""The competitors: against plain NumPy versions of what was published, their parents, and their invariants."""

from dataclasses import replace
from functools import cache
from itertools import islice

import baseline_reference as reference
import numpy as np
import pytest
import rival_reference as rivals
from baseline_reference import Oracle, quantize_with, ridge, states_of
from tiers import slow_but

from lessbits import (
    Accelerated,
    Beer,
    Choco,
    CompressedScaffnew,
    CompressedTracking,
    Consensus,
    Dgd,
    Diana,
    Ef21,
    Exact,
    Gradients,
    GradientTracking,
    GtSvrg,
    Lead,
    Motef,
    Msda,
    Nids,
    Opapc,
    PrimalDual,
    Scaffnew,
    Ssda,
    Start,
    VrDiana,
    make_method,
    make_network,
    make_quantizer,
)
from lessbits.methods.registry import all_methods

# These have tests of their own.
OURS = ("primal-dual", "edge-dual", "newton-tree", "twin-tree", "all-gather", "newton-gather", "proximal", "scheduled")
BASELINES = {kind.name: kind for kind in all_methods() if kind.name not in OURS}

NODES, DIM, SAMPLES, BATCH, SEED, EXCHANGES = 7, 5, 8, 2, 4, 24
PROBLEM = ridge(NODES, DIM, SAMPLES, regularization=0.1)
CONSENSUS = Consensus.random(NODES, DIM)
NETWORKS = {name: make_network(name, NODES) for name in ("ring", "star")}
POINT, MEMORY = np.random.default_rng(3).normal(size=(2, NODES, DIM))

SIZES = {
    "tree": {"eta": 0.3},
    "accelerated": {"theta": 0.3, "eta": 0.4, "momentum": 0.6},
    "dgd": {"eta": 0.5, "decay": 0.1},
    "qdgd": {"epsilon": 0.3, "alpha": 0.2, "decay": 0.05},
    "choco": {"gamma": 0.6, "eta": 0.3, "decay": 0.02},
    "extra": {"eta": 0.3},
    "gradient-tracking": {"eta": 0.1},
    "gradient-tracking-atc": {"eta": 0.1},
    "nids": {"eta": 0.4},
    "lead": {"gamma": 0.7, "eta": 0.4},
    "gt-svrg": {"eta": 0.1},
    "diana": {"eta": 0.3},
    "vr-diana": {"eta": 0.1},
    "dore": {"eta": 0.3, "gamma": 0.7, "epsilon": 0.4},
    "ssda": {"theta": 0.1, "momentum": 0.5},
    "msda": {"theta": 0.15, "momentum": 0.4},
    "c-gt": {"gamma": 0.5, "eta": 0.1},
    "beer": {"gamma": 0.4, "eta": 0.1},
    "motef": {"gamma": 0.4, "eta": 0.1, "momentum": 0.6},
    "ef21": {"eta": 0.3},
    "scaffnew": {"eta": 0.3, "probability": 0.3},
    "compressed-scaffnew": {"eta": 0.3, "probability": 0.3, "gamma": 0.5},
    "locodl": {"eta": 0.3, "probability": 0.3, "gamma": 0.8},
    "adiana": {"eta": 0.3, "probability": 0.4},
    "opapc": {"theta": 0.3, "eta": 0.4, "momentum": 0.6},
}
REMEMBER = ("choco", "lead", "accelerated", "c-gt", "beer", "motef")  # a memory that a run may start from
# Every method with whole gradients and with stochastic ones, every compressed one exact and quantized.
RUNS = [
    *((name, "exact", kind.options[0]) for name, kind in BASELINES.items() if kind.options[0] in "AB"),
    *((name, "dit-2", "B") for name in ("accelerated", "qdgd", "choco", "lead", "diana")),
    *((name, "dit-2", "B") for name in ("c-gt", "beer", "motef", "ef21", "locodl", "adiana", "dore")),
    *((name, "top-2", "B") for name in ("beer", "ef21")),
    ("tree", "grid:3", "B"),
    ("tree", "scaled-dit-2", "C"),
    ("tree", "grid:3", "D"),
    *((name, "exact", "C") for name in ("dgd", "gradient-tracking", "nids")),
    *((name, "dit-2", "C") for name in ("choco", "diana", "motef")),
    *((name, "exact", "D") for name in ("extra", "gradient-tracking-atc", "gt-svrg")),
    *((name, "dit-2", "D") for name in ("accelerated", "qdgd", "lead", "vr-diana", "c-gt", "beer")),
]

# One run of each method with option B or A, compressed where it can be.
COMPRESSED = [run for run in RUNS if run[1] != "exact" and run[2] == "B"]
QUICK = [*COMPRESSED, *(run for run in RUNS if run[2] in "AB" and run[0] not in {name for name, *_ in COMPRESSED})]


def network_of(name):
    return NETWORKS["star" if BASELINES[name].needs_star else "ring"]


def start_of(name):
    """Nodes with a server, and those of a tree, start at one point."""
    return np.tile(POINT[0], (NODES, 1)) if BASELINES[name].needs_star or name == "tree" else POINT


@cache
def run(name, quantizer, option):
    """The method, and its states after each exchange."""
    scaled = quantizer != "exact" and name != "qdgd" and "alpha" in BASELINES[name].step_size_names
    sizes = {**SIZES[name], "alpha": 0.4} if scaled else SIZES[name]
    method = make_method(name, PROBLEM, network_of(name), quantizer, option=option, batch_size=BATCH, **sizes)
    start = Start(start_of(name), h=MEMORY)
    return method, list(states_of(method, PROBLEM, network_of(name), EXCHANGES, start, SEED))


@pytest.mark.parametrize(("name", "quantizer", "option"), slow_but(QUICK, RUNS))
def test_a_method_is_what_was_published(name, quantizer, option):
    method, states = run(name, quantizer, option)
    start = start_of(name)
    oracle = Oracle(PROBLEM, option, BATCH, SEED, start, getattr(method, "inner", None))
    settings = dict(SIZES[name])
    if quantizer != "exact":
        settings |= {"quantize": quantize_with(method.quantizer, SEED)}
        settings |= {"alpha": method.alpha} if hasattr(method, "alpha") else {}
        settings |= {"public": MEMORY} if name in REMEMBER else {}
    for fact in ("convexity", "rounds", "copies", "spread"):  # what a method knows besides its step sizes
        settings |= {fact: getattr(method, fact)} if hasattr(method, fact) else {}
    if name == "tree":
        settings |= {"parent": np.asarray(method.parent), "learns": option == "B"}
    written = {"gt-svrg": "gradient_tracking", "vr-diana": "diana", "motef": "beer"}.get(name, name.replace("-", "_"))
    published = getattr(reference, written, None) or getattr(rivals, written)
    expected = published(network_of(name).laplacian().toarray(), oracle, start, **settings)
    found = np.stack([state.x for state in states])
    np.testing.assert_allclose(found, list(islice(expected, EXCHANGES)), rtol=0, atol=1e-10)
    assert np.abs(found[-1] - start).max() > 0.1  # something happened


def test_every_method_is_compared_with_what_was_published():
    assert {name for name, _, _ in RUNS} == set(BASELINES) == set(SIZES)


@pytest.mark.parametrize("rounds", [1, 3, 4])
def test_msda_gossips_as_often_as_it_is_told(rounds):
    ring, oracle = NETWORKS["ring"], Oracle(PROBLEM)
    method = Msda(0.1, 0.3, ring.lambda_min / ring.lambda_max, ring.lambda_max, rounds)
    expected = reference.msda(ring.laplacian().toarray(), oracle, POINT, 0.1, 0.3, rounds)
    found = [state.x for state in states_of(method, PROBLEM, ring, 13)]
    np.testing.assert_allclose(found, list(islice(expected, 13)), rtol=0, atol=1e-10)


def shortened(method):
    """θ of SSDA for an MSDA with one exchange a gradient, whose polynomial is P_1(W) = c₃W."""
    return method.theta * 2 / ((1 + method.eigengap) * method.lambda_max)


RING = NETWORKS["ring"]
ONE_ROUND = Msda(0.1, 0.3, RING.lambda_min / RING.lambda_max, RING.lambda_max, 1)
SAMPLED, DIT = Gradients("D"), make_quantizer("dit-2", DIM)
PARENTS = {
    "choco with exact messages and γ = 1 is dgd": (Choco(1.0, 0.3, 1.0, Exact(), 0.1), Dgd(0.3, 0.1), PROBLEM),
    "lead with exact messages and γ = 1 is nids": (Lead(1.0, 0.4, 1.0, Exact()), Nids(0.4), PROBLEM),
    "accelerated without momentum is lead": (
        Accelerated(0.7 / 0.8, 0.4, 0.5, 0.0, DIT, 0.1),
        Lead(0.7, 0.4, 0.5, DIT),
        PROBLEM,
    ),
    "ssda without momentum is exact option A": (
        Ssda(0.1, 0.0),
        PrimalDual.make(Exact(), 0.1, 1.0, dim=DIM, option="A"),
        PROBLEM,
    ),
    "msda with one exchange a gradient is ssda": (ONE_ROUND, Ssda(shortened(ONE_ROUND), 0.3), PROBLEM),
    "gt-svrg with one sample a node is gradient tracking": (GtSvrg(0.2, SAMPLED, 3), GradientTracking(0.2), CONSENSUS),
    "c-gt with exact messages and γ = 1 is gradient tracking": (
        CompressedTracking(1.0, 0.1, 1.0, Exact()),
        GradientTracking(0.1),
        PROBLEM,
    ),
    "motef without momentum is beer": (Motef(0.4, 0.1, 0.4, DIT), Beer(0.4, 0.1, 0.4, DIT), PROBLEM),
    "compressed-scaffnew with all coordinates is scaffnew": (
        CompressedScaffnew(0.3, 0.4, nodes=NODES, dim=DIM, copies=NODES),
        Scaffnew(0.3, 0.4),
        PROBLEM,
    ),
    "opapc with one exchange a gradient is accelerated": (
        Opapc(shortened(ONE_ROUND), 0.4, 0.6, 0.1, ONE_ROUND.eigengap, RING.lambda_max, 1),
        Accelerated(shortened(replace(ONE_ROUND, theta=shortened(ONE_ROUND))), 0.4, 1.0, 0.6, Exact(), 0.1),
        PROBLEM,
    ),
    "ef21 with α = 1 is diana": (Ef21(0.2, 1.0, DIT), Diana(0.2, 1.0, DIT), PROBLEM),
    "vr-diana with one sample a node is diana": (VrDiana(0.2, 0.4, DIT, SAMPLED), Diana(0.2, 0.4, DIT), CONSENSUS),
}


@pytest.mark.parametrize("claim", PARENTS)
def test_a_method_equals_its_parent(claim):
    child, parent, problem = PARENTS[claim]
    network = network_of(child.name)
    found, expected = ([state.x for state in states_of(method, problem, network, 20)] for method in (child, parent))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert np.abs(found[-1] - found[0]).max() > 0.01


@pytest.mark.parametrize(("problem", "equal"), [(CONSENSUS, True), (PROBLEM, False)], ids=["consensus", "ridge"])
def test_lead_is_option_b_with_broadcast_messages_on_consensus_only(problem, equal):
    """The paper's footnote says that they are one method; at η = 1/L on consensus they are, one iteration apart."""
    eta, gamma, alpha = 1 / problem.smoothness, 0.4, 0.3
    lead = Lead(gamma, eta, alpha, DIT)
    other = PrimalDual.make(DIT, gamma / (2 * eta), eta, alpha, messages="broadcast")
    found = [np.asarray(state.x) for state in states_of(lead, problem, RING, 19, seed=SEED)]
    expected = [np.asarray(state.x) for state in states_of(other, problem, RING, 20, seed=SEED)]
    gaps = [np.abs(x - y).max() for x, y in zip(found, expected[1:], strict=True)]
    assert (max(gaps) < 1e-12) if equal else (min(gaps) > 1e-3)


# ------------------------------------------------------------------ invariants


@pytest.mark.parametrize(
    ("name", "quantizer"),
    [
        ("dgd", "exact"),
        ("choco", "dit-2"),
        ("extra", "exact"),
        ("gradient-tracking", "exact"),
        ("nids", "exact"),
        ("lead", "dit-2"),
    ],
)
def test_gradients_alone_move_the_average_of_a_gossip_method(name, quantizer):
    """Mixing keeps x̄, and so does the noise of messages: x̄⁺ = x̄ - η_k times the average gradient."""
    method, states = run(name, quantizer, "B")
    oracle = Oracle(PROBLEM)
    x = POINT
    for k, state in enumerate(states):
        eta = method.eta / (1 + getattr(method, "decay", 0) * k)
        expected = x.mean(0) - eta * oracle.full(x).mean(0)
        x = np.asarray(state.x)
        np.testing.assert_allclose(x.mean(0), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("quantizer", ["dit-2", "top-2"])
def test_choco_gossip_keeps_the_average(quantizer):
    method = make_method("choco", CONSENSUS, RING, quantizer, gamma=0.3, eta=0.0)
    for state in states_of(method, CONSENSUS, RING, 20):
        np.testing.assert_allclose(np.mean(state.x, axis=0), CONSENSUS.solution, rtol=0, atol=1e-14)
    assert np.abs(state.x - CONSENSUS.start()).max() > 0.1


@pytest.mark.parametrize(
    ("name", "quantizer", "option"), [case for case in RUNS if case[0] in ("extra", "lead", "accelerated")]
)
def test_corrections_sum_to_zero(name, quantizer, option):
    for state in run(name, quantizer, option)[1]:
        assert np.abs(np.sum(state.z, axis=0)).max() < 2e-14
    assert np.abs(state.z).max() > 0.01


TRACKERS = [case for case in RUNS if case[0] in ("beer", "motef") or case[0][:2] == "gr" or "gt" in case[0]]


@pytest.mark.parametrize(
    ("name", "quantizer", "option"), slow_but([case for case in TRACKERS if case in QUICK], TRACKERS)
)
def test_trackers_average_to_the_average_gradient(name, quantizer, option):
    for state in run(name, quantizer, option)[1]:
        np.testing.assert_allclose(np.mean(state.tracker, 0), np.mean(state.gradient, 0), rtol=0, atol=1e-14)
    assert np.abs(np.mean(state.tracker, 0)).max() > 0.01


@pytest.mark.parametrize("name", ["extra", "lead", "accelerated", "diana", "ssda", "msda", "opapc"])
def test_the_solution_is_a_fixed_point(name):
    """Of the other exact methods too, but their corrections are not part of a start: see test_baseline_runs.py."""
    everywhere = np.tile(PROBLEM.solution, (NODES, 1))
    start = Start(everywhere, Oracle(PROBLEM).full(everywhere), everywhere)
    method = make_method(
        name, PROBLEM, network_of(name), "dit-2" if name in ("lead", "accelerated") else "exact", **SIZES[name]
    )
    for state in states_of(method, PROBLEM, network_of(name), 20, start):
        np.testing.assert_allclose(state.x, everywhere, rtol=0, atol=1e-13)


def test_diana_starts_at_the_hubs_point_whatever_the_leaves_start_at():
    star, method = NETWORKS["star"], Diana(0.3, 1.0, Exact())
    told = np.tile(POINT[star.degree.argmax()], (NODES, 1))
    found, expected = ([s.x for s in states_of(method, PROBLEM, star, 4, Start(x))] for x in (POINT, told))
    np.testing.assert_allclose(found[1:], expected[1:], rtol=0, atol=1e-12)
