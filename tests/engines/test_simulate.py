"""The simulator: reproducible, compiled once, and honest about how a run ended."""

import jax
import numpy as np
import pytest

from lessbits import (
    Consensus,
    InputError,
    LeastSquares,
    LinkModel,
    Outside,
    PrimalDual,
    Start,
    make_method,
    make_network,
    make_quantizer,
    simulate,
)

NODES, DIM = 10, 12


def make(quantizer="dit-4", theta=0.5, eta=1.0, **options):
    return PrimalDual.make(make_quantizer(quantizer, DIM), theta, eta, dim=DIM, **options)


@pytest.fixture
def setting():
    return Consensus.random(NODES, DIM), make_network("ring", NODES)


@pytest.fixture
def compilations():
    """Count the programs that XLA compiles."""
    counted = []

    def listen(event, seconds, **_):
        if "backend_compile" in event:
            counted.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield counted
    jax.monitoring.unregister_event_duration_listener(listen)


def test_one_seed_gives_one_run_bit_for_bit(setting):
    first, second = (simulate(*setting, make(), iterations=300, seed=7, record_every=3) for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes()
    for name in first.columns:
        if name != "seconds":
            assert first[name].tobytes() == second[name].tobytes()


def test_another_seed_gives_another_run(setting):
    first, second = (simulate(*setting, make(), iterations=50, seed=seed) for seed in (0, 2**40))
    assert np.abs(first.x - second.x).max() > 1e-6


def test_other_step_sizes_seeds_levels_and_lengths_compile_nothing(compilations):
    setting = Consensus.random(NODES + 1, DIM), make_network("ring", NODES + 1)  # a size that no other test compiles
    simulate(*setting, make(), iterations=20)
    assert compilations  # the counter works
    compilations.clear()
    simulate(*setting, make(theta=0.123, eta=0.9, alpha=0.3), iterations=20)
    simulate(*setting, make(), iterations=333, seed=5, until=1e-3, record_every=7)
    simulate(*setting, make("dit-2"), iterations=20)
    simulate(Consensus.random(NODES + 1, DIM, seed=9), setting[1], make(), iterations=20)
    assert not compilations


def test_recording_less_often_changes_nothing_else(setting):
    every, some = (
        simulate(*setting, make(), iterations=100, record_every=1),
        simulate(*setting, make(), iterations=100, record_every=7),
    )
    assert every.x.tobytes() == some.x.tobytes()
    assert list(some["iteration"]) == [*range(0, 100, 7), 100]
    # Programs of different loops may round metrics differently, not more.
    np.testing.assert_allclose(some["error"], every["error"][some["iteration"]], rtol=1e-12)
    np.testing.assert_array_equal(some["bits_per_link"], every["bits_per_link"][some["iteration"]])
    np.testing.assert_array_equal(some["gradient_evaluations"], every["gradient_evaluations"][some["iteration"]])


def test_stops_at_the_first_record_that_reaches_the_goal(setting):
    trace = simulate(*setting, make(), iterations=5000, until=1e-6, record_every=1)
    assert trace.converged
    assert not trace.diverged
    assert trace["error"][-1] <= 1e-6 < trace["error"][-2]
    shorter = simulate(*setting, make(), iterations=int(trace["iteration"][-1]))
    np.testing.assert_allclose(shorter.x, trace.x, rtol=0, atol=1e-15)


def test_scores_are_what_they_say(setting):
    problem, network = setting
    trace = simulate(problem, network, make(), iterations=30)
    target = np.asarray(problem.vectors).mean(0)
    mean = trace.x.mean(0)
    np.testing.assert_allclose(trace["error"][-1], ((trace.x - target) ** 2).sum(1).mean(), rtol=1e-12)
    np.testing.assert_allclose(trace["consensus"][-1], ((trace.x - mean) ** 2).sum(1).mean(), rtol=1e-12)
    losses = 0.5 * ((np.stack([mean, target])[:, None] - np.asarray(problem.vectors)) ** 2).sum(-1).mean(1)
    np.testing.assert_allclose(trace["suboptimality"][-1], losses[0] - losses[1], atol=1e-14)


@pytest.mark.parametrize(("theta", "eta", "guilty"), [(50.0, 1.0, "theta"), (0.5, 3.0, "eta")])
def test_divergence_stops_the_run_and_names_the_step_size(setting, theta, eta, guilty):
    trace = simulate(*setting, make(theta=theta, eta=eta), iterations=100_000, until=1e-9, record_every=1)
    assert trace.diverged
    assert not trace.converged
    assert trace["iteration"][-1] < 1000
    assert f"diverged at iteration {trace['iteration'][-1]}" in trace.message
    assert f"lower {guilty}" in trace.message


def test_divergence_is_told_of_problems_whose_constants_are_not_known():
    problem = Outside.make(lambda x, node: x - node, NODES, DIM, solution=np.full(DIM, (NODES - 1) / 2))
    trace = simulate(problem, make_network("ring", NODES), make(theta=50.0), iterations=1000)
    assert trace.diverged
    assert "lower theta" in trace.message


def test_a_start_at_the_solution_is_not_called_divergence():
    vectors = np.random.default_rng(0).normal(size=(NODES, DIM))
    problem = Consensus.make(vectors - vectors.mean(0))
    start = Start(x=np.zeros((NODES, DIM)))
    trace = simulate(problem, make_network("ring", NODES), make(), iterations=2000, start=start, record_every=1)
    assert not trace.diverged
    assert trace["error"][-1] < 1e-10


def test_a_goal_that_cannot_be_told_is_refused(setting):
    with pytest.raises(InputError, match="is rounding"):
        simulate(*setting, make(), iterations=5, until=1e-18, goal="suboptimality")
    silent = Outside.make(lambda x, node: x, NODES, DIM, solution=np.zeros(DIM))
    with pytest.raises(InputError, match="give it a loss"):
        simulate(silent, setting[1], make(), iterations=5, until=1e-3, goal="suboptimality")


def test_stochastic_runs_are_recorded_about_ten_times_a_pass():
    problem, network = LeastSquares.random(4, 3, samples=500), make_network("ring", 4)
    method = PrimalDual.make(make_quantizer("dit-4", 3), 0.01, 0.01, dim=3, option="C")
    assert list(simulate(problem, network, method, iterations=120)["iteration"]) == [0, 50, 100, 120]


def test_reaching_nothing_is_said(setting):
    trace = simulate(*setting, make(), iterations=5, until=1e-9)
    assert not trace.converged
    assert not trace.diverged
    assert trace.message.startswith("stopped after 5 iterations with error")


def test_a_run_that_starts_at_the_goal_takes_no_iteration(setting):
    trace = simulate(*setting, make(), iterations=50, until=1e9)
    assert trace.converged
    assert trace["iteration"][-1] == 0
    assert trace["bits_per_link"][-1] == 0


def test_the_goal_may_be_the_suboptimality():
    problem, network = LeastSquares.random(6, 4), make_network("complete", 6)
    method = PrimalDual.make(make_quantizer("exact", 4), 0.5, 1.0, dim=4)
    trace = simulate(problem, network, method, iterations=50_000, until=1e-6, goal="suboptimality", record_every=1)
    assert trace.converged
    assert trace["suboptimality"][-1] <= 1e-6 < trace["suboptimality"][-2]


def test_simulated_time_follows_latency_bandwidth_and_gradients(setting):
    trace = simulate(*setting, make(), iterations=10, link_model=LinkModel(latency=2.0, bandwidth=100.0, gradient=0.5))
    expected = (
        trace["iteration"] * 2.0 + trace["wire_bits_per_link"] / 100 + trace["gradient_evaluations"] / NODES * 0.5
    )
    np.testing.assert_allclose(trace["simulated_seconds"], expected)


@pytest.mark.parametrize(("method", "exchanges", "sent"), [("tree", 4, 6), ("diana", 2, 6)])
def test_simulated_time_goes_on_while_most_links_wait(method, exchanges, sent):
    """On a path of 4 nodes a round of tree is 6 messages in 4 exchanges, on a star one of DIANA 6 in 2."""
    problem, network = Consensus.random(4, 8), make_network("path" if method == "tree" else "star", 4)
    method = make_method(method, problem, network, "exact")
    trace = simulate(
        problem, network, method, iterations=exchanges, record_every=1, link_model=LinkModel(bandwidth=1.0)
    )
    message = 8 * (4 + 8 * 8)
    assert trace["messages"][-1] == sent
    np.testing.assert_allclose(trace["simulated_seconds"], trace["iteration"] * message)


def test_float32_runs_stay_in_float32(in_float32):
    trace = simulate(Consensus.random(NODES, DIM), make_network("ring", NODES), make(), iterations=2000, until=1e-8)
    assert trace.x.dtype == np.float32
    assert trace.converged


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"iterations": 0}, "iterations is 0"),
        ({"until": float("nan")}, "until is nan"),
        ({"goal": "eror"}, "did you mean 'error'"),
        ({"record_every": 0}, "record_every is 0"),
        ({"record_every": 2**30}, "record_every is"),
        ({"network": make_network("ring", 5)}, "10 nodes and the network 5"),
        ({"method": PrimalDual.make(make_quantizer("rand-50", 60), 1.0, 1.0, dim=60)}, "vectors have 12"),
    ],
)
def test_mistakes_get_one_line(setting, changes, says):
    arguments = {"problem": setting[0], "network": setting[1], "method": make(), "iterations": 5, **changes}
    with pytest.raises(InputError, match=says) as error:
        simulate(**arguments)
    assert "\n" not in str(error.value)
