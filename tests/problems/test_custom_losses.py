"""Losses of one's own without a known optimum, and functions from outside: nothing hangs, and errors arrive whole."""

import traceback

import jax.numpy as jnp
import numpy as np
import pytest
from engines.threads import run_on
from tiers import slow_but

from lessbits import Custom, InputError, LeastSquares, Outside, PrimalDual, Stream, make_network, make_quantizer
from lessbits import simulate as simulate_plainly
from lessbits._internal import logging as lessbits_logging
from lessbits.problems import outside, reference

NODES, DIM = 4, 3
RING = make_network("ring", NODES)
METHOD = PrimalDual.make(make_quantizer("dit-4", DIM), 0.1, 0.3, dim=DIM)
DATA = np.random.default_rng(0).normal(size=(NODES, 5, DIM))


def squares(x, sample):
    return 0.5 * jnp.sum((x - sample) ** 2)


def valley(x, sample):
    """Not convex: x = 0 is a hill."""
    return jnp.sum(jnp.cos(x) * (2 + sample**2)) + 0.01 * x @ x


def hill(x, sample):
    """Not convex either, where Newton's method does not start."""
    return valley(x - 0.3, sample)


def slope(x, sample):
    """Falls for ever."""
    return jnp.sum(x * (1 + sample**2))


def simulate(problem, **options):
    return simulate_plainly(problem, RING, METHOD, iterations=20, **options)


def test_a_solution_is_computed_given_or_declined():
    mean = DATA.mean((0, 1))
    computed, given = (Custom.make(squares, DATA, DIM, solution=how) for how in ("compute", mean))
    np.testing.assert_allclose(computed.solution, mean, atol=1e-12)
    assert given.solution.tolist() == mean.tolist()
    for declined in (
        Custom.make(squares, DATA, DIM, solution=None),
        computed.without_solution(),
        Outside.make(lambda x, node: x, NODES, DIM, solution=None),
        Stream.make(lambda x, k, node: x, lambda x, node: x @ x, NODES, DIM, solution=None),
    ):
        assert not declined.has_solution
        assert not declined.restrict(np.array([0])).has_solution
        with pytest.raises(InputError, match=r"declines it \(solution=None\)"):
            _ = declined.solution
    assert computed.has_solution


def test_constants_of_a_loss_without_x_star_are_estimated_where_runs_start(monkeypatch):
    problem = Custom.make(squares, 3 * DATA, DIM, solution=None)
    assert (problem.smoothness, problem.convexity) == pytest.approx((1.0, 1.0))
    assert problem.sample_smoothness() == pytest.approx(1.0)
    hill = Custom.make(valley, DATA, DIM, solution=None)
    assert hill.convexity == 0.0
    assert hill.smoothness >= 2 - 0.02  # of a slope that falls, too
    monkeypatch.setattr(Custom, "largest_dense", 2)  # as for a large model: no Hessian is formed
    large = Custom.make(squares, DATA, DIM, solution=None)
    assert (large.smoothness, large.convexity) == pytest.approx((1.0, 0.0))
    trace = simulate(large, goal="gradient")
    assert trace["gradient"][-1] < trace["gradient"][0]
    with pytest.raises(InputError, match="give sample_smoothness"):
        large.sample_smoothness()


@pytest.mark.parametrize("dense", slow_but([True], [True, False]))
@pytest.mark.parametrize("loss", [valley, hill, slope])
def test_newton_gives_up_on_losses_without_a_minimum(loss, dense, monkeypatch):
    if not dense:
        monkeypatch.setattr(reference, "LARGEST_DENSE", 2)
    problem = Custom.make(loss, DATA, DIM)
    with pytest.raises(InputError, match=r"solution=None, problem.without_solution\(\)") as error:
        _ = problem.solution
    assert "\n" not in str(error.value)
    assert not simulate(problem.without_solution()).columns.get("error")


def test_newton_stops_where_it_gets_no_further():
    size = reference._Descent(reference.MeanLoss(Custom.make(squares, DATA, DIM), reference.SINGLE_PROCESS), 1e-12)
    assert not any(size.stalled(0.95**step) for step in range(10))  # it may have hard steps
    assert size.stalled(0.95**10)
    assert size.stalled(float("nan"))
    assert not size.stalled(1e-13)


def test_long_searches_say_what_they_do(monkeypatch, caplog):
    monkeypatch.setattr(lessbits_logging, "SLOW", 0.0)
    _ = Custom.make(squares, DATA, DIM).solution
    _ = Outside.make(lambda x, node: x - node, NODES, DIM).solution
    first, second = caplog.messages[0], caplog.messages[-1]
    assert first.startswith("finding the solution x* in 3 dimensions; to do without it: solution=None (gradient norm")
    assert "gradients from outside" in second


def test_a_search_with_outside_gradients_is_bounded(monkeypatch):
    monkeypatch.setattr(outside, "MOST_CALLS", 30)
    for gradient in (lambda x, node: np.sign(x) + 0.5 + 0 * x, lambda x, node: np.ones(DIM)):
        with pytest.raises(InputError, match="was not found: give solution"):
            _ = Outside.make(gradient, NODES, DIM).solution


