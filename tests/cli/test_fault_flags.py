"""Faults on the command line: flags, a file of faults, and one line for what cannot be."""

import json

import pytest
from command_line import run_command

RUN = (
    *("run", "--method", "edge-dual", "--problem", "least-squares", "--dim", 4, "--condition", 5, "--nodes", 6),
    *("--theta", 0.3, "--eta", 0.7, "--gamma", 2, "--alpha", 0.8, "--iterations", 400),
)


@pytest.fixture
def here(monkeypatch, capsys):
    """Run the command in this process."""
    return lambda *arguments: run_command(monkeypatch, capsys, *arguments)


def test_flags_and_a_file_say_the_same(here, tmp_path):
    (tmp_path / "faults.toml").write_text("drop = 0.4\n")
    results = []
    file = tmp_path / "faults.toml"
    for flags in (("--drop", 0.4), ("--faults", file), ("--faults", file, "--drop", 0.1)):
        done = here(*RUN, *flags, "--json", "-")
        assert done.status == 0, done.err
        results.append(json.loads(done.out))
    assert results[0]["error"] == results[1]["error"] != results[2]["error"]
    assert results[0]["messages"] == results[1]["messages"] < results[2]["messages"]
    assert results[0]["error"] < 1e-9


def test_delays_of_single_links_are_told(here, tmp_path):
    (tmp_path / "faults.toml").write_text('link_delays = [{link = [0, 1], delay = "1-2"}]')
    done = here(*RUN, "--faults", tmp_path / "faults.toml")
    assert done.status == 0, done.err
    assert "link 0-1 1-2 late; links spoke" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--drop", 2), "drop is 2"),
        (("--delay", "soon"), "delay is 'soon'"),
        (("--faults", "none.toml"), "the file of faults none.toml cannot be read"),
        (("--drop", 0.1, "--engine", "mpi"), "faults are simulated"),
        (("--drop", 0.1, "--encode"), "faults are simulated"),
        (
            ("--drop", 0.1, "--method", "tree", "--stepsizes", "practical"),
            "tree has no answer to links",
        ),
        (
            ("--delay", "1-2", "--method", "lead", "--stepsizes", "practical"),
            "lead has no answer to messages",
        ),
        (("--local-steps", 2, "--method", "lead"), "lead exchanges in every iteration"),
    ],
)
def test_what_cannot_be_is_one_line(here, flags, why):
    without = RUN[: RUN.index("--theta")] if "--method" in flags else RUN
    done = here(*without, *flags)
    assert (done.status, done.out) == (2, "")
    assert why in done.err
    assert done.err.count("\n") == 1


@pytest.mark.slow
def test_advice_is_for_the_faults(here):
    done = here("advise", *RUN[3:11], "--drop", 0.3, "--delay", "1-2", "--json", "-")
    assert done.status == 0, done.err
    expected = json.loads(done.out)["fewest"]["expected"]
    assert {row["method"] for row in expected} == {"edge-dual"}
    assert "--drop 0.3 --delay 1-2" in expected[0]["command"]
