"""Duals of edges: what the method is on a fixed network, against plain NumPy, and that both ends agree to the bit."""

from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import slow_but

from lessbits import (
    Consensus,
    EdgeDual,
    Faults,
    Gradients,
    InputError,
    LeastSquares,
    LocalNetwork,
    Message,
    PrimalDual,
    Start,
    Step,
    make_method,
    make_network,
    make_quantizer,
    simulate,
)
from lessbits._internal.randomness import Purpose, draws, make_seed

NODES, DIM = 8, 6
PROBLEM = LeastSquares.random(NODES, DIM, condition=5.0)
NETWORK = make_network("erdos-renyi:0.5", NODES, seed=3)


def edge_dual(quantizer="dit-3", theta=0.4, eta=0.7, gamma=1.0, alpha=None, **choices):
    compressor = make_quantizer(quantizer, DIM)
    alpha = 1 / (1 + compressor.omega(DIM)) if alpha is None else alpha
    return EdgeDual(theta, eta, alpha, gamma, compressor, **choices)


CASES = list(product("BCD", ["exact", "dit-3", "rand-2", "natural"], [0.0, 1.0]))


@pytest.mark.parametrize(("option", "quantizer", "gamma"), slow_but([CASES[3]], CASES))
def test_on_a_fixed_network_it_is_algorithm_1_with_edge_messages(option, quantizer, gamma):
    mine = edge_dual(quantizer, eta=0.7 if option == "B" else 0.1, gamma=gamma, gradients=Gradients(option))
    papers = PrimalDual.make(
        mine.quantizer, mine.theta, mine.eta, mine.alpha, option=option, messages="edge", corrected=gamma == 1
    )
    traces = [simulate(PROBLEM, NETWORK, method, iterations=60, record_every=20) for method in (mine, papers)]
    np.testing.assert_allclose(traces[0].x, traces[1].x, rtol=0, atol=1e-11)
    assert traces[0]["messages"].tolist() == traces[1]["messages"].tolist()


def plain(method, iterations):
    """Run option B in plain NumPy, with a dictionary for all that belongs to a link."""
    theta, eta, gamma, alpha = (float(getattr(method, name)) for name in ("theta", "eta", "gamma", "alpha"))
    links = list(zip(NETWORK.owner.tolist(), NETWORK.neighbor.tolist(), strict=True))
    weight = dict(zip(links, NETWORK.weight, strict=True))
    y, h = ({link: np.zeros(DIM) for link in links} for _ in range(2))
    x = np.zeros((NODES, DIM))
    for iteration in range(iterations):
        z = np.array([sum(y[link] for link in links if link[0] == node) for node in range(NODES)])
        x = x - eta * (np.asarray(PROBLEM.gradient(jnp.asarray(x))) - z)
        step = Step(make_seed(0), jnp.int32(iteration))
        differences = jnp.asarray(np.array([x[i] - h[i, j] for i, j in links]))
        rows = np.asarray(method.quantizer(differences, draws(step, jnp.arange(len(links)), Purpose.DUAL)))
        q = dict(zip(links, rows, strict=True))
        for i, j in links:
            change = theta * weight[i, j] * ((h[i, j] + q[i, j]) - (h[j, i] + q[j, i]))
            y[i, j] = y[i, j] - change
            x[i] = x[i] - gamma * eta * change
        for link in links:
            h[link] = h[link] + alpha * q[link]
    return x


@pytest.mark.parametrize("gamma", slow_but([1.0], [0.0, 1.0, 3.0]))
def test_it_is_what_plain_numpy_computes(gamma):
    method = edge_dual("dit-3", theta=0.2, gamma=gamma)
    np.testing.assert_allclose(
        simulate(PROBLEM, NETWORK, method, iterations=20).x, plain(method, 20), rtol=0, atol=1e-9
    )


@jax.jit
def _send(method, step, state, problem, local):
    return method.send(step, state, problem, local)


@jax.jit
def _receive(method, step, state, outbox, inbox, local):
    return method.receive(step, state, outbox, inbox, local)


@jax.jit
def _reset(method, state, fresh, nodes, links, local):
    return method.reset(state, fresh, nodes, links, local)


