"""The command `lessbits tune`: what it prints and writes, and that its winner runs as it was ranked."""

import csv
import json

import pytest
from command_line import run_command

from lessbits.tuning import fewest_bits, ranking_table
from lessbits.tuning.records import Records

SMALL = ("--network", "star", "--nodes", 6, "--dim", 5, "--eta", 1, "--quantizer", "dit-3", "--iterations", 2000)
SEARCH = (*SMALL, "--until", 1e-6, "--search", "theta=0.05,1.2,1.4,1.6,1.8,3,1e200", "--no-grow")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))  # without --out, results go to out/tune
    return lambda *arguments: run_command(monkeypatch, capsys, *arguments)


def strict(text):
    return json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


def test_a_ranked_table_is_printed(command):
    result = command("tune", *SEARCH)
    assert result.status == 0
    where = "lessbits: every outcome is stored in out/tune; the same search goes on from there\n"
    assert result.err == where + "lessbits: 7 runs, seed 0\n"
    assert "Held fixed: η = 1 (given), α = 0.7619 (derived)." in result.out
    table = [line.split() for line in result.out.splitlines()]
    ranked = [(int(words[0]), float(words[1]), words[2]) for words in table if len(words) > 2 and words[2] == "reached"]
    assert [number for number, _, _ in ranked] == [1, 2, 3, 4]
    assert ranked[0] == (1, 1.6, "reached")
    assert "3 more were no better: 1 stopped because others had won, 2 diverged." in result.out
    assert "Take --theta 1.6 --eta 1.0 --alpha 0.7619" in result.out
    assert ", or lessbits run out/tune/best.toml." in result.out
    assert command("tune", *SEARCH, "--quiet") == (0, result.out, "")


def test_the_json_holds_numbers_only(command):
    result = command("tune", *SEARCH, "--json", "-")  # two of the candidates diverge, one is stopped
    rows = result.json["candidates"]
    assert [row["ended"] for row in rows] == ["reached"] * 4 + ["beaten"] + ["diverged"] * 2
    assert [row["theta"] for row in rows if row["value"] is None] == [0.05, 1e200]
    assert result.json["best"] == rows[0]
    assert (result.json["aim"], result.json["searched"], result.json["notes"]) == ("iterations", ["theta"], [])
    assert result.json["settings"]["theta"] == rows[0]["theta"] == 1.6


