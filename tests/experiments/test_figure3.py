"""`lessbits reproduce table5` and `fig3`: logistic regression; where data are missing, nothing stands in for them."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import run_command
from tiers import slow_but

from lessbits import Samples
from lessbits.errors import InputError, MissingDataError
from lessbits.experiments import table5
from lessbits.experiments.figure3_methods import FULL_BATCH, STOCHASTIC
from lessbits.experiments.made_with import write_record
from lessbits.experiments.results import Results
from lessbits.experiments.tuned_before import keep_tuned, sizes_from_words

DATA = Path(__file__).parents[3] / "shared" / "data"  # as in conftest.py
LABELS = ("D-GD", "option B")


@pytest.fixture
def command(monkeypatch, capsys):
    return lambda *arguments: run_command(monkeypatch, capsys, *arguments)


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """A machine without data sets, and without a network."""

    def refuse(entry, *_, **__):
        raise MissingDataError(f"data set {entry.name!r} cannot be downloaded: put the file by hand into a folder")

    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("LESSBITS_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("lessbits.datasets.loading.download_samples", refuse)


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["fig3"], ["table5", "fig3"]))
def test_missing_data_are_asked_for_and_nothing_is_put_in_their_place(command, no_data, tmp_path, name):
    for flags, sets in ((("--quick",), ("w1a",)), ((), ("w1a", "w8a"))):
        out = tmp_path / f"out{len(sets)}"
        done = command("reproduce", name, "--out", out, *flags)
        assert done.status == 0
        assert not (out / name / f"{name}.json").exists()
        assert not list((out / "cells").glob("*.json"))
        assert not list((out / name).glob("*.png"))
        summary = (out / name / "summary.md").read_text(encoding="utf-8")
        for data in sets:
            line = f"{data}: the data are missing: data set {data!r} cannot be downloaded: put the file by hand"
            assert line in summary
        assert "## Agrees" not in summary
        assert "missing" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table5", "fig3"])
def test_without_w1a_to_tune_on_w8a_does_not_end_the_command(command, monkeypatch, tmp_path, name):
    random = np.random.default_rng(0)
    samples = Samples(random.normal(size=(32, 3)), np.repeat([-1, 1], 16), "w8a")

    def load(data, *_):
        if data == "w1a":
            raise MissingDataError("data set 'w1a' is not on this machine")
        return samples

    monkeypatch.setattr(table5, "load_samples", load)
    monkeypatch.setattr(table5, "EPOCHS", {"batch size 1": 2})
    monkeypatch.setattr(table5, "_claims", lambda *_: None)
    monkeypatch.setattr(table5, "ENTRANTS", {"batch size 1": [one for one in STOCHASTIC if one.label == "D-SGD"]})
    done = command("reproduce", name, "--out", tmp_path)
    assert done.status == 0
    assert "data set 'w1a' is not on this machine" in (tmp_path / name / "summary.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture
def few(w1a, monkeypatch, command, out):
    """Two of the methods for four epochs, on the real data."""
    monkeypatch.setenv("LESSBITS_DATA", str(DATA))
    monkeypatch.setattr(table5, "EPOCHS", {"full batch": 200})
    monkeypatch.setattr(table5, "QUICK_EPOCHS", {"full batch": 4})
    monkeypatch.setattr(table5, "ENTRANTS", {"full batch": [one for one in FULL_BATCH if one.label in LABELS]})
    monkeypatch.setattr(table5, "_claims", lambda *_: None)  # they need all methods
    return lambda name: command("reproduce", name, "--quick", "--out", out)


@pytest.mark.slow
def test_w1a_is_tuned_and_drawn(few, out):
    assert few("table5").status == 0
    tuned = json.loads((out / "table5" / "table5.json").read_text(encoding="utf-8"))
    assert [(row["data"], row["tuned_on"], row["method"]) for row in tuned] == [("w1a", "w1a", one) for one in LABELS]
    cells = sorted(path.name for path in (out / "cells").iterdir())
    assert len(cells) == 2
    done = few("fig3")
    assert done.status == 0
    assert "table 5" not in done.err  # its cells are shared
    drawn = json.loads((out / "fig3" / "fig3.json").read_text(encoding="utf-8"))
    assert {row["method"]: row["parameters"] for row in drawn} == {row["method"]: row["ours"] for row in tuned}
    values = {row["method"]: row["suboptimality"] for row in tuned}
    for row in drawn:
        assert row["iteration"] == 4  # epochs of one iteration each
        assert row["suboptimality"] == pytest.approx(values[row["method"]], rel=1e-6)
        assert 0 < row["suboptimality"] < np.log(2)
    assert [row["suboptimality"] for row in drawn] == sorted(values.values())
    for kind in ("png", "svg"):
        assert (out / "fig3" / f"fig3-w1a-full-batch.{kind}").stat().st_size > 10_000
    for name in ("table5", "fig3"):
        again = few(name)
        assert (again.status, again.err) == (0, "")


def claims(tmp_path, gradients, values):
    results = Results(tmp_path / "fig3", "fig3", progress=False)
    case = table5.Case(results, "w1a", gradients)
    rows = [{"method": label, "suboptimality": value, "error": value} for label, value in values.items()]
    table5._claims(results, case, rows)
    return results


def test_claims_follow_the_numbers(tmp_path):
    full = {"D-GD": 1e-2, "Choco, dit-3": 2e-2, "QDGD, dit-3": 3e-2, "option B": 1e-3, "option B, dit-3": 1.5e-2}
    found = claims(tmp_path, "full batch", full)
    assert found.agrees
    assert all("option B ends at 1.00e-03" in line and "D-GD at 1.00e-02" in line for line in found.agrees)
    assert found.differs
    assert all("option B, dit-3 ends at 1.50e-02" in line for line in found.differs)
    one = {"D-SGD": 1e-2, "Choco-SGD, dit-3": 1e-2, "QDGD, dit-3": 3e-2, "option C": 1e-2, "option C, dit-3": 9e-3}
    found = claims(tmp_path, "batch size 1", {**one, "option D": 1e-4, "option D, dit-3": 1e-3})
    assert found.agrees
    assert found.differs == []
    found = claims(tmp_path, "batch size 1", {**one, "option D": None, "option D, dit-3": 1e-4, "option C": 1e-9})
    assert all("option D" in line for line in found.differs)
    assert any(
        "option D, dit-3" in line for line in found.differs
    )  # a method that diverged has lost, others may have too


def test_w8a_at_batch_size_one_takes_the_parameters_of_w1a_unless_one_is_patient(tmp_path, monkeypatch):
    tried = []

    def tune(case, entrant, grid):
        tried.append((case.data, grid))
        return {"sizes": {"eta": 0.1}, "notes": []}

    monkeypatch.setattr(table5.Case, "_tune", tune)
    case = table5.Case(Results(tmp_path / "fig3", "fig3", progress=False), "w8a", "batch size 1")
    entrant = next(one for one in STOCHASTIC if one.label == "D-SGD")
    assert case.tuned(entrant)["on"] == "w1a"
    assert case.tuned(entrant, patient=True)["on"] == "w8a"
    assert [data for data, _ in tried] == ["w1a", "w8a"]
    assert tried[1][1] == {"eta": [0.0464159, 0.1, 0.215443]}
    assert case.tuned(entrant)["on"] == "w8a"  # once it is there
    assert len(tried) == 2


@pytest.mark.parametrize("quick", [False, True])
def test_a_search_that_was_stopped_goes_on_from_the_runs_that_had_ended(tmp_path, monkeypatch, quick):
    random = np.random.default_rng(0)
    samples = Samples(random.normal(size=(32, 3)), np.repeat([-1, 1], 16), "w1a")
    results = Results(tmp_path / "fig3", "fig3", quick, progress=False)
    case = table5.Case(results, "w1a", "batch size 1")
    case.take(samples)
    case.epochs = 2
    entrant = next(one for one in STOCHASTIC if one.label == "D-SGD")
    found = case.tuned(entrant)
    kept = results.cells / "outcomes.jsonl"
    assert kept.exists() is not quick
    if not quick:
        lines = kept.read_text(encoding="utf-8").splitlines()
        next(results.cells.glob("*.json")).unlink()
        assert case.tuned(entrant) == found
        assert kept.read_text(encoding="utf-8").splitlines() == lines  # nothing was run again


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A small Table 5 of two methods, made here."""
    random = np.random.default_rng(0)
    monkeypatch.setattr(
        table5, "load_samples", lambda data, _: Samples(random.normal(size=(32, 3)), np.repeat([-1, 1], 16), data)
    )
    monkeypatch.setattr(table5, "EPOCHS", {"full batch": 3})
    monkeypatch.setattr(table5, "ENTRANTS", {"full batch": [one for one in FULL_BATCH if one.label in LABELS]})
    results = Results(tmp_path / "first" / "table5", "table5", progress=False)
    table5.table5(results)
    return results


