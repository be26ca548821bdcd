"""Outcomes and traces in a folder of results that somebody else wrote: passed over, and never a traceback."""

import json

import numpy as np
import pytest

from lessbits import Trace
from lessbits._internal.arrays import CHECKSUM
from lessbits._internal.hashing import fingerprint
from lessbits.studies.compare import IDENTITY, _read, remove_other_traces
from lessbits.tuning.records import FORMAT, Records

WHOLE = {
    **{"format": FORMAT, "of": "mark", "sizes": {"theta": 0.5}, "seed": 0, "reached": True, "diverged": False},
    **{"cut": False, "iterations": 7, "value": 0.1, "error": None, "bits_per_link": 8.0, "epochs": 1.0},
}


def written(entry):
    """Return the line of an entry, with the right checksum."""
    return json.dumps({**entry, CHECKSUM: fingerprint(entry)})


def known(tmp_path, line):
    (tmp_path / "outcomes.jsonl").write_text(line + "\n")
    return Records(tmp_path, "mark").known


def test_a_whole_line_is_known(tmp_path):
    (outcome,) = known(tmp_path, written(WHOLE)).values()
    assert outcome.iterations == 7


@pytest.mark.parametrize(
    "changes",
    [
        {"iterations": "7"},
        {"iterations": 7.5},
        {"iterations": True},
        {"seed": [0]},
        {"reached": "yes"},
        {"sizes": [0.5]},
        {"sizes": {"theta": "0.5"}},
        {"value": "small"},
        {"epochs": {}},
        {"surprise": 1},
    ],
    ids=str,
)
def test_a_forged_line_is_passed_over(tmp_path, changes):
    assert known(tmp_path, written({**WHOLE, **changes})) == {}


@pytest.mark.parametrize("line", ["[1, 2]", "7", "null", '"text"', "[" * 5000, "9" * 5000, "{}", "\x00\x01"])
def test_a_line_that_is_no_outcome_is_passed_over(tmp_path, line):
    assert known(tmp_path, line) == {}


def test_bytes_that_are_no_text_are_passed_over(tmp_path):
    (tmp_path / "outcomes.jsonl").write_bytes(b"\xff\xfe\n" + written(WHOLE).encode() + b"\n")
    assert len(Records(tmp_path, "mark").known) == 1


def test_a_folder_of_a_comparison_may_hold_what_it_did_not_write(tmp_path):
    columns = {name: np.arange(2.0) for name in ("iteration", "bits_per_link", "wire_bits_per_link")}
    forged = Trace(columns, np.zeros((1, 1)), True, False, "", 0.0, {"method": 7}, {IDENTITY: "this one"})
    forged.save(tmp_path / "forged.trace")
    assert _read(tmp_path / "forged.trace", "this one") is None  # then it is run again
    (tmp_path / "foreign.trace").write_text("no trace")
    remove_other_traces(tmp_path, [])
    assert [path.name for path in tmp_path.iterdir()] == ["foreign.trace"]