def test_out_keeps_everything_and_the_winner_runs_as_it_was_ranked(command, tmp_path):
    out = tmp_path / "new" / "tuned"
    found = command("tune", *SEARCH, "--seed", 4, "--out", out, "--json", "-").json
    assert sorted(path.name for path in out.iterdir()) == ["best.toml", "outcomes.jsonl", "ranking.csv", "ranking.json"]
    assert len((out / "outcomes.jsonl").read_text().splitlines()) == 7
    with (out / "ranking.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row, candidate in zip(rows, found["candidates"], strict=True):
        assert (float(row["theta"]), row["ended"]) == (candidate["theta"], candidate["ended"])
        assert float(row["iterations"]) == candidate["iterations"]
    again = command("run", out / "best.toml", "--json", "-").json
    assert again["settings"]["seed"] == 4
    for name in ("iterations", "error", "bits_per_link"):
        assert again[name] == pytest.approx(found["best"][name], rel=1e-9)


def test_the_ranking_holds_strict_json(command, tmp_path):
    found = command("tune", *SEARCH, "--out", tmp_path, "--json", "-").json
    ranking = strict((tmp_path / "ranking.json").read_text())
    assert ranking["candidates"] == found["candidates"]


def test_the_outcomes_hold_strict_json(command, tmp_path):
    command("tune", *SEARCH, "--out", tmp_path)
    for line in (tmp_path / "outcomes.jsonl").read_text().splitlines():
        strict(line)


def test_a_second_call_goes_on_from_the_folder(command, tmp_path, monkeypatch):
    first = command("tune", *SEARCH, "--out", tmp_path)
    monkeypatch.setattr("lessbits.tuning.runs.sweep", None)  # nothing may run
    second = command("tune", *SEARCH, "--out", tmp_path)
    assert second == (0, first.out, "")
    assert "or lessbits run" in first.out


def test_without_a_target_the_lowest_value_is_looked_for(command):
    result = command(
        *("tune", *SMALL, "--search", "theta=0.4,0.8", "--epochs", 20, "--per-decade", 2, "--seeds", 2),
        *("--no-grow", "--json", "-"),
    ).json
    assert result["aim"] == "value"
    assert [row["theta"] for row in result["candidates"]] == [0.8, 0.4]
    assert [row["epochs"] for row in result["candidates"]] == [20, 20]
    assert "the best theta is the largest tried" in result["notes"][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["thetta"], "unknown step size 'thetta': did you mean 'theta'?"),
        (["thetta=1,2"], "unknown step size 'thetta'"),
        (["gamma=1"], "gamma"),
        (["theta="], "'theta=' is no grid"),
        (["theta=1,two"], "'theta=1,two' is no grid"),
        (["theta=1,,2"], "'theta=1,,2' is no grid"),
        (["theta=-1"], "theta"),
        (["theta=nan"], "theta"),
        (["theta=1,inf"], "theta"),
        ([""], "unknown step size ''"),
        (["nodes=5"], "nodes"),
        pytest.param(["option=1"], "option"),
    ],
)
def test_a_bad_search_gets_one_line(command, words, message):
    result = command("tune", *SMALL, "--until", 1e-6, *(part for word in words for part in ("--search", word)))
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("lessbits: ")
    assert result.err.count("\n") == 1
    assert message in result.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--aim", "bits"), "Give --until"),
        (("--aim", "value", "--until", 1), "has no meaning: leave it out"),
        (("--aim", "speed"), "unknown aim 'speed'"),
        (("--per-decade", 0), "per_decade is 0"),
        (("--seeds", 0), "seeds is 0"),
        (("--epochs", 0), "epochs is 0"),
        (("--bits", -1), "bits is -1"),
        (("--bits", "nan"), "bits is nan"),
        (("--out", __file__), "is a file, but results go into a folder"),
    ],
)
def test_a_bad_budget_gets_one_line(command, flags, message):
    result = command("tune", *SMALL, "--search", "theta", *flags)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("lessbits: ")
    assert result.err.count("\n") == 1
    assert message in result.err


def test_the_range_over_seeds_is_shown(command):
    flags = (*SMALL, "--until", 1e-6, "--search", "theta=1.4,1.6", "--no-grow", "--seeds", 3)
    result = command("tune", *flags)
    assert "means of 3 seeds" in result.out
    found = command("tune", *flags, "--json", "-").json
    best = found["best"]
    assert best["iterations_min"] <= best["iterations"] <= best["iterations_max"]
    assert f"({best['iterations_min']:g} to {best['iterations_max']:g})" in " ".join(result.out.split())


# A search starts from practical step sizes, changes all of them, and says which it did not.

LEAD = ("--problem", "least-squares", "--nodes", 6, "--dim", 10, "--condition", 30, "--method", "lead")
LEAD = (*LEAD, "--quantizer", "dit-2", "--until", 1e-6, "--iterations", 3000)


@pytest.mark.slow
def test_a_tuned_lead_is_no_worse_than_an_untuned_one(command):
    """Once α was frozen at theory's value, and the best of 81 was worse than practical step sizes."""
    untuned = command("run", *LEAD, "--stepsizes", "practical", "--json", "-").json
    found = command("tune", *LEAD, "--json", "-").json
    assert (found["searched"], found["fixed"]) == (["gamma", "eta", "alpha"], {})
    assert found["best"]["ended"] == "reached"
    assert found["best"]["iterations"] < 0.9 * untuned["iterations"]
    frozen = command("tune", *LEAD, "--search", "eta", "--search", "gamma", "--json", "-").json
    assert frozen["fixed"]["alpha"]["from"] == "practical"
    assert found["best"]["iterations"] <= frozen["best"]["iterations"] <= untuned["iterations"]
    assert found["chosen_with"]["trials"] >= 1