@pytest.mark.slow
def test_parameters_of_a_table_take_the_place_of_the_search(table, tmp_path, monkeypatch):
    write_record(table.folder, "table5")
    results = Results(tmp_path / "second" / "fig3", "fig3", progress=False)
    assert keep_tuned(results, table.folder) == 4  # two methods on two data sets
    monkeypatch.setattr(table5.Case, "_tune", lambda case, *_: pytest.fail(f"{case.data} is searched again"))
    for data in ("w1a", "w8a"):
        before, now = (table5.Case(each, data, "full batch") for each in (table, results))
        for entrant in now.entrants:
            found = now.tuned(entrant)
            assert found == {name: value for name, value in before.tuned(entrant).items() if name != "ranking"}
            assert len(found["sizes"]) == len(entrant.ranges)


def test_parameters_of_an_older_version_are_refused(table, tmp_path):
    results = Results(tmp_path / "second" / "fig3", "fig3", progress=False)
    with pytest.raises(InputError, match="older than this check"):
        keep_tuned(results, table.folder)
    assert not results.cells.exists()


def test_parameters_that_are_not_on_the_grid_are_refused():
    entrant = next(one for one in FULL_BATCH if one.label == "option B")
    assert sizes_from_words(entrant, "θ = 0.003162, η = 46.42") == {"theta": 0.00316228, "eta": 46.4159}
    with pytest.raises(InputError, match=r"0\.002 is not a value of a grid with 2 values per decade"):
        sizes_from_words(entrant, "θ = 0.002, η = 46.42")
