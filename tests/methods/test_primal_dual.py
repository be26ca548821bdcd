"""Algorithm 1: against a plain NumPy version, its invariants, and where its options coincide."""

import dataclasses
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import run_reference
from tiers import slow_but

from lessbits import (
    Consensus,
    Custom,
    InputError,
    LeastSquares,
    PrimalDual,
    Start,
    make_network,
    make_quantizer,
    primal_dual,
    pytree,
    simulate,
)
from lessbits._internal.randomness import Purpose, Step, draws, make_seed

NODES, DIM = 8, 6
QUANTIZERS = ["exact", "dit-3", "rand-2", "ternary", "natural", "rand-3+dit-3"]
MESSAGES = ["independent", "broadcast", "edge"]


@pytree
class DualSum:
    """Largest entry of Σ_i z_i, and of Σ_i g_i, which must stay zero to rounding."""

    def __call__(self, state, problem):
        total = jnp.max(jnp.abs(state.z.sum(0)))
        return jnp.maximum(total, jnp.max(jnp.abs(state.memory.g.sum(0)))) if state.memory else total


@pytree
class Spy:
    """One entry of the state, so that a trace shows all of them."""

    node: int
    coordinate: int

    def __call__(self, state, problem):
        return state.z[self.node, self.coordinate]


def make(quantizer, theta=0.3, eta=0.7, dim=DIM, **options):
    return PrimalDual.make(make_quantizer(quantizer, dim), theta, eta, dim=dim, **options)


def quantize_as(method, seed):
    """One vector at a time, with the random numbers that the method draws for a link or a memory."""

    @partial(jax.jit, static_argnames="stream")
    def one(k, number, vector, stream):
        return method.quantizer(vector[None], draws(Step(make_seed(seed), k), number[None], stream))[0]

    def quantize(k, kind, number, vector):
        stream = Purpose.DUAL if kind == "link" else Purpose.MEMORY
        return np.asarray(one(np.uint32(k), np.int32(number), vector, stream))

    return quantize


def gradient_of(problem):
    """The gradients in iteration k, as the reference takes them, from one program."""
    gradient = jax.jit(problem.gradient)
    return lambda k, x: np.asarray(gradient(x))


