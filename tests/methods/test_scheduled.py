"""Schedules from the spectrum: the model against runs, the method against plain NumPy, and runs that differ from it."""

import jax.numpy as jnp
import numpy as np
import pytest
from engines.test_stepwise import same_run
from engines.threads import run_on

from lessbits import (
    Consensus,
    Fading,
    InputError,
    LeastSquares,
    Logistic,
    Scheduled,
    Start,
    load_samples,
    make_method,
    make_network,
    simulate,
    split_samples,
)
from lessbits._internal.randomness import Step, make_seed, message_draws
from lessbits.methods.scheduled import StepTable
from lessbits.methods.scheduling import modes_of, scheduled_steps
from lessbits.theory.schedule_modes import Schedule, expected_course
from lessbits.tuning.stepsizes import make_request

NODES, DIM, COUNT = 12, 200, 25
PROBLEM, RING = Consensus.random(NODES, DIM), make_network("ring", NODES)


def by_hand(count=COUNT):
    """A schedule that no search has found."""
    at = np.linspace(0, 1, count)
    return Schedule(1 + 2 * at, 0.5 - 0.3 * at, 0.3 + 0.4 * at, 2 ** (np.round(16 * (0.5 - 6 * at)) / 16))


def method_of(schedule, first=0.02):
    table = StepTable(*(jnp.asarray(each) for each in schedule[:3]))
    return Scheduled(2.5, 0.3, 0.5, Fading.make(1.0, 0.9).after(schedule.spacing, first), table)


def in_numpy(schedule, later, iterations, seed=0):
    """The iterates of the method, with the dither that the library draws."""
    own, laplacian = np.asarray(PROBLEM.vectors), RING.laplacian().toarray()
    x, z, h = own.copy(), np.zeros_like(own), np.zeros_like(own)
    for k in range(iterations):
        z = x - own if k == len(schedule.theta) else z
        theta, eta, alpha, spacing = later(k) if k >= len(schedule.theta) else [row[k] for row in schedule]
        spacing = float(np.float32(spacing))  # as quantizers have it
        draw = message_draws(Step(make_seed(seed), jnp.int32(k)), jnp.arange(NODES), per_link=False)
        dither = np.asarray(draw.uniform(DIM, jnp.float64))
        y = x - eta * (x - own - z)
        sent = (np.floor((y - h) / spacing + dither) + 0.5 - dither) * spacing
        pulled = theta * laplacian @ (h + sent)
        z, x, h = z - pulled, y - eta * pulled, h + alpha * sent
    return x


