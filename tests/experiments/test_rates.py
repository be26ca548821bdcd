"""`reproduce rates` in its quick form: files, what they say, and that a rerun computes nothing."""

import itertools
import json

import numpy as np
import pytest

from lessbits.engines.recording.trace import Trace
from lessbits.experiments import phase, rate_methods, rate_options, rate_slopes
from lessbits.experiments.phase import fewest_iterations
from lessbits.experiments.rates import rates
from lessbits.experiments.results import Results

TABLES = ("slopes", "exponents", "table1", "table1_growth", "table1_exponents", "table2", "table2_floor", "phase")
MODULES = (phase, rate_methods, rate_options, rate_slopes)
FIGURES = ("slopes", "table1", "table1_growth", "table2", "phase")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    results = Results(tmp_path_factory.mktemp("reproduction") / "rates", "rates", quick=True, progress=False)
    rates(results)
    return results


def read(made, stem):
    return json.loads((made.folder / f"{stem}.json").read_text(encoding="utf-8"))


def made_up_run(problem, network, method, *, iterations, until=0.0, record_every=1, measures=(), **_):
    """A trace as theory has it: larger step sizes are faster, up to where noise lets them. Nothing is compiled."""
    size = float(getattr(method, method.step_size_names[0]))
    omega = max(each.omega(problem.dim) for each in method.compressors)
    noise = 12 * omega * max(network.weight) / network.lambda_max
    pace = 0.1 * size if size < 3 / (1 + noise) else -1e-6
    iteration = np.arange(0, iterations + 1, record_every)
    error = np.exp(-pace * iteration) + 1e-30
    end = 1 + int(np.argmax(error <= until)) if error[-1] <= until else len(error)
    columns = dict.fromkeys(("error", *measures), error[:end])
    return Trace({"iteration": iteration[:end], **columns}, np.zeros((1, 1)), error[end - 1] <= until, False, "", 0.0)


def check_files(made):
    for stem in TABLES:
        assert read(made, stem)
        assert (made.folder / f"{stem}.csv").stat().st_size > 100
    for stem in FIGURES:
        assert (made.folder / f"{stem}.png").stat().st_size > 10_000
        assert (made.folder / f"{stem}.svg").stat().st_size > 10_000
    summary = (made.folder / "summary.md").read_text(encoding="utf-8")
    assert all(line in summary for line in made.agrees + made.differs)


@pytest.mark.slow
def test_files_are_written_whatever_runs_come_to(monkeypatch, tmp_path):
    for module in MODULES:
        monkeypatch.setattr(module, "simulate", made_up_run)
    results = Results(tmp_path / "rates", "rates", quick=True, progress=False)
    rates(results)
    check_files(results)
    assert results.agrees
    assert results.differs  # a floor that does not shrink with the step size, for one


@pytest.mark.slow
def test_all_files_are_there(made):
    check_files(made)
    assert len(made.agrees) > 20


@pytest.mark.slow
def test_measured_rates_are_at_least_those_proven_over_a_decade_each(made):
    rows = read(made, "slopes")
    assert {row["option"] for row in rows} == {"A", "B", "D"}
    for row in rows:
        assert row["converged"]
        assert row["rate_lyapunov"] >= row["rate_theory"]
        assert row["rate_error"] >= row["rate_theory"]
    for fit in read(made, "exponents"):
        assert fit["to"] >= 10 * fit["from"]
        assert fit["exponent_measured"] <= fit["exponent_theory"] + 0.15


@pytest.mark.slow
def test_on_consensus_the_squared_error_falls_at_twice_the_proven_rate(made):
    """There the slowest mode is known: 1 - θλ_min an iteration, whatever is quantized."""
    ratios = [row["ratio_error"] for row in read(made, "slopes") if row["problem"] == "consensus"]
    assert np.allclose(ratios, 2, rtol=0.03)


@pytest.mark.slow
def test_dgd_choco_and_qdgd_are_sublinear_and_the_others_linear(made):
    linear = {row["method"]: row["linear"] for row in read(made, "table1")}
    for method, is_linear in linear.items():
        assert is_linear == method.startswith(("EXTRA", "gradient tracking", "primal-dual", "Algorithm 1"))
    assert len(linear) == 7
    for row in read(made, "table1"):
        if not row["linear"]:
            assert row["tau"] == pytest.approx(row["tau_paper"], rel=0.2)


@pytest.mark.slow
def test_only_option_c_stops_at_a_floor_that_grows_with_its_step_size(made):
    assert [row["converged"] for row in read(made, "table2")] == [True, True, False, True]
    floors = read(made, "table2_floor")
    assert all(0 < row["floor_measured"] <= row["floor_theory"] for row in floors)
    halved = [later["floor_measured"] / row["floor_measured"] for row, later in itertools.pairwise(floors)]
    assert np.allclose(halved, 0.5, atol=0.1)


@pytest.mark.slow
def test_compression_is_free_on_the_star_where_it_is_not_on_the_ring(made):
    slowdown = {(row["graph"], row["omega"]): row["slowdown"] for row in read(made, "phase")}
    for omega in (1, 3):
        assert slowdown["star", omega] <= 1.1 < slowdown["ring", omega]
    assert slowdown["ring", 15] > 3 * slowdown["star", 15]


@pytest.mark.slow
def test_a_second_call_computes_nothing(made, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a cell was computed again")

    for module in MODULES:
        monkeypatch.setattr(module, "simulate", refuse)
    again = Results(made.folder, "rates", quick=True, progress=False)
    rates(again)
    assert again.agrees == made.agrees
    assert again.differs == made.differs


@pytest.mark.parametrize("guess", [0.01, 0.5, 1.0, 30.0])
def test_the_search_finds_the_best_step_size_below_instability(guess):
    asked = []

    def run(size, most):
        asked.append(most)
        needed = int(1000 / size) if size < 1.3 else None
        return None if needed is None or needed > most else needed

    size, iterations = fewest_iterations(run, guess, 200_000, 10)
    assert (size, iterations) == (pytest.approx(10**0.1), 794)
    assert min(asked) >= 1


def test_the_search_says_when_nothing_converges():
    assert fewest_iterations(lambda size, most: None, 1.0, 100, 10) == (None, None)
