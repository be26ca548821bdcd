"""Programs as a GPU gets them, run here: sums in the compiler's order and records of fixed length change no result."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lessbits import Consensus, make_method, make_network, simulate
from lessbits.engines.options import RunOptions
from lessbits.engines.simulate.program import Program
from lessbits.engines.simulate.sweep import Budget, SweepOptions, sweep

SIZES = {"theta": 0.02, "eta": 0.5, "alpha": 0.3}


@pytest.fixture
def as_if_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have programs made for a GPU, and forget them afterwards."""
    jax.clear_caches()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(
        "lessbits.engines.simulate.program.UNROLLED", 2
    )  # a CPU takes minutes to compile ten iterations in a row
    yield
    jax.clear_caches()


def results(precision: int) -> dict[str, np.ndarray]:
    """Runs whose last record is shorter than the others, on networks with one, several and many links a node."""
    found = {}
    with jax.enable_x64(precision == 64):
        for spelling, messages in (("ring", "broadcast"), ("star", "broadcast"), ("star", "edge")):
            problem, network = Consensus.random(40, 30), make_network(spelling, 40)
            method = make_method("primal-dual", problem, network, "dit-4", messages=messages, **SIZES)
            trace = simulate(problem, network, method, iterations=107, record_every=10)
            for column in ("iteration", "error", "consensus", "wire_bits_per_link"):
                found[f"{spelling} {messages} {column}"] = trace[column]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("precision", [32, 64])
def test_programs_for_a_gpu_give_the_same_results(request: pytest.FixtureRequest, precision: int) -> None:
    expected = results(precision)
    request.getfixturevalue("as_if_gpu")
    for name, column in results(precision).items():
        # Norms that differ in the last digit may round to another scale, and a level changes: not so in float64.
        np.testing.assert_allclose(column, expected[name], rtol=1e-9 if precision == 64 else 0.2, err_msg=name)


def exact_errors() -> np.ndarray:
    """A run without noise, in float32, to where rounding begins to show."""
    with jax.enable_x64(False):
        problem, network = Consensus.random(40, 30), make_network("star", 40)
        method = make_method("primal-dual", problem, network, "exact", theta=0.5, eta=0.5)
        return simulate(problem, network, method, iterations=30, record_every=10)["error"]


def test_sums_for_a_gpu_are_right_in_float32(request: pytest.FixtureRequest) -> None:
    expected = exact_errors()
    request.getfixturevalue("as_if_gpu")
    np.testing.assert_allclose(exact_errors(), expected, rtol=1e-4)


@pytest.mark.usefixtures("as_if_gpu")
@pytest.mark.parametrize(("iterations", "programs"), [(100, 1), (107, 2), (7, 1)])
def test_everything_is_compiled_before_the_clock_runs(iterations: int, programs: int) -> None:
    problem, network = Consensus.random(12, 6), make_network("ring", 12)
    method = make_method("primal-dual", problem, network, "dit-4", messages="independent", **SIZES)
    program = Program.of(problem, network, method, RunOptions(iterations=iterations, record_every=10))
    assert len(program.variants(0)) == programs
    strides = {variant.stride for variant in program.variants(0)}
    met, at = set(), 0
    while at < iterations:
        fitted = program.fit(at)
        met.add(fitted.stride)
        at = int(fitted.end_of_record(jnp.int32(at)))
    assert met == strides


@pytest.mark.usefixtures("as_if_gpu")
def test_a_run_for_a_gpu_stops_at_its_target() -> None:
    problem, network = Consensus.random(12, 6), make_network("ring", 12)
    method = make_method("primal-dual", problem, network, "dit-4", messages="independent", **SIZES)
    trace = simulate(problem, network, method, iterations=5003, until=1e-3, record_every=10)
    assert trace.converged
    assert trace["iteration"][-1] % 10 == 0
    assert trace["error"][-1] <= 1e-3 < trace["error"][-2]


@pytest.mark.usefixtures("as_if_gpu")
@pytest.mark.slow
def test_lanes_of_a_gpu_end_where_single_runs_do() -> None:
    """Several lanes in one program, the last record shorter."""
    problem, network = Consensus.random(20, 10), make_network("ring", 20)
    method = make_method("primal-dual", problem, network, "dit-4", messages="broadcast", **SIZES)
    sizes = [{"theta": theta} for theta in (0.01, 0.02, 0.03)]
    outcomes = sweep(problem, network, method, sizes, Budget(107), SweepOptions(record_every=10))
    for outcome in outcomes:
        told = {**SIZES, **outcome.sizes}
        alone = make_method("primal-dual", problem, network, "dit-4", messages="broadcast", **told)
        trace = simulate(problem, network, alone, iterations=107, record_every=10)
        assert outcome.iterations == 107
        assert outcome.error == pytest.approx(trace["error"][-1], rel=1e-6)
