"""Numbers so large that runs would overflow: one line that says what is too large, and what to do."""

import jax
import numpy as np
import pytest

from lessbits import (
    Consensus,
    InputError,
    LeastSquares,
    Logistic,
    Start,
    make_network,
    primal_dual,
    simulate,
)
from lessbits.engines.stopping import StopRule

NODES, DIM = 4, 3
RING = make_network("ring", NODES)
RANDOM = np.random.default_rng(0)
FEATURES = [RANDOM.uniform(-1, 1, size=(5, DIM)) for _ in range(NODES)]
NUMBERS = [np.full(5, 0.5)] * NODES
SIGNS = [np.array([1.0, -1, 1, -1, 1])] * NODES


def scaled(parts, factor):
    return [factor * part for part in parts]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Consensus.make(1e40 * np.ones((NODES, DIM))), "the vectors have values up to 1e+40, but in float64"),
        (lambda: LeastSquares.from_parts(scaled(FEATURES, 1e160), NUMBERS, 0.1), "the features have values"),
        (lambda: Logistic.from_parts(scaled(FEATURES, 1e160), SIGNS, 0.1), "divide them by a constant"),
        (lambda: LeastSquares.from_parts(FEATURES, scaled(NUMBERS, 1e40), 0.1), "the targets have values"),
        (lambda: LeastSquares.from_parts(FEATURES, NUMBERS, 1e308), r"regularization is 1e\+308, but it must be"),
        (lambda: Logistic.from_parts(FEATURES, SIGNS, 1e308), r"from 0 to 1e\+30"),
        (lambda: make_network(1e308 * (np.ones((3, 3)) - np.eye(3))), r"an entry 1e\+308, but weights must be"),
    ],
)
def test_too_large_numbers_are_refused(make, says):
    with pytest.raises(InputError, match=says.replace("1e+40", r"1e\+40")) as error:
        make()
    assert "\n" not in str(error.value)


def test_float32_has_less_room(in_float32):
    with pytest.raises(InputError, match=r"values up to 1e\+30, but in float32 .* 1e\+15: .*, or compute in float64"):
        Consensus.make(1e30 * np.ones((NODES, DIM)))


def test_a_start_whose_squared_distance_overflows_is_refused(in_float32):
    problem = Consensus.random(NODES, DIM)
    method = primal_dual(problem, RING, "exact", theta=0.3, eta=1)
    with pytest.raises(InputError, match="the error is inf at the start, as squares overflow float32: scale"):
        simulate(problem, RING, method, iterations=10, start=Start(x=1e30 * np.ones((NODES, DIM))))


@pytest.mark.parametrize("encode", [False, True])
def test_a_distance_beyond_the_range_of_scales_is_not_blamed_on_a_step_size(encode):
    problem = Consensus.random(NODES, DIM)
    start = Start(x=1e40 * np.ones((NODES, DIM)))
    method = primal_dual(problem, RING, "dit-4", theta=0.3, eta=1)
    with pytest.raises(InputError, match=r"start 2e\+40 away from .* compressed messages carry norms up to 1e\+30"):
        simulate(problem, RING, method, iterations=10, start=start, encode=encode)
    exact = primal_dual(problem, RING, "exact", theta=0.3, eta=1)
    assert not simulate(problem, RING, exact, iterations=10, start=start, encode=encode).diverged


def test_an_infinite_error_has_diverged_even_if_the_first_was_large(in_float32):
    rule = StopRule.of(10, None, "error", ("error",)).started({"error": 1e36}, 0.0).on_host()
    assert rule.diverged({"error": float("inf")})
    assert not rule.diverged({"error": 1e37})


def test_the_largest_numbers_allowed_run():
    problem = Consensus.make(1e29 * RANDOM.uniform(-1, 1, size=(NODES, DIM)))
    method = primal_dual(problem, RING, "dit-4", theta=0.3, eta=1)
    trace = simulate(problem, RING, method, iterations=200)
    assert not trace.diverged
    assert trace["error"][-1] < 1e-6 * trace["error"][0]
    assert jax.numpy.isfinite(trace.x).all()