class DiskGoneError(Exception):
    pass


@pytest.mark.parametrize("engine", ["compiled", "encoded", "ranks"])
def test_an_error_in_an_outside_function_arrives_as_itself(engine):
    calls = []

    def gradient(x, node):
        calls.append(node)
        if len(calls) > 40 and node == 2:
            raise DiskGoneError("no such drive")
        return x - node

    problem = Outside.make(gradient, NODES, DIM, solution=np.full(DIM, 1.5), smoothness=1.0)
    runs = {
        "compiled": lambda: simulate(problem, record_every=1),
        "encoded": lambda: simulate(problem, encode=True, record_every=1),
        "ranks": lambda: run_on(2, problem, RING, METHOD, 50),
    }
    with pytest.raises(DiskGoneError, match="no such drive") as error:
        runs[engine]()
    assert "in gradient" in "".join(traceback.format_tb(error.value.__traceback__))
    assert "XlaRuntimeError" not in "".join(traceback.format_exception(error.value))
    assert calls.count(2) < 20  # it is not asked again


def test_an_error_outside_of_compiled_code_arrives_too():
    def gradient(x, node):
        raise DiskGoneError

    problem = Outside.make(gradient, NODES, DIM, solution=np.zeros(DIM))
    with pytest.raises(DiskGoneError):
        problem.gradient(jnp.zeros((NODES, DIM)))


def test_an_outside_function_gets_the_dtype_that_it_wants(in_float32):
    """Whatever JAX computes in."""
    kinds = []

    def gradient(x, node):
        kinds.append(x.dtype)
        return (x - node).astype(np.float32).tolist()  # any kind of numbers will do

    problem = Outside.make(gradient, NODES, DIM, solution=np.full(DIM, 1.5))
    assert simulate(problem).x.dtype == np.float32
    assert set(kinds) == {np.dtype(np.float64)}
    Outside.make(gradient, NODES, DIM, dtype=np.float32).gradient(jnp.zeros((NODES, DIM)))
    assert kinds[-1] == np.float32
    with pytest.raises(InputError, match="dtype is int64"):
        Outside.make(gradient, NODES, DIM, dtype=int)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (np.zeros(7), r"gradient of node 2 has shape \(7,\), but it must be \(3,\)"),
        (np.full(DIM, np.nan), "gradient of node 2 has NaN or infinite values at a finite x"),
        (None, "gradient of node 2 is a NoneType that holds no real numbers"),
        (np.ones(DIM) * 1j, "gradient of node 2 is a ndarray that holds no real numbers"),
    ],
)
def test_a_wrong_answer_from_outside_names_its_node(answer, says):
    problem = Outside.make(
        lambda x, node: answer if node == 2 else x - node, NODES, DIM, solution=np.full(DIM, 1.5), smoothness=1.0
    )
    for encode in (False, True):
        with pytest.raises(InputError, match=says) as error:
            simulate(problem, encode=encode)
        assert "\n" not in str(error.value)


def test_a_wrong_loss_from_outside_names_its_node():
    problem = Outside.make(lambda x, node: x, NODES, DIM, loss=lambda x, node: x, solution=np.zeros(DIM))
    with pytest.raises(InputError, match="the outside loss of node 0 has shape"):
        simulate(problem)


@pytest.mark.parametrize("solution", ["known", np.zeros(2), np.full(DIM, np.nan)])
def test_a_solution_that_cannot_be_is_refused(solution):
    with pytest.raises(InputError, match="solution"):
        Custom.make(squares, DATA, DIM, solution=solution)


def test_a_solution_that_was_given_is_used_on_ranks_too(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("x* was computed")

    monkeypatch.setattr(reference, "minimise", refuse)
    monkeypatch.setattr("lessbits.problems.base.minimise", refuse)
    problem = LeastSquares.random(NODES, DIM)
    custom = Custom.make(squares, DATA, DIM, solution=DATA.mean((0, 1)))
    assert np.isfinite(run_on(2, custom, RING, METHOD, 5)[0]["error"]).all()
    assert run_on(2, problem.without_solution(), RING, METHOD, 5)[1].metric == "gradient"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"smoothness": -1.0}, "smoothness is -1, but it must be a finite number above 0"),
        ({"sample_smoothness": 0}, "sample_smoothness is 0"),
        ({"convexity": -1.0}, "convexity is -1"),
        ({"convexity": "1"}, "convexity is '1'"),
        ({"smoothness": 1.0, "convexity": 2.0}, "convexity is 2 and smoothness 1, but μ is at most L"),
    ],
)
def test_constants_that_no_loss_has_are_refused_when_the_problem_is_made(given, said):
    made = {
        "outside": lambda: Outside.make(lambda x, node: x, nodes=3, dim=2, solution=None, **given),
        "custom": lambda: Custom.make(lambda x, s: s @ x, np.ones((3, 4, 2)), dim=2, solution=None, **given),
        "stream": lambda: Stream.make(
            lambda x, k, node: x, lambda x, node: (x**2).sum(), nodes=3, dim=2, solution=None, **given
        ),
    }
    for make in made.values():
        with pytest.raises(InputError) as raised:
            make()
        assert said in str(raised.value)
