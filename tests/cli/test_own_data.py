"""The page "Your own data": its Python and its commands run, on data as a user may have them; and what is refused."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas
import pytest
from command_line import run_command
from tiers import slow_but

from lessbits import Settings, build

PAGE = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text(encoding="utf-8")
ARRAYS, RUN, *OTHERS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SNIPPETS = [ARRAYS, *OTHERS]
COMMANDS = re.findall(r"^    (lessbits .+)$", PAGE, re.MULTILINE)
TITLES = ["arrays", "parts", "pandas", "sparse", "files", "graph", "held out"]
MINE = ["--problem", "logistic", "--data", "mine.csv", "--target", "outcome", "--site", "hospital"]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """The files that the page names, in the current folder."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    names = np.repeat(["Zürich", "Bern", "Basel", "Genève"], [9, 12, 10, 8])
    frame = pandas.DataFrame(
        {"hospital": names, "age": random.integers(30, 90, 39) / 10, "dose": random.normal(size=39)}
    )
    frame["outcome"] = np.where(frame.age + frame.dose + random.normal(size=39) > 6, "ill", "well")
    frame.to_csv("mine.csv", index=False)
    frame.to_parquet("mine.parquet")
    np.savez("mine.npz", X=frame[["age", "dose"]], y=frame.outcome.to_numpy(str), sites=names.astype(str))
    Path("mine.libsvm").write_text("1 1:0.5\n-1 2:1\n")
    Path("roads.txt").write_text("Basel Bern\nBern Genève\nBern Zürich\n", encoding="utf-8")
    for node, (_, part) in enumerate(frame.groupby("hospital")):
        part.drop(columns="hospital").to_csv(f"part-{node}.csv", index=False)
    return frame


@pytest.mark.parametrize("title", TITLES)
def test_the_pages_python_runs(title):
    names = {}
    exec(compile(ARRAYS, "own-data.md", "exec"), names)  # which imports, and makes X and y
    exec(compile(SNIPPETS[TITLES.index(title)], "own-data.md", "exec"), names)
    assert len(SNIPPETS) == len(TITLES)
    assert all(len(snippet.strip().splitlines()) <= 8 for snippet in SNIPPETS)
    if title != "files":
        assert names["problem"].nodes == names["network"].nodes
    if title in ("graph", "pandas"):
        assert names["samples"].site_names == ("Basel", "Bern", "Genève", "Zürich")
    if title == "graph":
        assert names["network"].names == names["samples"].site_names
    if title == "held out":
        assert names["test"].count == 8
        assert 0.4 < float(names["metrics"]["test_accuracy"](names["problem"].solution)) <= 1


@pytest.mark.parametrize("title", slow_but(["pandas"], [title for title in TITLES if title != "files"]))
def test_what_the_page_makes_can_be_run(title, capsys):
    names = {}
    exec(compile(ARRAYS, "own-data.md", "exec"), names)
    exec(compile(SNIPPETS[TITLES.index(title)], "own-data.md", "exec"), names)
    exec(compile(RUN, "own-data.md", "exec"), names)
    assert "reached error" in capsys.readouterr().out


@pytest.mark.parametrize("command", slow_but(COMMANDS[:2], COMMANDS))
def test_the_pages_commands_run(command, monkeypatch, capsys):
    found = run_command(monkeypatch, capsys, *shlex.split(command)[1:])
    assert found.status == 0, found.err
    assert found.out


def test_sites_of_a_file_are_the_nodes_of_a_run(files):
    settings = Settings(problem="logistic", data="mine.csv", target="outcome", site="hospital", theta=0.1, eta=0.1)
    made = build(settings.updated(network="roads.txt", test="0.2", normalize=True))
    assert (made.settings.nodes, made.settings.split, made.settings.features) == (4, "own", 2)
    assert np.asarray(made.network.degree).tolist() == [1, 3, 1, 1]  # Bern is the second by name
    assert np.asarray(made.problem.counts).tolist() == [8, 10, 6, 7]  # without the rows held out
    assert set(made.metrics) == {"test_loss", "test_accuracy"}
    again = build(made.settings)  # what a trace or a TOML file stores makes the same run
    np.testing.assert_array_equal(made.problem.targets, again.problem.targets)
    parts = build(Settings(problem="logistic", data="part-{node}.csv", target="outcome", theta=0.1, eta=0.1))
    whole = build(settings)
    assert parts.settings.nodes == whole.settings.nodes == 4
    np.testing.assert_array_equal(parts.problem.design.features, whole.problem.design.features)
    np.testing.assert_array_equal(parts.problem.targets, whole.problem.targets)
    tested = build(parts.settings.updated(test="mine.csv"))  # its column of sites is no feature of these
    assert tested.metrics


