"""`lessbits compare`: every method with every quantizer, ranked by bits, with a report."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run_command

import lessbits
from lessbits.engines.recording.trace import Trace
from lessbits.engines.simulate.run import simulate
from lessbits.methods.registry import all_methods, find_method
from lessbits.report.comparison_text import comparison_report
from lessbits.studies.compare import fine_grid, pairs
from lessbits.studies.options import METHODS, UNCOMPRESSED

PROBLEM = ("--network", "star", "--nodes", "8", "--dim", "10")
HEADER = 32  # bits of a message of known length


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command with results in a folder of this test."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: run_command(monkeypatch, capsys, "compare", *PROBLEM, "--out", tmp_path / "compared", *words)


def test_runs_are_ranked_by_bits_and_reported(compare: Any, tmp_path: Path) -> None:
    told = ("--methods", "primal-dual,extra,choco", "--quantizers", "dit-4,top-3,dit-2", "--until", "1e-4")
    found = compare(*told, "--json", "-", "--quiet")
    assert found.status == 0, found.err
    rows, refused = found.json["runs"], found.json["refused"]
    assert {(row["method"], row["quantizer"]) for row in rows} == {
        ("primal-dual", "dit-4"),
        ("primal-dual", "dit-2"),
        ("extra", "exact"),
        ("choco", "dit-4"),
        ("choco", "top-3"),
        ("choco", "dit-2"),
    }
    bits = [row["wire_bits_per_link"] for row in rows if row["ended"] == "reached"]
    assert bits == sorted(bits)
    assert len(bits) >= 4
    assert all(row["error"] <= 1e-4 for row in rows[: len(bits)])
    assert "biased" in refused["primal-dual with top-3"]
    traces = [Trace.load(path) for path in (tmp_path / "compared").glob("*.trace")]
    assert len(traces) == len(rows)
    text = (tmp_path / "compared" / "report.html").read_text(encoding="utf-8")
    assert text.count("<details>") == len(rows) + 1  # and further columns
    assert list(tmp_path.iterdir()) == [tmp_path / "compared"]  # nothing is written elsewhere


@pytest.mark.slow
def test_runs_can_be_ranked_by_the_time_that_slow_links_need(compare: Any, tmp_path: Path) -> None:
    told = ("--methods", "primal-dual,tree", "--quantizers", "float32,dit-4", "--rank", "seconds", "--messages", "edge")
    slow = compare(*told, "--bandwidth", 1e3, "--json", "-", "--quiet")
    assert slow.status == 0, slow.err
    times = [row["simulated_seconds"] for row in slow.json["runs"]]
    assert times == sorted(times)
    assert slow.json["verdict"].startswith("tree with dit-4")
    assert " reached error 0.001 in " in slow.json["verdict"]
    assert "times as fast as the next" in slow.json["verdict"]
    far = compare(*told, "--latency", 1, "--quiet")
    first = next(line for line in far.out.splitlines() if line.strip().startswith("1 "))
    assert "float32" in first  # the fewest exchanges
    assert "the fastest first" in far.out
    page = (tmp_path / "compared" / "report.html").read_text(encoding="utf-8")
    assert '"title": "simulated seconds"' in page
    refused = compare(*told)
    assert refused.status == 2
    assert "give --latency or --bandwidth" in refused.err


@pytest.mark.slow
def test_without_quantizers_each_method_has_its_own_and_float32(compare: Any) -> None:
    found = compare("--methods", "primal-dual,tree", "--json", "-", "--quiet").json
    bits = {(row["method"], row["quantizer"]): row["wire_bits_per_link"] for row in found["runs"]}
    of_tree = {"float32", find_method("tree").default_quantizer}
    assert set(bits) == {("primal-dual", name) for name in ("float32", "dit-4", "dit-2")} | {
        ("tree", name) for name in of_tree
    }
    assert found["refused"] == {}
    assert found["verdict"].startswith("tree with grid:10 reached error 0.001 with ")  # and not a number of chunks
    iterations = {(row["method"], row["quantizer"]): row["iterations"] for row in found["runs"]}
    assert bits["tree", "float32"] == (iterations["tree", "float32"] / 2) * (32 * 10 + HEADER)  # a link in turn
    assert bits["primal-dual", "float32"] == iterations["primal-dual", "float32"] * (32 * 10 + HEADER)  # once


@pytest.mark.slow
def test_numbers_that_are_not_compressed_say_how_many_bits_they_have(compare: Any) -> None:
    told = ("--methods", "tree,extra", "--quantizers", "exact,float32")
    found = compare(*told)
    assert "Exact messages are 64-bit numbers; those of float32 have half." in " ".join(found.out.split())
    names = [(row["method"], row["quantizer"]) for row in compare(*told, "--json", "-", "--quiet").json["runs"]]
    assert sorted(names) == [("extra", "exact"), ("tree", "exact"), ("tree", "float32")]
    found = compare(*told, "--precision", "32", "--json", "-", "--quiet").json["runs"]
    assert [row["quantizer"] for row in found if row["method"] == "tree"] == ["float32"]  # no two equal rows


def test_by_seconds_trees_are_tried_with_few_rounds_too(compare: Any) -> None:
    assert [fine_grid(target) for target in (100.0, 1e-10, 1e-30, 0.0)] == [
        "grid:1",
        "grid:300000",
        "grid:8000000",
        "grid:8000000",
    ]
    found = compare("--methods", "tree", "--rank", "seconds", "--latency", 0.1, "--json", "-", "--quiet").json
    rows = {row["quantizer"]: row for row in found["runs"]}
    assert set(rows) == {"float32", "grid:10", "grid:90"}
    assert rows["grid:90"]["iterations"] < rows["grid:10"]["iterations"]
    assert rows["grid:90"]["wire_bits_per_link"] < rows["float32"]["wire_bits_per_link"]


def test_every_method_takes_the_quantizers_that_it_is_compared_with() -> None:
    for method in all_methods():
        names = [quantizer for _, quantizer in pairs([method.name], None)]
        assert len(names) == len(set(names)) >= 1
        assert method.default_quantizer in names or not method.compresses
        assert ("float32" in names) == (method.takes_float32 or (method.compresses and method.name != "scheduled"))
        for name in names:
            method.check_quantizer(lessbits.make_quantizer(name, 50))


def test_the_table_names_the_fewest_bits_first(compare: Any) -> None:
    found = compare("--methods", "primal-dual", "--quantizers", "exact,dit-4", "--messages", "broadcast")
    assert found.status == 0, found.err
    lines = [line.split() for line in found.out.splitlines() if line[:1].isdigit() and "primal-dual" in line]
    assert [line[0] for line in lines] == ["1", "2"]
    assert "dit-4" in lines[0]
    assert lines[0][-1] == "1"
    assert "report.html" in found.out
    assert "primal-dual with dit-4" in found.err  # what it is doing


@pytest.mark.parametrize("goal", ["error", "suboptimality"])
def test_the_table_with_held_out_samples_fits_80_columns(
    goal: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = {"method": max(METHODS, key=len), "quantizer": UNCOMPRESSED, "choosing_bits_per_link": 0}
    row |= {"iterations": 10_000, goal: 1e-3, "wire_bits_per_link": 9.99e8, "ended": "missed"}
    row |= {"test_loss": 0.0123456, "test_accuracy": 0.98765}
    found = {"settings": {"problem": "logistic", "network": "ring"}, "runs": [row], "goal": goal, "until": 1e-3}
    comparison_report({**found, "verdict": "", "refused": {}}, 64, None)
    lines = capsys.readouterr().out.splitlines()
    shown = next(line.split() for line in lines if line.startswith("1  "))
    value = ["10,000", "1.0e-03", "999", "Mbit", "missed", "0.0123", "98.8%"]
    assert shown == ["1", row["method"], row["quantizer"], *value]
    headings = " ".join(lines[2:4]).split()
    assert {"method", "quantizer", "iter.", "link", "times", "loss", "acc."} <= set(headings)


@pytest.mark.slow
def test_tuned_step_sizes_need_no_more_iterations(compare: Any) -> None:
    told = ("--methods", "primal-dual", "--quantizers", "dit-4", "--json", "-", "--quiet")
    usual, tuned = (compare(*told, *more).json["runs"][0]["iterations"] for more in ((), ("--tuned",)))
    assert tuned <= usual


def test_several_seeds_have_a_mean_and_a_spread(compare: Any, tmp_path: Path) -> None:
    told = ("--methods", "primal-dual", "--quantizers", "dit-4", "--seeds", "3")
    found = compare(*told, "--json", "-", "--quiet").json["runs"][0]
    runs = [Trace.load(path) for path in sorted((tmp_path / "compared").glob("*.trace"))]
    assert [run.settings["seed"] for run in runs] == [0, 1, 2]
    bits = [run["wire_bits_per_link"][-1] for run in runs]
    assert found["wire_bits_per_link"] == pytest.approx(np.mean(bits))
    assert found["spread"]["wire_bits_per_link"] == pytest.approx(np.std(bits, ddof=1)) != 0
    assert found["reached"] == found["seeds"] == 3
    text = compare(*told, "--quiet").out
    assert "mean ± standard deviation of 3 seeds" in text
    assert " ± " in next(line for line in text.splitlines() if line.startswith("1 "))


def test_an_interrupted_comparison_goes_on(compare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ("--methods", "primal-dual", "--quantizers", "exact,dit-4,dit-2", "--quiet")
    done: list[str] = []

    def run(problem: Any, network: Any, method: Any, **options: Any) -> Trace:
        done.append(method.compressors[0].name)
        if len(done) == 2:
            raise KeyboardInterrupt
        return simulate(problem, network, method, **options)

    monkeypatch.setattr("lessbits.studies.compare.simulate", run)
    found = compare(*told)
    assert found.status == 130
    assert "the same command goes on from here" in found.err
    assert "exact" in found.out  # the run that had ended
    found = compare(*told, "--json", "-")
    assert found.status == 0
    assert done == ["exact", "dit-4", "dit-4", "dit-2"]
    assert {row["quantizer"] for row in found.json["runs"]} == {"exact", "dit-4", "dit-2"}
    compare(*told, "--until", "1e-4")
    assert done[4:] == ["exact", "dit-4", "dit-2"]  # another target is another run


def test_a_target_that_no_run_reaches_is_status_1(compare: Any) -> None:
    found = compare("--methods", "primal-dual", "--quantizers", "dit-4", "--iterations", "3", "--quiet")
    assert found.status == 1
    assert "no run reached the target" in found.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--methods", "magic"), "magic"),
        (("--methods", ","), "names nothing"),
        (("--method", "choco"), "--methods"),
        (("--theta", "1"), "No such option: --theta"),
        (("--seeds", "0"), "seeds is 0"),
        (("--methods", "primal-dual", "--quantizers", "top-3"), "none of these could be run"),
    ],
)
def test_mistakes_get_a_line(compare: Any, words: tuple[str, ...], said: str) -> None:
    found = compare(*words, "--quiet")
    assert found.status == 2
    assert said in found.err
    assert found.err.count("\n") == 1


def test_the_verdict_joins_all_seeds(compare: Any) -> None:
    told = ("--methods", "primal-dual", "--quantizers", "dit-4", "--seeds", "2", "--json", "-", "--quiet")
    found = compare(*told).json
    assert "mean of 2 seeds" in found["verdict"]
    assert "next" not in found["verdict"]  # it has no rival


@pytest.mark.slow
def test_a_comparison_goes_on_with_the_same_loss_and_not_with_another(tmp_path, monkeypatch):
    """The loss is made anew each time, as in another process; a number in its closure makes it another."""
    source = "def make(lam):\n return lambda x, sample: ((x - sample) ** 2).sum() + lam * (lambda y: y @ y)(x)"
    runs = []
    monkeypatch.setattr(
        "lessbits.studies.compare.simulate", lambda *a, **k: runs.append(1) or lessbits.simulate(*a, **k)
    )

    def compare(lam):
        made = {}
        exec(compile(source, "loss.py", "exec"), made)
        data = np.arange(12.0).reshape(4, 1, 3)
        problem = lessbits.Custom.make(made["make"](lam), data, 3, smoothness=2 + 2 * lam, convexity=2 + 2 * lam)
        network = lessbits.make_network("ring", 4)
        lessbits.compare(problem, network, methods=["dgd"], quantizers=["exact"], iterations=5, out=tmp_path)
        return len(runs)

    assert [compare(lam) for lam in (1.0, 1.0, 5.0)] == [1, 1, 2]
