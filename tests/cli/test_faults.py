"""Runs with faults on the command line."""

import re
import shlex
from pathlib import Path

import pytest
from command_line import run_command

from lessbits.engines.recording.trace import Trace

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
    assert "faults drop 0.1; part 0.9; 1 slow node; 4 events; links spoke" in said
    trace = Trace.load(tmp_path / "run.trace")
    assert trace["error"][-1] < 1e-12
    assert trace.provenance["gone"] == [[3, 100, 300]]