def test_a_test_file_is_read_and_scaled_like_the_data(files):
    files.iloc[:10].to_csv("test.csv", index=False)
    settings = Settings(problem="logistic", data="mine.csv", target="outcome", site="hospital", theta=0.1, eta=0.1)
    made = build(settings.updated(test="test.csv", normalize=True))
    rows = files[["age", "dose"]].to_numpy()[:10]
    rows, x = rows / np.linalg.norm(rows, axis=1, keepdims=True), np.array([0.3, -0.2])
    signs = np.where(files.outcome[:10] == "well", 1, -1)
    assert float(made.metrics["test_loss"](x)) == pytest.approx(np.mean(np.log1p(np.exp(-signs * (rows @ x)))))
    assert Settings.read({"test": 0.25, "data": "mine.csv"}).test == "0.25"


def test_held_out_samples_are_scaled_with_the_numbers_of_the_others(files):
    files.iloc[:10].to_csv("test.csv", index=False)
    settings = Settings(problem="logistic", data="mine.csv", target="outcome", site="hospital", theta=0.1, eta=0.1)
    made = build(settings.updated(test="test.csv", scale=True))
    values = files[["age", "dose"]].to_numpy()
    rows, x = values[:10] / values.std(axis=0), np.array([0.3, -0.2])
    signs = np.where(files.outcome[:10] == "well", 1, -1)
    assert float(made.metrics["test_loss"](x)) == pytest.approx(np.mean(np.log1p(np.exp(-signs * (rows @ x)))))


@pytest.mark.slow
def test_a_run_that_misses_its_target_says_that_columns_differ(files, monkeypatch, capsys):
    random = np.random.default_rng(1)
    files["pressure"] = random.normal(120, 10, len(files))
    files["dose"] *= 0.1
    files.to_csv("mine.csv", index=False)
    line = ("run", *MINE, "--stepsizes", "practical", "--until", "1e-9", "--iterations", 50)
    found = run_command(monkeypatch, capsys, *line)
    assert found.status == 0
    note = re.search(r"note: columns differ in size by ([\d,]+) times: give --scale", found.err)
    assert int(note[1].replace(",", "")) > 100
    assert "--method tree" in found.err
    assert "columns differ" not in run_command(monkeypatch, capsys, *line, "--quiet").err
    scaled = run_command(monkeypatch, capsys, *line, "--scale")
    assert "columns differ" not in scaled.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--data mine.csv", "which one to predict was not said: give its name as target, one of hospital, age, dose"),
        ("--data mine.csv --target outcome", "column 'hospital' holds no numbers"),
        ("--data mine.csv --target outcome --site hospital --ignore aeg", "for ignore: did you mean 'age'?"),
        ("--data mine.csv --target outcom --site hospital", "did you mean 'outcome'?"),
        ("--data mine.csv --target outcome --site hopsital", "did you mean 'hospital'?"),
        ("--data mine.csv --target outcome --site hospital --nodes 3", "the data have 4 sites, and each is a node"),
        ("--data mine.csv --target outcome --site hospital --split iid", "split is 'iid', but every site is a node"),
        ("--data mine.csv --target outcome --site hospital --network torus:3x3", "9 nodes, but there are 4 sites"),
        ("--data mine.csv --target outcome --site hospital --test 2", "held out is 2, but it must be above 0"),
        ("--data mine.csv --target outcome --site hospital --test no.csv", "there is no file 'no.csv'"),
        ("--data mine.libsvm --site hospital", "'mine.libsvm' has no named columns"),
        ("--data part-{node}.csv --target outcome --site hospital", "has one file per node already"),
        ("--data part-{node}.csv --target outcome --test 0.2", "test is 0.2, a share, but every node has a file"),
        ("--data part-{node}.csv --target outcome --scale", "scale was given, but every node has a file of its own"),
        ("--target outcome", "target was given, but there are no data"),
        ("--data absent.csv --target outcome", "there is no file 'absent.csv' in this folder"),
    ],
)
def test_mistakes_get_one_line_and_status_2(line, says, monkeypatch, capsys):
    found = run_command(monkeypatch, capsys, "run", "--problem", "logistic", *line.split())
    assert found.status == 2
    assert says in found.err
    assert found.err.count("\n") == 1


def test_info_describes_columns_classes_and_sites(monkeypatch, capsys):
    found = run_command(monkeypatch, capsys, "data", "info", "mine.csv", "--json", "-").json["columns"]
    assert [column["kind"] for column in found] == ["text", "numbers", "numbers", "text"]
    listed = run_command(monkeypatch, capsys, "data", "info", "mine.csv").out
    assert "lessbits data info mine.csv --target COLUMN [--site COLUMN]" in listed
    words = ["data", "info", "mine.csv", "--target", "outcome", "--site", "hospital"]
    facts = run_command(monkeypatch, capsys, *words, "--json", "-").json
    assert facts["sites"] == {"Basel": 10, "Bern": 12, "Genève": 8, "Zürich": 9}
    assert set(facts["labels"]) == {"ill", "well"}
    shown = run_command(monkeypatch, capsys, *words).out
    assert "--problem logistic --data mine.csv --target outcome --site hospital" in shown