def test_a_run_is_the_schedule_in_plain_numpy():
    schedule = by_hand()
    method = method_of(schedule)

    def later(k):
        return 2.5, 0.3, 0.5, float(method.quantizer.spacing(k))

    trace = simulate(PROBLEM, RING, method, iterations=COUNT + 9)
    np.testing.assert_allclose(trace.x, in_numpy(schedule, later, COUNT + 9), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_the_error_does_not_rise_after_the_schedule():
    """On a complete network one exchange with ηθ = 1 finds the average, and leaves twice the right z for η = 1/2."""
    schedule = Schedule(*(np.array([number]) for number in (2.0, 0.5, 1.0, 2.0**-10)))
    trace = simulate(PROBLEM, make_network("complete", NODES), method_of(schedule, first=2**-10), iterations=30)
    assert max(trace["error"][1:]) < 1.1 * trace["error"][1] < 1e-3


def test_nodes_that_start_elsewhere_still_come_to_the_average():
    """The mean of their iterates is not the average at the end of the schedule."""
    trace = simulate(
        PROBLEM, RING, method_of(by_hand(), first=1e-3), iterations=500, start=Start(np.ones((NODES, DIM)))
    )
    assert trace["error"][-1] < 1e-12


def test_spacings_are_those_of_the_table_and_then_fall():
    schedule = by_hand()
    quantizer = method_of(schedule, first=2**-6).quantizer
    found = np.array([float(quantizer.spacing(k)) for k in range(COUNT)])
    np.testing.assert_allclose(found, schedule.spacing, rtol=1e-6)
    after = np.array([float(quantizer.spacing(COUNT + k)) for k in (0, 10, 100)])
    np.testing.assert_allclose(after, 2**-6 * 0.9 ** np.array([0, 10, 100]), rtol=0.05)


def test_the_model_knows_the_error_and_the_bits_of_any_schedule():
    """It is exact in the mean: runs differ from it by their random numbers only."""
    schedule, method = by_hand(), method_of(by_hand())
    _, request = make_request("scheduled", PROBLEM, RING, None, stepsizes="theory", target=None)
    expected = expected_course(modes_of(request), schedule)
    runs = []
    for seed in range(4):
        problem = Consensus.random(NODES, DIM, seed=seed)
        trace = simulate(problem, RING, method, iterations=COUNT, seed=seed, record_every=COUNT)
        runs.append((trace["error"][-1], trace["wire_bits_per_link"][-1] - 6 * 8 * COUNT))
    error, bits = np.mean(runs, axis=0)
    assert error == pytest.approx(expected.error, rel=0.1)
    assert bits == pytest.approx(expected.bits.sum(), rel=0.1)
    assert np.std([run[0] for run in runs]) < 4 * expected.deviation


@pytest.mark.slow
@pytest.mark.optimized
def test_all_engines_agree():
    method = method_of(by_hand())
    simulated = simulate(PROBLEM, RING, method, iterations=30)
    encoded = simulate(PROBLEM, RING, method, iterations=30, encode=True)
    same_run(simulated, encoded, {"wire_bits_per_link"})
    assert encoded["wire_bits_per_link"][-1] == pytest.approx(simulated["wire_bits_per_link"][-1], rel=0.01)
    for trace in run_on(2, PROBLEM, RING, method, iterations=30):
        same_run(encoded, trace)


def test_other_quantizers_and_targets_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="scheduled was given dit-4, but its messages have a schedule: leave it out"):
        make_method("scheduled", PROBLEM, RING, "dit-4")
    for target in (1000.0, 1e-300):
        with pytest.raises(InputError, match=f"squared error of {target:g}, but the first is about"):
            make_method("scheduled", PROBLEM, RING, target=target)


def test_a_trace_names_the_quantizer_that_another_run_is_made_with():
    """Not the measured size of first errors, which would multiply that of the next run."""
    method = make_method("scheduled", PROBLEM, RING, target=1e-2, stepsizes="practical")
    trace = simulate(PROBLEM, RING, method, iterations=3)
    assert trace.settings["quantizer"] == "fading:1:0.97"


@pytest.mark.slow
@pytest.mark.parametrize("network", ["ring", "star"])
def test_a_schedule_that_was_found_reaches_its_target_with_the_bits_that_the_model_expects(network):
    nodes, network = 30, make_network(network, 30)
    kind, request = make_request(
        "scheduled", Consensus.random(nodes, 250), network, None, stepsizes="practical", target=1e-3
    )
    method, expected = kind.configure(request), expected_course(modes_of(request), scheduled_steps(request))
    count = method.table.theta.shape[0]
    for seed in range(3):
        problem = Consensus.random(nodes, 250, seed=seed)
        trace = simulate(problem, network, method, iterations=count, seed=seed, until=1e-3, record_every=1)
        assert trace.converged
        assert trace["error"][-1] == pytest.approx(expected.error, rel=0.1)
        assert trace["wire_bits_per_link"][-1] - 6 * 8 * count == pytest.approx(expected.bits.sum(), rel=0.1)
    assert (np.asarray(method.table.eta) <= 1 + 1e-9).all()
    assert (np.asarray(method.table.eta * method.table.theta) * network.lambda_max <= 1 + 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1 / 30, 30.0])
def test_a_wrong_scale_costs_bits_but_not_convergence(unit):
    method = make_method("scheduled", PROBLEM, RING, f"fading:{unit:.5g}:0.9", target=1e-3, stepsizes="practical")
    assert simulate(PROBLEM, RING, method, iterations=2000, until=1e-3).converged
    assert simulate(PROBLEM, RING, method, iterations=2000, until=1e-9).converged  # beyond the target of the schedule


@pytest.mark.slow
def test_it_converges_where_nodes_differ_from_the_model():
    samples = load_samples("breast-cancer").normalized_rows()
    logistic = Logistic.from_samples(samples, split_samples(samples, 8), samples.binary_labels(), 0.1)
    for problem in (LeastSquares.random(8, 20, condition=30.0), logistic):
        network = make_network("ring", 8)
        method = make_method("scheduled", problem, network, target=1e-4, stepsizes="practical")
        assert simulate(problem, network, method, iterations=20_000, until=1e-4).converged