class Alone:
    """Every node in a program of its own, as at its own site: both ends of a link are computed separately."""

    def __init__(self, method, network, problem):
        self.method, self.network = method, network
        self.local = [LocalNetwork.of(network, np.array([node])) for node in range(network.nodes)]
        self.parts = [problem.restrict(np.array([node])) for node in range(network.nodes)]
        self.fresh = [method.init(*each, Start()) for each in zip(self.parts, self.local, strict=True)]
        self.state = list(self.fresh)
        self.links = [np.flatnonzero(network.owner == node) for node in range(network.nodes)]
        self.row = {int(link): (node, row) for node, links in enumerate(self.links) for row, link in enumerate(links)}

    def iterate(self, iteration, up):
        step = Step(make_seed(1), jnp.int32(iteration))
        local = [replace(self.local[node], up=jnp.asarray(up[self.links[node]])) for node in range(self.network.nodes)]
        sent = [_send(self.method, step, *each) for each in zip(self.state, self.parts, local, strict=True)]
        for node, (state, (message,), _) in enumerate(sent):
            rows = []
            for link in self.links[node]:
                other, row = self.row[int(self.network.reverse[link])]
                rows.append(jax.tree.map(lambda leaf, row=row: leaf[row], sent[other][1][0].payload))
            payload = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
            inbox = (Message(payload, True, local[node].up, round=message.round),)
            self.state[node] = _receive(self.method, step, state, (message,), inbox, local[node])

    def crash(self, node):
        """Lose what the node has. Its neighbours drop what they shared with it."""
        for each in range(self.network.nodes):
            links = self.network.neighbor[self.links[each]] == node
            nodes, links = jnp.array([each == node]), jnp.asarray(links | (each == node))
            self.state[each] = _reset(self.method, self.state[each], self.fresh[each], nodes, links, self.local[each])

    def assert_opposite(self):
        for link, back in enumerate(self.network.reverse):
            (one, row), (other, there) = self.row[link], self.row[int(back)]
            mine, theirs = self.state[one], self.state[other]
            assert not np.asarray(mine.y[row] + theirs.y[there]).any()
            assert np.array_equal(mine.memory.mine[row], theirs.memory.theirs[there])
            assert int(mine.round[row]) == int(theirs.round[there])


SMALL = make_network("star", 4)
SCHEDULE = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from([None, None, None, 0, 1, 2, 3])), min_size=4, max_size=14
)


def run_alone(schedule, quantizer):
    problem = LeastSquares.random(4, 7, condition=5.0)
    compressor = make_quantizer(quantizer, 7)
    method = EdgeDual(0.37, 0.61, 1 / (1 + compressor.omega(7)), 1.3, compressor)
    alone = Alone(method, SMALL, problem)
    edge = np.minimum(np.arange(SMALL.links), SMALL.reverse)
    number = {each: place for place, each in enumerate(np.unique(edge))}
    for iteration, (mask, crashed) in enumerate(schedule):
        if crashed is not None:
            alone.crash(crashed)
        alone.iterate(iteration, np.array([bool(mask >> number[each] & 1) for each in edge]))
        alone.assert_opposite()


@pytest.mark.optimized  # compilers that fuse products into sums are what this is about
@pytest.mark.parametrize("quantizer", slow_but(["dit-3"], ["dit-3", "natural", "rand-2"]))
@given(schedule=SCHEDULE)
@settings(max_examples=10)
def test_both_ends_compute_opposite_duals_to_the_bit(quantizer, schedule):
    run_alone(schedule, quantizer)


@pytest.mark.slow
@pytest.mark.optimized
@pytest.mark.parametrize("quantizer", ["dit-3", "natural"])
@given(schedule=SCHEDULE)
@settings(max_examples=100)
def test_both_ends_compute_opposite_duals_to_the_bit_in_float32(quantizer, schedule):
    with jax.enable_x64(False):
        run_alone(schedule, quantizer)


def test_contractions_are_taken_with_step_sizes_that_are_given():
    method = EdgeDual(0.15, 0.7, 1.0, 1.0, make_quantizer("top-2", DIM))
    trace = simulate(PROBLEM, NETWORK, method, iterations=1500, record_every=100)
    assert trace["error"][-1] < 1e-12
    with pytest.raises(InputError, match="top-2, which is biased"):
        make_method("edge-dual", PROBLEM, NETWORK, quantizer="top-2", stepsizes="practical")


def test_duals_of_edges_start_at_zero():
    with pytest.raises(InputError, match="start at zero"):
        simulate(PROBLEM, NETWORK, edge_dual(), iterations=1, start=Start(h=np.ones((NODES, DIM))))


@pytest.mark.slow
def test_fading_messages_follow_the_round_of_their_edge():
    problem = Consensus.random(NODES, DIM)
    method = EdgeDual(0.4, 0.7, 1.0, 1.0, make_quantizer("fading:1:0.9", DIM))
    trace = simulate(problem, NETWORK, method, iterations=300, record_every=100)
    assert trace["error"][-1] < 1e-17
    local = LocalNetwork.of(NETWORK)
    rounds = jnp.arange(NETWORK.links, dtype=jnp.int32) % 7  # as after some silence, or late messages
    state = method.init(problem, local, Start())._replace(round=rounds)
    _, (message,), _ = method.send(Step(make_seed(0), jnp.int32(50)), state, problem, local)
    np.testing.assert_allclose(message.payload.spacing, 0.9 ** np.asarray(rounds), rtol=0.05)  # 16 steps per octave


