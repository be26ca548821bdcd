"""`fading`: noise by a schedule, whatever is sent; no scale travels, and runs are as stable as with exact messages."""

import numpy as np
import pytest
from quantizer_checks import SAMPLES, check_same_in_any_company, quantize, row_draws
from requests_for import inputs_for, prediction_for
from tiers import slow_but

from lessbits import Consensus, InputError, LeastSquares, make_network, make_quantizer, primal_dual, simulate
from lessbits.codecs import make_codec
from lessbits.errors import WireError
from lessbits.quantizers import Fading
from lessbits.theory.theorems import rate

FADING = make_quantizer("fading:0.5:0.9", 250)


def test_the_spacing_follows_the_schedule_until_nothing_is_left_to_send():
    for iteration in (0, 1, 7, 100, 500):
        wanted = 0.5 * 0.9**iteration
        assert wanted / 2 ** (1 / 16) <= float(FADING.spacing(iteration)) <= wanted * (1 + 1e-4 * (1 + iteration))
    assert 1e-34 < float(FADING.spacing(2**31 - 1)) < 1e-32
    assert make_quantizer("fading:3e-5:0.99999", 4).spacing(1000) == pytest.approx(3e-5 * 0.99, rel=0.05)


@pytest.mark.parametrize("iteration", [0, 30])
def test_the_error_has_the_declared_variance_whatever_the_vector_is(iteration):
    generator = np.random.default_rng(0)
    for vectors in (np.zeros((SAMPLES, 250)), generator.normal(size=(SAMPLES, 250)) ** 3, np.full((SAMPLES, 250), 0.1)):
        payload, decoded = quantize(FADING, vectors, row_draws(SAMPLES, iteration=iteration))
        error = (np.asarray(decoded) - vectors) / np.asarray(payload.spacing)[:, None]
        assert np.abs(error).max() <= 0.5 + 1e-6
        assert abs(error.mean()) < 6 * np.sqrt(1 / 12 / error.size)
        found = np.square(np.asarray(decoded) - vectors).sum(axis=1).mean()
        assert found == pytest.approx(FADING.variance(250, iteration), rel=0.01)


def test_a_row_is_rounded_alike_in_any_company():
    check_same_in_any_company(FADING, 250)


@pytest.mark.slow
def test_messages_of_small_vectors_are_short_and_no_scale_travels():
    codec = make_codec(FADING, 250)
    for deviation, bits in ((1e-3, 0.5), (0.5, 2.5), (50.0, 9.3)):
        vectors = deviation * np.random.default_rng(1).normal(size=(1, 250))
        draw = row_draws(1)
        payload, _ = quantize(FADING, vectors, draw)
        row = type(payload)(*(np.asarray(leaf)[0] for leaf in payload))
        key = np.asarray(codec.keys(draw))[0]
        assert len(codec.encode(row, key)) < bits * 250 / 8 + 3
        assert float(codec.expected_bytes(payload)[0]) == pytest.approx(len(codec.encode(row, key)), abs=1.5)
    late = np.asarray(codec.keys(row_draws(1, iteration=9)))[0]
    with pytest.raises(WireError, match="another iteration"):
        codec.encode(row, late)
    with pytest.raises(WireError, match="keys"):
        codec.decode(b"\1")
    other = make_codec(make_quantizer("fading:0.5:0.8", 250), 250)
    assert codec != other
    assert codec.mark() != other.mark()


@pytest.mark.slow
def test_a_schedule_that_runs_away_is_held_back_and_the_run_goes_on():
    """The factor is far below what the method can do: the grid is raised, and only bits are lost."""
    problem, network = Consensus.random(12, 20), make_network("ring", 12)
    method = primal_dual(problem, network, "fading:1:0.5", messages="broadcast", theta=0.5, eta=0.5)
    trace = simulate(problem, network, method, iterations=3000, until=1e-20, record_every=10)
    assert trace.converged
    encoded = simulate(problem, network, method, iterations=100, record_every=50, encode=True)
    assert np.array_equal(
        encoded["error"], simulate(problem, network, method, iterations=100, record_every=50)["error"]
    )
    assert (np.diff(encoded["wire_bits_per_link"]) / 50 < 20 * 24 + 8 * 10).all()