def test_step_sizes_that_are_given_are_held_fixed(command):
    result = command("tune", *SMALL, "--until", 1e-6, "--theta", 1.4, "--no-grow", "--per-decade", 2)
    assert "Held fixed: θ = 1.4 (given), η = 1 (given)." in result.out
    all_given = command("tune", *SMALL, "--until", 1e-6, "--theta", 1.4, "--alpha", 0.5)
    assert all_given.status == 2
    assert "no step size of primal-dual is left to search" in all_given.err
    proven = ("--stepsizes", "theory", "--search", "theta=1,1.6", "--no-grow", "--json", "-")
    assert command("tune", *SMALL, "--until", 1e-6, *proven).json["fixed"]["eta"]["from"] == "given"


@pytest.mark.slow
def test_the_flags_to_take_give_the_run_that_won(command):
    """Once they left out α, which was held fixed, and the run took theory's."""
    frozen = (*LEAD, "--search", "eta", "--search", "gamma", "--per-decade", 3)
    result = command("tune", *frozen)
    take = next(line for line in result.out.splitlines() if line.startswith("Take "))
    flags = take.removeprefix("Take ").partition(",")[0].split()
    assert flags[::2] == ["--eta", "--gamma", "--alpha"]
    again = command("run", *LEAD, *flags, "--json", "-").json
    assert again["iterations"] == command("tune", *frozen, "--json", "-").json["best"]["iterations"]


def test_candidates_without_a_row_are_all_counted(monkeypatch):
    monkeypatch.setattr(ranking_table, "MAX_RANKED", 1)
    rows = [{"ended": ended} for ended in ("reached", "reached", "ended", "beaten", "beaten", "diverged")]
    words = "5 more were no better: 1 reached the target later, 1 ended without reaching it, "
    assert ranking_table.count_others(rows) == words + "2 stopped because others had won, 1 diverged."


# Interrupts.


def interrupt_after(monkeypatch, count):
    """Press Ctrl-C when this many outcomes are stored."""
    stored, original = [], Records.add

    def add(self, outcome):
        original(self, outcome)
        stored.append(outcome)
        if len(stored) == count:
            raise KeyboardInterrupt

    monkeypatch.setattr("lessbits.engines.simulate.sweep.default_workers", lambda *_: 1)
    monkeypatch.setattr(Records, "add", add)


def test_an_interrupted_search_shows_the_best_so_far_and_goes_on(command, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3)
        result = command("tune", *SEARCH)
    assert result.status == 130
    assert "Best of 3 so far" in result.out
    assert "this is the best so far: run the same command to go on from out/tune" in result.err
    after = command("tune", *SEARCH)
    assert after.status == 0
    assert "lessbits: 4 runs, seed 0" in after.err
    assert "so far" not in after.out


@pytest.mark.slow
def test_an_interrupted_search_for_the_fewest_bits_goes_on_too(command, monkeypatch):
    line = [
        "tune",
        "--nodes",
        5,
        "--dim",
        8,
        "--network",
        "star",
        "--method",
        "tree",
        "--goal",
        "bits",
        "--until",
        1e-6,
    ]
    with monkeypatch.context() as patch:
        interrupt_after(patch, 12)
        result = command(*line)
    assert result.status == 130
    assert "so far" in result.out
    assert "every outcome is stored in out/tune; the same search goes on from there" in result.err
    ran = []

    def spy(*arguments, original=fewest_bits.sweep):
        ran.extend(arguments[3])
        return original(*arguments)

    monkeypatch.setattr(fewest_bits, "sweep", spy)
    whole = command(*line, "--json", "-").json
    assert len(ran) == len(whole["candidates"]) - 12
    ran.clear()
    assert command(*line, "--json", "-").json == whole
    assert not ran
