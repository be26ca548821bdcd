"""Runs with faults on the command line."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from command_line import run_command

from lessbits import Faults, read_faults
from lessbits.engines.recording.trace import Trace
from lessbits.faults.files import plain_faults

PAGE = Path(__file__).parents[2] / "docs" / "edges.md"


@pytest.mark.slow
def test_the_file_on_the_page_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    (tmp_path / "faults.toml").write_text(re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1], encoding="utf-8")
    command = re.search(r"    lessbits (run .* --faults faults.toml .*)", text)[1]
    found = run_command(monkeypatch, capsys, *shlex.split(command))
    assert found.status == 0, found.err
    said = " ".join(found.out.split())
    assert "faults drop 0.1; part 0.9; node 4 3 × slower; 6 events; links spoke" in said
    trace = Trace.load(tmp_path / "run.trace")
    assert trace["error"][-1] < 1e-12
    assert trace.provenance["gone"] == [[3, 100, 300]]
    assert trace.provenance["paused"] == [[5, 150, 260]]


def test_all_other_entries_on_the_page_are_read(tmp_path: Path) -> None:
    first, other = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "faults.toml").write_text(other, encoding="utf-8")
    found = plain_faults(read_faults(tmp_path / "faults.toml"))
    assert found["link_delays"] == [{"link": [0, 1], "delay": [3, 5]}]
    known = {entry.name for entry in fields(Faults)} - {"share"}  # that of recordings
    assert {*found, *re.findall(r"^(\w+) =", first, re.MULTILINE)} == known
