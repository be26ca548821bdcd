"""`lessbits reproduce` for the paper's consensus experiments, small: files, claims, and what a rerun computes."""

import csv
import json

import pytest
from command_line import run_command
from tiers import slow_but

from lessbits.experiments import paper, results, table3, table4
from lessbits.experiments.results import Results
from lessbits.report.text import step_sizes_in_words

NAMES = ("table3", "fig1", "table4", "fig2")
FIGURES = {"table3": [], "fig1": ["fig1"], "table4": [], "fig2": ["fig2-ring", "fig2-star"]}
# Smaller still than the quick form, with one size for all and the same grids twice: programs and cells are shared.
GRIDS = {
    "primal-dual": {"theta": (0.4, 1.6, 5)},
    "choco": {"gamma": (0.2, 1.0, 5)},
    "qdgd": {"epsilon": (1e-4, 1e-3, 1), "alpha": (1.0, 10.0, 1)},
}
SIZES = [
    *((module, name, value) for module in (table3, table4) for name, value in (("QUICK_NODES", 20), ("QUICK_DIM", 30))),
    (table3, "QUICK_QUANTIZERS", ("exact", "dit-2", "rand-15")),
    (table4, "BUDGET", 5000),
    (table4, "PAPER_GRIDS", GRIDS),
    (table4, "FREE_GRIDS", {name: GRIDS[name] for name in ("primal-dual", "choco")}),
]


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in SIZES:
            patch.setattr(module, name, value)
        yield patch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduction") / "new" / "folder"


@pytest.fixture
def command(monkeypatch, capsys):
    return lambda *arguments: run_command(monkeypatch, capsys, *arguments)


@pytest.fixture
def again(command, folder):
    """Make one of them in the folder that all share."""
    return lambda name: command("reproduce", name, "--quick", "--out", folder)


@pytest.fixture(scope="module")
def made():
    """What each of them printed."""
    return {}


@pytest.fixture
def make(again, made):
    """Make one of them, unless a test before has."""

    def once(name):
        if name not in made:
            made[name] = again(name)
            assert made[name].status == 0, made[name].err
        return made[name]

    return once


@pytest.fixture
def computed(monkeypatch):
    """The cells that are computed."""
    seen, original = [], Results.cell

    def spy(self, key, inputs, compute):
        return original(self, key, inputs, lambda: (seen.append(key), compute())[1])

    monkeypatch.setattr(Results, "cell", spy)
    return seen


def read(folder, name):
    return json.loads((folder / name / f"{name}.json").read_text(encoding="utf-8"))


def cell(folder, key):
    (path,) = (folder / "cells").glob(f"{key}.json")
    return path


