"""Results say what they were made with, and a check tells which of them this version would make differently."""

import json
from pathlib import Path

import pytest
from command_line import run_command

from lessbits.errors import InputError
from lessbits.experiments import REPRODUCTIONS, made_with, stale_results
from lessbits.networks import make_network

ONE = (("consensus", made_with.ALGORITHM_1[1]),)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A folder with the record of one experiment, made of one short run."""
    monkeypatch.setattr(made_with, "PROBES", dict.fromkeys(made_with.PROBES, ONE))
    (tmp_path / "fig1").mkdir()
    made_with.write_record(tmp_path / "fig1", "fig1")
    return tmp_path


def test_every_reproduction_has_short_runs():
    assert set(made_with.KINDS) == set(REPRODUCTIONS)
    assert set(made_with.KINDS.values()) == set(made_with.PROBES)


def test_what_this_version_made_is_up_to_date(recorded):
    assert stale_results("fig1", recorded) == {"fig1": None}
    assert stale_results("all", recorded)["fig2"] == "missing"


def test_other_numbers_make_results_stale(recorded, monkeypatch):
    monkeypatch.setattr(made_with, "make_network", lambda name, nodes: make_network("path", nodes))
    assert "consensus: primal-dual B dit-2" in stale_results("fig1", recorded)["fig1"]
    with pytest.raises(InputError, match="cells of another version"):
        made_with.keep_cells_of_one_version(recorded / "fig1", "fig1")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda file: file.unlink(), "older than this check"),
        (lambda file: file.write_text("{"), "cannot be read"),
        (lambda file: file.write_text("[]"), "not one of this version"),
        (lambda file: file.write_text(json.dumps({**json.loads(file.read_text()), "precision": "float32"})), "float32"),
    ],
)
def test_records_that_say_nothing_or_something_else(recorded, change, reason):
    change(recorded / "fig1" / made_with.NAME)
    assert reason in stale_results("fig1", recorded)["fig1"]


def test_the_command_says_what_is_stale(tmp_path, monkeypatch, capsys):
    result = run_command(monkeypatch, capsys, "reproduce", "fig1", "--check", "--out", tmp_path)
    assert result.status == 1
    assert "fig1: stale: missing" in result.out


@pytest.mark.slow
def test_records_repeat_themselves():
    for experiment in ("table4", "fig3", "rates"):
        first, again = made_with.made_with(experiment), made_with.made_with(experiment)
        assert first == again
        assert all(numbers[0] != numbers[1] for numbers in first["probes"].values())


@pytest.mark.slow
def test_the_published_results_are_up_to_date_but_for_those_that_the_page_names():
    folder = Path(__file__).parents[2] / "docs" / "reproduction"
    page = (folder / "README.md").read_text(encoding="utf-8")
    stale = {name: reason for name, reason in stale_results("all", folder).items() if reason is not None}
    assert all(f"`{name}` is stale" in page for name in stale), stale
    assert not [name for name in REPRODUCTIONS if f"`{name}` is stale" in page and name not in stale]
