"""A sweep: every lane ends as the same run does alone, however many run together and whatever becomes of the others."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from tiers import slow_but

from lessbits import Consensus, InputError, LeastSquares, make_method, make_network, primal_dual, simulate
from lessbits.engines.simulate import sweep as engine
from lessbits.engines.simulate.sweep import Budget, SweepOptions, sweep

NODES, DIM = 6, 5
STAR = make_network("star", NODES)


@cache
def setting(name):
    """A problem, a method, and step sizes that reach 1e-6, diverge at once or later, or do neither."""
    average = Consensus.random(NODES, DIM)
    if name == "B":
        thetas = (30.0, 0.01, 1.6, 31.0, 1.4, 32.0, 33.0, 34.0)
        return average, primal_dual(average, STAR, "dit-3", theta=1, eta=1), [{"theta": theta} for theta in thetas]
    if name == "choco":
        method = make_method("choco", average, STAR, "dit-3", gamma=0.5, eta=0.0, decay=0.0)
        return average, method, [{"gamma": gamma} for gamma in (30.0, 31.0, 0.3, 32.0)]
    regression = LeastSquares.random(NODES, DIM, samples=8, condition=4)
    method = primal_dual(regression, STAR, "exact", option="D", theta=0.1, eta=0.3)
    return regression, method, [{"theta": theta, "eta": eta} for theta, eta in ((0.3, 0.2), (0.1, 0.6), (100.0, 0.3))]


def run(name, budget, **options):
    problem, method, configurations = setting(name)
    return sweep(problem, STAR, method, configurations, budget, SweepOptions(**options))


def alone(name, sizes, budget, seed=0, every=1):
    """How the run ends by itself: the first record at which any part of the budget is spent."""
    problem, method, _ = setting(name)
    trace = simulate(
        problem,
        STAR,
        replace(method, **sizes),
        iterations=budget.iterations,
        seed=seed,
        until=budget.until,
        goal=budget.goal,
        record_every=every,
    )
    spent = np.zeros(len(trace), bool)
    spent[-1] = True
    for column, most in (("epochs", budget.epochs), ("bits_per_link", budget.bits)):
        spent |= trace[column] >= (np.inf if most is None else most)
    at = int(np.argmax(spent))
    ended = at == len(trace) - 1
    numbers = (int(trace["iteration"][at]), *(trace[column][at] for column in ("bits_per_link", "epochs", "error")))
    return trace.converged and ended, trace.diverged and ended, numbers, trace[budget.goal][at]


def same(outcome, expected):
    reached, diverged, numbers, value = expected
    assert (outcome.reached, outcome.diverged, outcome.cut) == (reached, diverged, False)
    mine = (outcome.iterations, outcome.bits_per_link, outcome.epochs, outcome.error)
    assert mine == pytest.approx(numbers, rel=1e-9)
    assert outcome.value == pytest.approx(value, rel=1e-9)


@pytest.mark.slow
def test_encoded_bits_are_those_of_a_run():
    problem = LeastSquares.random(NODES, 20, condition=3.0)
    method = primal_dual(problem, STAR, "dit-3", theta=0.2, eta=0.5)
    (outcome,) = sweep(problem, STAR, method, [{"theta": 0.3}], Budget(5000, until=1e-6), SweepOptions(encoded=True))
    trace = simulate(problem, STAR, replace(method, theta=0.3), iterations=5000, until=1e-6, record_every=1)
    assert outcome.iterations == pytest.approx(trace["iteration"][-1], abs=10)
    per_iteration = outcome.wire_bits_per_link / outcome.iterations
    assert per_iteration == pytest.approx(trace["wire_bits_per_link"][-1] / trace["iteration"][-1], rel=0.01)


def theta_of(outcome):
    return outcome.sizes["theta"]


# One lane runs in a program of its own; others are lanes of one, which get fewer as runs end.
@pytest.mark.parametrize(
    ("name", "width"), slow_but([("B", 1)], [("B", 1), ("B", 8), ("choco", 4), ("D", 1), ("D", 4)])
)
def test_every_lane_ends_as_it_does_alone(name, width):
    budget = Budget(900, until=1e-6)
    outcomes = run(name, budget, seed=3, width=width)
    expected = [alone(name, sizes, budget, seed=3) for sizes in setting(name)[2]]
    assert [outcome.sizes for outcome in outcomes] == setting(name)[2]
    assert all(outcome.seed == 3 for outcome in outcomes)
    for outcome, numbers in zip(outcomes, expected, strict=True):
        same(outcome, numbers)
    endings = {(outcome.reached, outcome.diverged) for outcome in outcomes}
    assert endings >= {(True, False), (False, True)}  # the settings do what they were chosen for


BUDGETS = [
    ("D", 1, Budget(900, epochs=3.4), 1),
    ("D", 4, Budget(900, epochs=3.4), 7),
    ("B", 8, Budget(900, bits=1500.0), 1),
    ("B", 1, Budget(900, bits=1500.0, until=1e-3), 1),
    ("B", 8, Budget(29), 10),
    ("choco", 4, Budget(25, epochs=1000, bits=1e9), 1),
]


@pytest.mark.parametrize(("name", "width", "budget", "every"), slow_but(BUDGETS[1:2], BUDGETS))
def test_a_run_ends_at_the_first_record_that_spends_the_budget(name, width, budget, every):
    outcomes = run(name, budget, width=width, record_every=every)
    for outcome in outcomes:
        same(outcome, alone(name, outcome.sizes, budget, every=every))
    ended = [outcome for outcome in outcomes if not outcome.reached and not outcome.diverged]
    assert ended
    for outcome in ended:
        spent = outcome.epochs >= (budget.epochs or np.inf) or outcome.bits_per_link >= (budget.bits or np.inf)
        assert spent or outcome.iterations == budget.iterations


@pytest.fixture
def widths(monkeypatch):
    """How many lanes ran together, each time that a batch was laid out."""
    seen, original = [], engine.empty_batch

    def spy(state, iteration, lanes, *others):
        seen.append(lanes)
        return original(state, iteration, lanes, *others)

    monkeypatch.setattr(engine, "empty_batch", spy)
    return seen


@pytest.mark.slow
def test_lanes_move_together_when_half_have_left_and_those_that_fill_up_count_for_no_run(widths):
    told = []
    outcomes = run("B", Budget(900, until=1e-6), width=8, finished=told.append)
    # Five diverge at once, so three go on in four lanes; two more end by iteration 30, and the last goes on alone.
    assert widths[:2] == [8, 4]
    assert widths[-1] == 1
    assert sorted(told, key=theta_of) == sorted(outcomes, key=theta_of)
    assert theta_of(told[-1]) == 0.01  # as they end, not as they were given
    for outcome in outcomes:
        same(outcome, alone("B", outcome.sizes, Budget(900, until=1e-6)))


def test_a_run_given_twice_is_two_runs():
    problem, method, _ = setting("B")
    first, second = sweep(problem, STAR, method, [{"theta": 0.6}] * 2, Budget(900, until=1e-6), SweepOptions(width=1))
    assert first == second
    assert first.bits_per_link == first.iterations * 94  # two messages of 5 × 3 + 32 bits


@pytest.mark.slow
def test_runs_stop_when_they_have_lost():
    told = []

    def limit():
        return min([900, *(2 * outcome.iterations for outcome in told if outcome.reached)])

    outcomes = run("B", Budget(900, until=1e-6), width=8, limit=limit, finished=told.append)
    cut = [outcome for outcome in outcomes if outcome.cut]
    fewest = min(outcome.iterations for outcome in outcomes if outcome.reached)
    assert [theta_of(outcome) for outcome in cut] == [0.01]
    assert 2 * fewest <= cut[0].iterations < 900
    _, _, numbers, value = alone("B", cut[0].sizes, Budget(cut[0].iterations))
    assert (cut[0].iterations, cut[0].bits_per_link, cut[0].epochs, cut[0].error) == pytest.approx(numbers)
    assert cut[0].value == pytest.approx(value)


def test_a_target_that_holds_at_the_start_takes_no_iterations():
    for width in (1, 8):
        for outcome in run("B", Budget(900, until=1e6), width=width):
            assert (outcome.reached, outcome.iterations, outcome.bits_per_link, outcome.epochs) == (True, 0, 0, 0)
            assert 0 < outcome.error <= 1e6


def test_a_step_size_that_cannot_be_run_is_refused_before_any_run():
    problem, method, _ = setting("B")
    with pytest.raises(InputError, match="nodes"):
        sweep(problem, make_network("star", NODES + 1), method, [{"theta": 1.0}], Budget(10))
    with pytest.raises(InputError, match="unknown goal 'eror'"):
        sweep(problem, STAR, method, [{"theta": 1.0}], Budget(10, until=1e-3, goal="eror"))


@pytest.mark.parametrize("double", [False, True])
def test_threads_have_the_precision_of_the_caller(double):
    """Each context is the opposite of what a thread would have by itself."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", not double)
    try:
        with jax.enable_x64(double):
            problem = Consensus.random(NODES, DIM)
            method = primal_dual(problem, STAR, "exact", theta=0.2, eta=0.5)
            (outcome,) = sweep(problem, STAR, method, [{"theta": 0.3}], Budget(20))
            trace = simulate(problem, STAR, replace(method, theta=0.3), iterations=20)
    finally:
        jax.config.update("jax_enable_x64", before)
    assert outcome.error == trace["error"][-1]
    assert (float(np.float32(outcome.error)) == outcome.error) != double