def test_exact_messages_equal_the_plain_primal_dual_gradient_method():
    problem = LeastSquares.random(NODES, DIM, condition=5.0)
    network = make_network("erdos-renyi:0.5", NODES, seed=3)
    method = make("exact")
    history = run_reference(network, gradient_of(problem), np.zeros((NODES, DIM)), 200, 0.3, 0.7)
    trace = simulate(problem, network, method, iterations=200, measures={"z": Spy(2, 1)}, record_every=1)
    np.testing.assert_allclose(trace.x, history[-1][0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(trace["z"][1:], [z[2, 1] for _, z in history], rtol=0, atol=1e-12)


FAMILY = [("independent", False, "ring", "dit-3")]
FAMILY += [("independent", False, "star", quantizer) for quantizer in QUANTIZERS[1:]]
FAMILY += [("independent", True, "star", "dit-3"), ("broadcast", False, "star", "dit-3")]
FAMILY += [("broadcast", True, "ring", "rand-2"), ("edge", False, "star", "dit-3"), ("edge", True, "ring", "rand-2")]


@pytest.mark.parametrize(
    ("messages", "corrected", "network", "quantizer"),
    slow_but([FAMILY[number] for number in (0, 6, 8, 9, 10)], FAMILY),  # each kind of messages, and both steps
)
def test_messages_equal_the_algorithm_with_all_memories_held(messages, corrected, network, quantizer):
    """The running g_i = Σ w_ij (h_i - h_j) and decoded increments are the paper's lines 13 to 18."""
    problem = LeastSquares.random(NODES, DIM, condition=5.0)
    network = make_network(network, NODES)
    method = make(quantizer, theta=0.05, messages=messages, corrected=corrected)
    random = np.random.default_rng(0)
    start = Start(*(random.normal(size=(NODES, DIM)) for _ in range(3)))
    start = start._replace(z=start.z - start.z.mean(0))

    history = run_reference(
        network,
        gradient_of(problem),
        start.x,
        25,
        0.05,
        0.7,
        method.alpha,
        quantize_as(method, seed=5),
        start.z,
        start.h,
        messages,
        corrected,
    )
    trace = simulate(
        problem, network, method, iterations=25, seed=5, start=start, measures={"z": Spy(0, 1)}, record_every=1
    )
    np.testing.assert_allclose(trace.x, history[-1][0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(trace["z"][1:], [z[0, 1] for _, z in history], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("quantizer", "messages"),
    slow_but([("dit-3", "independent")], [("exact", "broadcast"), ("dit-3", "independent"), ("rand-2", "broadcast")]),
)
def test_options_a_and_b_are_the_same_on_consensus_with_eta_one(quantizer, messages):
    problem, network = Consensus.random(NODES, DIM), make_network("ring", NODES)
    a, b = (
        simulate(
            problem, network, make(quantizer, 0.1, 1.0, option=option, messages=messages), iterations=60, record_every=1
        )
        for option in "AB"
    )
    np.testing.assert_allclose(a.x, b.x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(a["error"][1:], b["error"][1:], rtol=1e-10)


@pytest.mark.parametrize("option", "CD")
def test_full_batches_make_the_stochastic_options_equal_to_b_on_one_sample_nodes(option):
    """With one sample a node there is nothing random to choose, so B, C and D are one method."""
    data = {"c": np.random.default_rng(1).normal(size=(NODES, 1, DIM))}
    problem = Custom.make(lambda x, s: 0.5 * ((x - s["c"]) ** 2).sum() + (x**4).sum(), data, DIM)
    network = make_network("ring", NODES)
    expected = simulate(problem, network, make("dit-4", 0.1, 0.1), iterations=50)
    found = simulate(problem, network, make("dit-4", 0.1, 0.1, option=option), iterations=50)
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-12)


LONG_RUNS = [("B", "dit-3", messages) for messages in MESSAGES]
LONG_RUNS += [("B", "exact", "independent"), ("B", "natural", "broadcast"), ("B", "rand-3+dit-3", "broadcast")]
LONG_RUNS += [("A", "dit-3", "edge"), ("C", "dit-3", "edge"), ("D", "dit-3", "independent")]


@pytest.mark.slow
@pytest.mark.parametrize(("option", "quantizer", "messages"), slow_but([LONG_RUNS[7]], LONG_RUNS))
def test_dual_variables_sum_to_zero_for_50_000_iterations_in_float32(option, quantizer, messages, in_float32):
    problem, network = LeastSquares.random(NODES, DIM, condition=3.0), make_network("ring", NODES)
    method = make(quantizer, 0.02, 0.3 if option in "AB" else 0.05, option=option, messages=messages)
    trace = simulate(problem, network, method, iterations=50_000, record_every=500, measures={"sum": DualSum()})
    assert not trace.diverged
    drift = trace["sum"]
    size = np.abs(np.asarray(problem.gradient(jnp.asarray(np.broadcast_to(problem.solution, (NODES, DIM)))))).max()
    ulp = size * np.finfo(np.float32).eps
    # Rounding adds up while the run converges, in some thousand iterations; then it must stop growing. Option C's noise
    # never dies, and z goes on being rounded.
    assert drift.max() < 500 * ulp
    assert drift[-20:].max() < drift[20:40].max() + (200 if option == "C" else 4) * ulp
    # The run got somewhere: the sum is not zero because nothing happened.
    assert trace["error"][-1] < (1 if option == "C" else 1e-9) * trace["error"][0]


@pytest.mark.slow
@pytest.mark.parametrize("messages", ["independent", "edge"])  # what broadcast messages keep is a part of it
def test_a_converged_run_in_float32_stays_where_it_is(messages, in_float32):
    """An error that rounding leaves in g would pull the mean of the nodes away, in proportion to iterations."""
    problem, network = Consensus.random(8, 100), make_network("complete", 8)
    method = primal_dual(problem, network, "dit-4", messages=messages, stepsizes="practical")
    trace = simulate(problem, network, method, iterations=10_000, record_every=100)
    assert trace["error"][10:].max() < 1e-11
    assert trace["error"][-20:].mean() < 2 * trace["error"][10:30].mean()


FIXED_POINTS = [("B", quantizer, "broadcast") for quantizer in QUANTIZERS[1:]]
FIXED_POINTS += [(option, "dit-3", "independent") for option in "ABD"]


@pytest.mark.parametrize(
    ("option", "quantizer", "messages"), slow_but([FIXED_POINTS[0], FIXED_POINTS[-1]], FIXED_POINTS)
)
def test_the_solution_is_a_fixed_point(option, quantizer, messages):
    problem, network = LeastSquares.random(NODES, DIM, condition=3.0), make_network("star", NODES)
    everywhere = np.broadcast_to(problem.solution, (NODES, DIM))
    start = Start(everywhere, np.asarray(problem.gradient(jnp.asarray(everywhere))), everywhere)
    trace = simulate(
        problem, network, make(quantizer, option=option, messages=messages), iterations=20, start=start, record_every=1
    )
    assert trace["error"].max() < 1e-24


STARTS = list(product("ABD", MESSAGES, [False, True]))
QUICK = [("A", "independent", False), ("B", "edge", True), ("D", "broadcast", False)]


@pytest.mark.parametrize(("option", "messages", "corrected"), slow_but(QUICK, STARTS))
def test_any_start_with_dual_sum_zero_leads_to_the_solution_linearly(option, messages, corrected):
    """Down to 1e-20: twice the iterations square the reduction."""
    problem, network = LeastSquares.random(NODES, DIM, condition=3.0), make_network("complete", NODES)
    random = np.random.default_rng(2)
    x, z, h = (10 * random.normal(size=(NODES, DIM)) for _ in range(3))
    method = primal_dual(problem, network, "dit-4", option=option, messages=messages, corrected=corrected)
    start = Start(x, z - z.mean(0), h)
    trace = simulate(problem, network, method, iterations=20_000, until=1e-20, start=start, record_every=10)
    assert trace.converged
    error = trace["error"]
    halfway = error[len(error) // 2]
    assert 0.4 < np.log(halfway / error[0]) / np.log(error[-1] / halfway) < 2.5


@pytest.mark.parametrize(
    ("option", "messages"), slow_but([("B", "broadcast")], [("A", "edge"), ("B", "broadcast"), ("D", "edge")])
)
def test_theorys_step_sizes_hold_for_the_corrected_step_where_kappa_is_not_small(option, messages):
    problem, network = LeastSquares.random(NODES, DIM, condition=30.0), make_network("ring", NODES)
    method = primal_dual(problem, network, "dit-4", option=option, messages=messages, corrected=True)
    trace = simulate(problem, network, method, iterations=200_000, until=1e-20, record_every=100)
    assert trace.converged


def test_option_a_has_no_step_to_correct():
    problem, network = LeastSquares.random(NODES, DIM, condition=3.0), make_network("ring", NODES)
    plain, corrected = (primal_dual(problem, network, "dit-4", option="A", corrected=each) for each in (False, True))
    runs = [simulate(problem, network, method, iterations=50)["error"] for method in (plain, corrected)]
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (Start(z=np.ones((NODES, DIM))), "must sum to zero"),
        (Start(x=np.ones((NODES - 1, DIM))), "must be nodes × dim"),
        (Start(x=np.ones(DIM)), "must be nodes × dim"),
        (Start(h=np.full((NODES, DIM), np.nan)), "NaN or infinite entries in h"),
    ],
)
def test_a_start_that_would_lead_elsewhere_is_refused(start, says):
    problem, network = Consensus.random(NODES, DIM), make_network("complete", NODES)
    with pytest.raises(InputError, match=says):
        simulate(problem, network, make("exact", 1.0, 1.0), iterations=5, start=start)


@pytest.mark.parametrize("option", "CD")
def test_a_batch_larger_than_any_nodes_data_is_refused(option):
    problem, network = LeastSquares.random(NODES, DIM, samples=7), make_network("ring", NODES)
    with pytest.raises(InputError, match="no node has more than 7 samples"):
        simulate(problem, network, make("exact", option=option, batch_size=8), iterations=5)


def test_option_d_counts_both_sample_gradients_and_its_refreshes():
    problem, network = LeastSquares.random(NODES, 4, samples=20), make_network("ring", NODES)
    method = make("dit-3", 0.01, 0.05, dim=4, option="D", batch_size=2)
    trace = simulate(problem, network, method, iterations=4000, record_every=1)
    work = np.diff(trace["gradient_evaluations"])
    assert work[0] >= NODES * (2 * 2 + 20)
    assert np.all((work - NODES * 4) % 20 == 0)
    refreshes = (work[1:] - NODES * 4) / 20
    expected = NODES * 2 / 20  # the coin falls with probability b/m
    assert abs(refreshes.mean() - expected) < 5 * np.sqrt(expected / len(refreshes))
    assert trace["epochs"][-1] == trace["gradient_evaluations"][-1] / (NODES * 20)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_option_c_takes_a_batch_an_iteration(batch_size):
    problem, network = LeastSquares.random(NODES, 4, samples=20), make_network("ring", NODES)
    trace = simulate(
        problem, network, make("dit-3", 0.01, 0.05, dim=4, option="C", batch_size=batch_size), iterations=10
    )
    assert trace["gradient_evaluations"][-1] == 10 * NODES * batch_size


@pytest.mark.slow
def test_anchor_gradients_of_few_nodes_equal_those_of_all():
    """Option D refreshes node by node, or all at once if many coins fall; both must give the same run."""
    problem, network = LeastSquares.random(NODES, 4, samples=4), make_network("ring", NODES)
    few = make("dit-3", 0.01, 0.05, dim=4, option="D", batch_size=1)  # a quarter of the coins fall
    trace = simulate(problem, network, few, iterations=300)
    plain = _option_d_in_numpy(problem, network, few, 300)
    np.testing.assert_allclose(trace.x, plain, rtol=0, atol=1e-10)


def _option_d_in_numpy(problem, network, method, iterations):
    x = np.zeros((NODES, 4))
    anchor = x.copy()
    local_nodes = jnp.arange(NODES)

    @jax.jit
    def estimate(k, x, anchor):
        step = Step(make_seed(0), k)
        samples = problem.draw_samples(draws(step, local_nodes, Purpose.SAMPLE), 1)
        gap = problem.sample_gradient(x, samples) - problem.sample_gradient(anchor, samples)
        return gap + problem.gradient(anchor), draws(step, local_nodes, Purpose.COIN).uniform(1, jnp.float64)

    def gradient(k, x):
        nonlocal anchor
        found, coin = estimate(np.uint32(k), x, anchor)
        anchor = np.where(np.asarray(coin) < 0.25, x, anchor)
        return np.asarray(found)

    quantize = quantize_as(method, seed=0)
    return run_reference(network, gradient, x, iterations, method.theta, method.eta, method.alpha, quantize)[-1][0]


def test_nominal_bits_count_two_messages_a_link_or_one():
    problem, network = Consensus.random(NODES, DIM), make_network("star", NODES)
    bits = make_quantizer("dit-3", DIM).bits(DIM)
    for messages, count in (("independent", 2), ("broadcast", 1), ("edge", 1)):
        trace = simulate(problem, network, make("dit-3", 0.1, 1.0, messages=messages), iterations=7)
        assert trace["bits_per_link"][-1] == 7 * count * bits
        assert trace["total_bits"][-1] == 7 * count * bits * network.links
        assert trace["messages"][-1] == 7 * count * network.links
    exact = simulate(problem, network, make("exact", 0.1, 1.0), iterations=7)
    assert exact["bits_per_link"][-1] == 7 * 32 * DIM


def test_rounded_numbers_are_sent_once_as_a_second_message_would_repeat_them():
    problem, network = Consensus.random(NODES, DIM), make_network("ring", NODES)
    runs = [
        simulate(problem, network, make("float32", messages=messages), iterations=600, until=1e-12, encode=True)
        for messages in ("independent", "broadcast")
    ]
    assert runs[0].converged
    assert runs[0]["bits_per_link"][-1] == runs[0]["iteration"][-1] * 32 * DIM
    assert runs[0].x.tobytes() == runs[1].x.tobytes()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"theta": 0.0}, "theta is 0"),
        ({"theta": float("nan")}, "theta is nan"),
        ({"eta": -1.0}, "eta is -1"),
        ({"alpha": 0.0}, "alpha is 0"),
        ({"option": "E"}, "unknown option 'E'"),
        ({"messages": "broadcst"}, "did you mean 'broadcast'"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"quantizer": "top-2"}, "biased"),
    ],
)
def test_mistakes_get_one_line(changes, says):
    settings = {"quantizer": "dit-3", "theta": 0.1, "eta": 0.1, **changes}
    quantizer = make_quantizer(settings.pop("quantizer"), DIM)
    with pytest.raises(InputError, match=says) as error:
        PrimalDual.make(quantizer, dim=DIM, **settings)
    assert "\n" not in str(error.value)


def test_step_sizes_are_leaves_and_the_rest_is_structure():
    method = make("dit-3")
    other = dataclasses.replace(method, theta=9.0, eta=8.0, alpha=7.0)
    assert jax.tree.structure(method) == jax.tree.structure(other)
    assert jax.tree.structure(method) != jax.tree.structure(make("dit-3", option="C"))
