"""What people see: figures in one style with units, and tables and progress that fit 80 columns."""

import io
from typing import Any

import matplotlib
import numpy as np
import pytest
from rich.console import Console

from lessbits.engines.recording.progress import Bar, ProgressState
from lessbits.engines.recording.trace import Trace
from lessbits.report.comparison_text import comparison_report
from lessbits.report.plots import in_style, new_figure

matplotlib.use("Agg")


def test_trace_plot_writes_units_and_has_the_style() -> None:
    steps = np.arange(4)
    columns = {"iteration": steps, "error": 0.1**steps, "wire_bits_per_link": 500_000 * steps}
    trace = Trace(columns, np.zeros((2, 1)), False, False, "", 0.0)
    _, ((axis,),) = new_figure()
    trace.plot("wire_bits_per_link", axis=axis, label="one")
    trace.plot("wire_bits_per_link", axis=axis, label="two")
    assert axis.get_xlabel() == "bits per link"
    assert axis.xaxis.get_major_formatter()(500_000) == "500 kbit"
    assert axis.xaxis.get_major_formatter()(1_500_000) == "1.5 Mbit"
    assert not axis.spines["top"].get_visible()
    assert axis.lines[0].get_color() == "#0072B2" != axis.lines[1].get_color()
    trace.plot("iteration", axis=axis)
    assert axis.xaxis.get_major_formatter()(20_000) == "20,000"


def test_the_style_does_not_leak() -> None:
    before = matplotlib.rcParams["axes.spines.top"]
    assert in_style(lambda: matplotlib.rcParams["axes.spines.top"])() is False
    assert matplotlib.rcParams["axes.spines.top"] is before is True


def row(method: str, quantizer: str, ended: str = "reached") -> dict[str, Any]:
    numbers = {"iterations": 10_000, "error": 1.234e-31, "wire_bits_per_link": 1.94e7, "choosing_bits_per_link": 2.0e6}
    return {
        "method": method,
        "option": "B",
        "messages": None,
        "quantizer": quantizer,
        "ended": ended,
        **numbers,
    }


def test_the_table_of_compare_fits_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [row("tree", "exact"), row("gradient-tracking-atc", "exact"), row("primal-dual", "rand-100", "diverged")]
    settings = {"problem": "consensus", "network": "star", "goal": "error", "until": 1e-3, "precision": 64}
    told = {"goal": "error", "until": 1e-3, "verdict": "tree with exact reached error 0.001.", "refused": {}}
    comparison_report({"settings": settings, "runs": rows, **told}, 64, "report.html")
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert [line.split()[:3] for line in lines if "rand-100" in line or "-atc" in line] == [
        ["2", "gradient-tracking-atc", "exact"],
        ["3", "primal-dual", "rand-100"],
    ]


def test_the_progress_bar_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    bar, screen = Bar(), io.StringIO()
    bar.close()
    bar(ProgressState(123_456, 1_000_000, 1.2e-13, 531_200.0, 99.0, 0.0123, 5000.0))
    Console(file=screen, width=80).print(bar.bar.get_renderable())
    (line,) = [text.rstrip() for text in screen.getvalue().splitlines() if text.strip()]
    assert line.startswith("123456/1000000")
    assert line.endswith("error 1.2e-13, 531 kbit per link, 1:23:20 left")
    assert len(line) <= 80