@pytest.mark.parametrize("name", slow_but(["fig1"], NAMES))
def test_files_are_there_and_say_the_same(make, folder, name):
    done = make(name)
    rows = read(folder, name)
    with (folder / name / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
        written = list(csv.DictReader(stream))
    assert [row["quantizer"] for row in written] == [row["quantizer"] for row in rows]
    for row, line in zip(rows, written, strict=True):
        assert list(row) == list(line)
        assert float(line["iterations"]) == row["iterations"] > 0
        assert float(line["bits_per_link"]) == row["bits_per_link"] > 0
    summary = (folder / name / "summary.md").read_text(encoding="utf-8")
    assert f"`lessbits reproduce {name} --quick`" in summary
    assert "quick form" in summary
    assert sum(line.startswith(("| ring ", "| star ")) for line in summary.splitlines()) == len(rows)
    for stem in FIGURES[name]:
        assert (folder / name / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / name / f"{stem}.svg").read_text(encoding="utf-8")
        assert f"![{stem}.png]({stem}.png)" in summary
    for path in (folder / name).iterdir():
        assert path.suffix == ".svg" or path.name == "summary.md" or f"[{path.name}]({path.name})" in summary
    assert done.out.startswith(f"{name}\n")
    assert "summary.md" in done.out.replace("\n", "")


def test_more_quantizers_are_free_on_the_star_than_on_the_ring(make, folder):
    make("fig1")
    make("table3")  # from the same cells
    rows = read(folder, "fig1")
    free = {
        network: [row["quantizer"] for row in rows if row["network"] == network and row["slowdown"] <= paper.FREE]
        for network in ("ring", "star")
    }
    assert free == {"ring": ["exact"], "star": ["exact", "dit-2", "rand-15"]}
    for row in rows:
        assert row["near"][f"{row['theta']:.3g}"] == row["iterations"] == min(row["near"].values())
    assert read(folder, "table3") == rows
    summary = (folder / "fig1" / "summary.md").read_text(encoding="utf-8")
    assert "## Holds in this small form\n\n- star: " in summary
    assert "## Does not agree" not in summary


@pytest.mark.slow
def test_at_the_papers_parameters_algorithm_1_needs_fewer_iterations_than_choco_and_qdgd_does_not_converge(
    make, folder
):
    make("fig2")
    rows = {
        (row["network"], row["method"], row["quantizer"]): row
        for row in read(folder, "fig2")
        if "(the paper's)" in row["parameters"]
    }
    assert len(rows) == 14
    for network in ("ring", "star"):
        for quantizer in ("dit-5", "dit-2"):
            ours, choco = (rows[network, method, quantizer] for method in ("Algorithm 1", "Choco"))
            assert ours["reached"]
            assert ours["iterations"] < choco["iterations"]
            qdgd = rows[network, "QDGD", quantizer]
            assert (qdgd["reached"], qdgd["iterations"]) == (False, 1000)
            assert qdgd["error"] > 1
    on_star = {key: row["bits_per_link"] for key, row in rows.items() if key[0] == "star" and row["reached"]}
    assert min(on_star, key=on_star.get) == ("star", "Algorithm 1", "dit-2")


@pytest.mark.slow
def test_what_is_tuned_stands_beside_the_papers(make, folder):
    make("table4")
    make("fig2")
    tuned = {(row["network"], row["method"], row["quantizer"]): row for row in read(folder, "table4")}
    assert len(tuned) == len(paper.TABLE_4)
    for (network, method, quantizer), sizes in paper.TABLE_4.items():
        row = tuned[network, table4.NAMES[method], quantizer]
        assert row["paper"] == step_sizes_in_words(sizes)
        assert row["ended"] == ("ended" if method == "qdgd" else "reached")
    free = [row for row in read(folder, "fig2") if "(tuned freely)" in row["parameters"]]
    assert len(free) == 8
    for row in free:  # the same grids here
        same = tuned[row["network"], row["method"], row["quantizer"]]
        assert (row["iterations"], row["bits_per_link"]) == (same["iterations"], same["bits_per_link"])


@pytest.mark.parametrize("name", slow_but(["fig1"], NAMES))
def test_a_second_call_computes_nothing_and_writes_the_same(make, again, folder, computed, name):
    make(name)
    before = {path: path.read_bytes() for path in (folder / name).iterdir()}
    computed.clear()
    done = again(name)
    assert (done.status, done.err, computed) == (0, "", [])
    assert {path: path.read_bytes() for path in before} == before


def test_an_edited_input_is_computed_again(make, again, folder, computed):
    make("table3")
    theirs = cell(folder, "table-3-20-nodes-star-dit-2")
    before = theirs.read_text(encoding="utf-8")
    computed.clear()
    theirs.write_text(before.replace('"inputs": "', '"inputs": "0'), encoding="utf-8")
    done = again("table3")
    assert computed == ["table 3, 20 nodes, star, dit-2"]
    assert done.err == "table3: table 3, 20 nodes, star, dit-2\n"
    assert json.loads(theirs.read_text(encoding="utf-8")) == json.loads(before)
    seen = Results(folder / "table3", "table3", quick=True)
    assert seen.kept("table 3, 20 nodes, star, dit-2", {"nodes": 21}) is None


@pytest.mark.parametrize(
    "damage",
    [
        *("", '{"key": "table 3'),
        pytest.param("[]"),
    ],
)
def test_a_damaged_cell_is_computed_again(tmp_path, damage):
    seen = Results(tmp_path / "table3", "table3", progress=False)
    assert seen.cell("a cell", {"nodes": 3}, lambda: {"theta": 1.5}) == {"theta": 1.5}
    path = cell(tmp_path, "a-cell")
    path.write_text(damage, encoding="utf-8")
    assert seen.cell("a cell", {"nodes": 3}, lambda: {"theta": 2.5}) == {"theta": 2.5}
    assert json.loads(path.read_text(encoding="utf-8"))["result"] == {"theta": 2.5}


def test_cells_hold_no_infinity(tmp_path):
    seen = Results(tmp_path / "table3", "table3", progress=False)
    kept = seen.cell("a cell", {}, lambda: {"value": float("inf"), "near": [float("nan"), 1.0]})
    assert kept == {"value": None, "near": [None, 1.0]} == seen.kept("a cell", {})


def test_an_unknown_name_gets_one_line(command, tmp_path):
    done = command("reproduce", "fig4", "--out", tmp_path / "none")
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "unknown reproduction 'fig4': did you mean 'fig" in done.err
    assert not (tmp_path / "none").exists()
    file = tmp_path / "file"
    file.write_text("")
    done = command("reproduce", "fig1", "--out", file)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)


def test_a_claim_that_fails_is_reported_as_such(tmp_path):
    seen = Results(tmp_path / "fig1", "fig1", progress=False)
    seen.claim(True, "this holds")
    seen.claim(False, "this does not")
    text = seen.summary("Title", "Text").read_text(encoding="utf-8")
    assert text.index("## Agrees") < text.index("this holds") < text.index("## Does not") < text.index("this does not")
    assert "--quick" not in text
    assert results.markdown_table([{"a": 1.23456, "b": None}, {"a": True, "c": "x"}]).splitlines() == [
        "| a | b | c |",
        "|---|---|---|",
        "| 1.235 | - | - |",
        "| yes | - | x |",
    ]
