"""A search that was kept in a folder: a later one runs only what is not known, and only if it is the same search."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lessbits import Consensus, TuningInterrupted, make_network, primal_dual, tune
from lessbits._internal.hashing import fingerprint
from lessbits.tuning import records, runs

NODES, DIM = 6, 5
PROBLEM, STAR = Consensus.random(NODES, DIM), make_network("star", NODES)
METHOD = primal_dual(PROBLEM, STAR, "dit-3", theta=1, eta=1)
THETAS = [1.2, 1.4, 1.6, 1.8, 30.0]


def find(out, thetas=THETAS, problem=PROBLEM, network=STAR, method=METHOD, **options):
    options = {"until": 1e-6, "iterations": 2000, "grow": False, "width": 1, **options}
    return tune(problem, network, method, {"theta": thetas}, out=out, **options)


@pytest.fixture
def swept(monkeypatch):
    """The step sizes that were run, sweep by sweep."""
    seen, original = [], runs.sweep

    def spy(problem, network, method, configurations, *others, **named):
        seen.append(sorted(sizes["theta"] for sizes in configurations))
        return original(problem, network, method, configurations, *others, **named)

    monkeypatch.setattr(runs, "sweep", spy)
    return seen


def test_a_second_call_runs_nothing_and_finds_the_same(tmp_path, swept):
    first = find(tmp_path / "new" / "folder", seeds=(0, 1))
    assert swept == [THETAS, THETAS]
    second = find(tmp_path / "new" / "folder", seeds=(0, 1))
    assert len(swept) == 2
    assert second.rows() == first.rows()
    assert second.notes == first.notes
    lines = (tmp_path / "new" / "folder" / "outcomes.jsonl").read_text().splitlines()
    assert len(lines) == 2 * len(THETAS)
    assert len({json.loads(line)["of"] for line in lines}) == 1


def test_only_new_values_and_seeds_are_run(tmp_path, swept):
    find(tmp_path)
    find(tmp_path, [*THETAS, 1.5], seeds=(0, 2))
    assert swept == [THETAS, [1.5], sorted([*THETAS, 1.5])]


def cut_the_last_line(file):
    """Leave half of it, as a power cut does, and return whose it was."""
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
    return json.loads(lines[-1])["sizes"]["theta"]


def test_a_line_that_was_cut_off_is_run_again(tmp_path, swept):
    first = find(tmp_path)
    lost = cut_the_last_line(tmp_path / "outcomes.jsonl")
    assert find(tmp_path).rows() == first.rows()
    assert swept == [THETAS, [lost]]


def test_a_line_that_was_cut_off_costs_one_run_and_no_more(tmp_path, swept):
    find(tmp_path)
    lost = cut_the_last_line(tmp_path / "outcomes.jsonl")
    find(tmp_path)
    find(tmp_path)
    assert swept == [THETAS, [lost]]


@pytest.mark.parametrize(
    "change",
    [
        {"problem": Consensus.random(NODES, DIM, seed=1)},
        pytest.param({"method": replace(METHOD, eta=0.9)}, marks=pytest.mark.slow),
        {"method": primal_dual(PROBLEM, STAR, "dit-2", theta=1, eta=1)},
        pytest.param({"iterations": 1999}, marks=pytest.mark.slow),
        {"until": 1e-5},
        pytest.param({"epochs": 100.0}, marks=pytest.mark.slow),
        pytest.param({"bits": 1e5}, marks=pytest.mark.slow),
        pytest.param({"record_every": 2}, marks=pytest.mark.slow),
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_search_in_the_same_folder_runs_everything(tmp_path, swept, change):
    find(tmp_path)
    find(tmp_path, **change)
    assert swept == [THETAS, THETAS]
    find(tmp_path)
    assert len(swept) == 2  # both are kept side by side


def test_an_interrupted_search_goes_on(tmp_path, swept, monkeypatch):
    whole, ended = find(None), []

    def interrupt(self, outcome, original=records.Records.add):
        if len(ended) == 2:
            raise KeyboardInterrupt
        ended.append(outcome.sizes["theta"])
        original(self, outcome)

    monkeypatch.setattr("lessbits.engines.simulate.sweep.default_workers", lambda *_: 1)
    with monkeypatch.context() as patch:
        patch.setattr(records.Records, "add", interrupt)
        with pytest.raises(TuningInterrupted) as stop:
            find(tmp_path)
    assert [candidate.sizes["theta"] for candidate in stop.value.tuning.candidates] == sorted(ended, key=ended.index)
    assert stop.value.tuning.notes == ["the search was interrupted"]
    swept.clear()
    assert find(tmp_path).rows() == whole.rows()
    assert swept == [sorted(set(THETAS) - set(ended))]


def test_what_was_cut_too_early_for_a_wider_margin_is_run_again(tmp_path, swept):
    find(tmp_path, [0.6, 1.6], margin=1.0, record_every=1)
    wider = find(tmp_path, [0.6, 1.6], margin=50.0, record_every=1)
    assert [row["ended"] for row in wider.rows()] == ["reached", "reached"]
    assert wider.rows() == find(None, [0.6, 1.6], margin=50.0, record_every=1).rows()


def test_what_is_known_of_other_values_does_not_beat_those_asked_for(tmp_path):
    fresh = find(None, [0.3, 0.4, 0.5])
    find(tmp_path, [1.4, 1.6, 1.8])
    found = find(tmp_path, [0.3, 0.4, 0.5])
    assert found.best.reached
    assert found.rows() == fresh.rows()


def test_progress_is_told_what_is_left(tmp_path):
    told = []
    find(tmp_path, progress=told.append)
    find(tmp_path, [*THETAS, 1.5], progress=told.append)
    where = f"every outcome is stored in {tmp_path}; the same search goes on from there"
    assert told == [where, "5 runs, seed 0", where, "1 runs, seed 0"]


# Fingerprints.


def test_equal_values_have_one_fingerprint():
    again = Consensus.random(NODES, DIM), make_network("star", NODES)
    mark = fingerprint(PROBLEM, STAR, METHOD)
    assert mark == fingerprint(*again, primal_dual(*again, "dit-3", theta=1, eta=1))
    assert len(mark) == 16
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


def test_any_change_changes_the_fingerprint():
    entry = np.asarray(PROBLEM.vectors).copy()
    entry[3, 2] = np.nextafter(entry[3, 2], 9)
    variants = [
        PROBLEM,
        replace(PROBLEM, vectors=entry),
        replace(PROBLEM, vectors=PROBLEM.vectors.astype(np.float32)),
        replace(PROBLEM, vectors=PROBLEM.vectors.reshape(DIM, NODES)),
        METHOD,
        replace(METHOD, theta=np.nextafter(1.0, 2)),
        replace(METHOD, option="D"),
        replace(METHOD, messages="broadcast"),
        replace(METHOD, batch_size=2),
        primal_dual(PROBLEM, STAR, "dit-2", theta=1, eta=1),
        primal_dual(PROBLEM, STAR, "rand-2", theta=1, eta=1),
        STAR,
        make_network("ring", NODES),
        make_network("star", NODES, weights="max-degree"),
        *(None, 0, 0.0, False, "0", "", [], (), {}, [0], (0,), {"a": 0}, {"b": 0}, {"a": None}),
    ]
    marks = [fingerprint(variant) for variant in variants]
    assert len(set(marks)) == len(variants)
    assert fingerprint(1, 2) != fingerprint(2, 1)


def test_the_nesting_of_values_shows_in_the_fingerprint():
    assert fingerprint([[1], 2]) != fingerprint([[1, 2]])
    assert fingerprint({"a": {"b": 1}, "c": 2}) != fingerprint({"a": {"b": 1, "c": 2}})


def test_a_damaged_line_is_said_and_run_again(tmp_path, swept, caplog):
    first = find(tmp_path)
    file = tmp_path / "outcomes.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    changed = lines[2].replace('"iterations": ', '"iterations": 1')  # a number, and still JSON
    assert changed != lines[2]
    file.write_text("".join([*lines[:2], changed, *lines[3:]]))
    assert find(tmp_path).rows() == first.rows()
    assert [len(thetas) for thetas in swept] == [5, 1]
    assert f"1 line of {file} is damaged: what was there is run again" in caplog.text


def test_a_search_outlasts_a_full_disk(tmp_path, monkeypatch, caplog):
    expected = find(None)
    opened = Path.open

    def full(path, *arguments, **options):
        if path.name == "outcomes.jsonl":
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    assert find(tmp_path).rows() == expected.rows()
    assert caplog.text.count("outcomes.jsonl ends here (No space left on device): the search goes on") == 1