@pytest.mark.parametrize(
    ("spelling", "told"),
    [
        ("fading:1", "such as fading:1:0.95"),
        ("fading:a:b", "such as fading:1:0.95"),
        ("fading:0:0.9", "first spacing must be between"),
        ("fading:nan:0.9", "first spacing must be between"),
        ("fading:1:1", "factor must be from 0.5"),
        ("fading:1:0.4", "factor must be from 0.5"),
        ("fading:1:nan", "factor must be from 0.5"),
        ("rand-5+fading:1:0.9", "no composition"),
    ],
)
def test_mistakes_are_told(spelling, told):
    with pytest.raises(InputError, match=told):
        make_quantizer(spelling, 20)


def test_its_name_is_its_spelling():
    for spelling in ("fading:1:0.95", "fading:0.0314:0.9997", "fading:20000:0.5"):
        assert make_quantizer(spelling, 5).name == spelling


def test_theory_promises_no_faster_rate_than_the_noise_has():
    problem, network = Consensus.random(8, 10), make_network("complete", 8)
    for factor, faster in ((0.9999, False), (0.6, True)):
        setting = inputs_for(problem, network, make_quantizer(f"fading:1:{factor}", 10))
        exact = rate("B", setting._replace(fading=0.0))
        assert rate("B", setting) == pytest.approx(exact if faster else 1 - factor**2, rel=0.01)
        assert exact > 1 - 0.9999**2


MEMBERS = [("independent", False), ("broadcast", True), ("edge", False)]
RUNS = [(option, *member) for option in "ABD" for member in MEMBERS]


@pytest.mark.parametrize(("option", "messages", "corrected"), slow_but([RUNS[4]], RUNS))
def test_theorys_step_sizes_are_those_of_exact_messages_and_reach_1e_20(option, messages, corrected):
    problem, network = LeastSquares.random(8, 10, condition=4.0, samples=12), make_network("complete", 8)
    options = {"option": option, "messages": messages, "corrected": corrected}
    exact = primal_dual(problem, network, "exact", **options)
    method = primal_dual(problem, network, "fading:1:0.97", **options)
    assert (method.theta, method.eta, method.alpha) == (exact.theta, exact.eta, exact.alpha)
    trace = simulate(problem, network, method, iterations=20_000, until=1e-20, record_every=10)
    assert trace.converged, trace.message
    half = np.flatnonzero(trace["error"] < 1e-10)[0]
    assert 0.3 < trace["iteration"][half] / trace["iteration"][-1] < 0.65  # linear


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "messages", "corrected", "factor"),
    [("ring", "broadcast", True, 0.93), ("torus", "edge", False, 0.8)],
)
def test_practical_step_sizes_promise_the_pace_and_how_large_messages_are(network, messages, corrected, factor):
    problem, network = Consensus.random(36, 100), make_network(network, 36)
    quantizer = make_quantizer(f"fading:1.4:{factor}", 100)
    assert isinstance(quantizer, Fading)
    promise = prediction_for(problem, network, quantizer, messages=messages, corrected=corrected)
    assert promise.rate == pytest.approx(factor**2, rel=1e-4)
    method = primal_dual(problem, network, quantizer, messages=messages, corrected=corrected, stepsizes="practical")
    trace = simulate(problem, network, method, iterations=2000, until=1e-12, record_every=1)
    assert trace["iteration"][-1] == pytest.approx(promise.iterations(100 / 1e-12), rel=0.25)
    # Late messages have the spread that was promised: bits of a rounded Gaussian, within a third of a bit.
    sent = np.diff(trace["wire_bits_per_link"])[-20:].mean() - 7 * 8
    assert sent / 100 == pytest.approx(np.log2(np.sqrt(2 * np.pi * np.e * (promise.spread**2 + 1 / 12))), abs=0.35)