@pytest.mark.parametrize("faults", [Faults(drop=0.5), Faults(delay=(1, 2)), Faults(lose=0.2)], ids=str)
def test_fading_messages_may_be_silent_and_late(faults):
    problem = Consensus.random(NODES, DIM)
    method = EdgeDual(0.3, 0.3, 1.0, 3.0, make_quantizer("fading:1:0.9", DIM))
    trace = simulate(problem, NETWORK, method, iterations=1200, record_every=400, faults=faults)
    assert trace["error"][-1] < 1e-17


@pytest.mark.parametrize("skips", ["regular", "random"])
def test_local_steps_exchange_less_often(skips):
    method = edge_dual("dit-3", theta=0.4, eta=0.5, gamma=2.0, local_steps=4, skips=skips)
    trace = simulate(PROBLEM, NETWORK, method, iterations=1200, record_every=100)
    assert trace["error"][-1] < 1e-18
    assert trace["messages"][-1] == pytest.approx(300 * NETWORK.links, rel=0 if skips == "regular" else 0.15)


@pytest.mark.slow
def test_practical_local_steps_send_fewer_bits_where_the_loss_is_the_slowest_part():
    """All nodes have one badly conditioned loss, so that gradient descent decides, not the network."""
    rows = np.diag(np.sqrt(np.geomspace(0.01, 1, DIM) * DIM))
    targets = np.random.default_rng(0).normal(size=(NODES, DIM))
    problem = LeastSquares.from_parts([rows] * NODES, list(targets), 0.0)
    bits = []
    for local_steps in (1, 4):
        method = make_method("edge-dual", problem, NETWORK, "dit-4", stepsizes="practical", local_steps=local_steps)
        trace = simulate(problem, NETWORK, method, iterations=20_000, until=1e-10, record_every=4)
        assert trace.converged
        bits.append(trace["wire_bits_per_link"][-1])
    assert bits[1] < bits[0] / 2


@pytest.mark.parametrize("quantizer", slow_but(["rand-2"], ["dit-3", "rand-2"]))
def test_messages_that_are_skipped_are_encoded_with_the_numbers_of_their_round(quantizer):
    method = edge_dual(quantizer, local_steps=2)
    runs = [simulate(PROBLEM, NETWORK, method, iterations=12, encode=encode) for encode in (False, True)]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-12)


def test_only_methods_that_can_take_local_steps():
    with pytest.raises(InputError, match="lead exchanges in every iteration: take edge-dual"):
        make_method("lead", PROBLEM, NETWORK, stepsizes="practical", local_steps=2)
    method = make_method("edge-dual", PROBLEM, NETWORK, stepsizes="practical", local_steps=2)
    assert method.local_steps == 2
    with pytest.raises(InputError, match="unknown skips 'often'"):
        simulate(PROBLEM, NETWORK, edge_dual(skips="often"), iterations=1)


NOT_PROVEN = [Faults(part=0.9), Faults(slow={1: 2}), Faults(fail=0.1, heal=0.5), Faults(lose=0.1), Faults(delay=(1, 2))]


@pytest.mark.parametrize(("faults", "local_steps"), [*((faults, 1) for faults in NOT_PROVEN), (None, 2)], ids=str)
def test_step_sizes_without_a_proof_are_refused(faults, local_steps):
    with pytest.raises(InputError, match="proven only for links that are silent independently"):
        make_method("edge-dual", PROBLEM, NETWORK, "dit-3", faults=faults, local_steps=local_steps)


def test_the_proven_rate_is_that_of_the_step_sizes_and_the_silence():
    drops = [None, Faults(drop=0.5)]
    methods = [make_method("edge-dual", PROBLEM, NETWORK, "dit-3", faults=faults) for faults in drops]
    traces = [
        simulate(PROBLEM, NETWORK, method, iterations=400, record_every=400, faults=faults)
        for method, faults in zip(methods, drops, strict=True)
    ]
    whole, half = (trace.provenance["rate"] for trace in traces)
    assert 0 < half < whole < 1
    for trace, rate in zip(traces, (whole, half), strict=True):  # the proof is for the worst case
        assert trace["error"][-1] < 100 * trace["error"][0] * (1 - rate) ** 400
    assert methods[0].proven_rate(PROBLEM, NETWORK, Faults(drop=0.5)) is None  # its sizes are for other silence
    assert methods[1].proven_rate(PROBLEM, NETWORK, Faults(drop=0.5, part=0.9)) is None
    random = replace(methods[1], local_steps=2, skips="random")
    assert random.proven_rate(PROBLEM, NETWORK) == half
    assert replace(random, skips="regular").proven_rate(PROBLEM, NETWORK) is None
