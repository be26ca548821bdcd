"""Events and networks over time in figures and on the page: each is drawn once, and names from elsewhere do no harm."""

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from lessbits.engines.recording.trace import Trace
from lessbits.report.formats import draw_report, markdown_report
from lessbits.report.page import html_page
from lessbits.report.plots import new_figure
from lessbits.report.presence_drawing import COLUMNS, MAX_ROWS, draw_presence

matplotlib.use("Agg")
HOSTILE = "</svg><script id=injected>window.ran=1</script><b>$x_$ \x1b[31m"


def made(nodes: int = 4, method: str = "edge-dual", events: Any = None, **provenance: Any) -> Trace:
    """Return a run of 100 iterations in which node 1 is gone for a while, and the links speak half the time."""
    steps = np.arange(0, 101, 10)
    columns = {"iteration": steps, "error": 0.1 ** (steps / 10), "wire_bits_per_link": 1000.0 * steps}
    columns |= {"messages": steps, "speaking": np.full(11, 0.5), "staleness": np.zeros(11), "present": np.full(11, 3.0)}
    events = [[20, "node 1: leave"], [20, "node 2: pause"], [60, "node 1: join"]] if events is None else events
    told = {"faults": {"drop": 0.5}, "events": events, "parts": [], "gone": [[1, 20, 60]], "paused": [[2, 20, 100]]}
    settings = {"method": method, "quantizer": "exact", "seed": 0}
    return Trace(columns, np.zeros((nodes, 1)), False, False, "", 0.0, settings, {**told, **provenance})


def event_lines(axis: Any) -> list[float]:
    return sorted(line.get_xdata()[0] for line in axis.lines if str(line.get_gid()).startswith("event"))


def test_a_plot_marks_every_event_once() -> None:
    _, ((axis,),) = new_figure()
    for method in ("edge-dual", "lead"):
        made(method=method).plot(axis=axis, label=method)
    assert event_lines(axis) == [20, 60]
    assert sorted(text.get_text() for text in axis.texts) == ["node 1: join", "node 1: leave, node 2: pause"]
    assert axis.get_legend_handles_labels()[1] == ["edge-dual", "lead"]
    _, ((axis,),) = new_figure()
    made().plot("wire_bits_per_link", axis=axis)
    assert event_lines(axis) == [20_000, 60_000]
    _, ((axis,),) = new_figure()
    made().plot("error", "error", axis=axis)  # falls, so that no value stands for a moment
    assert event_lines(axis) == []


def test_many_events_are_lines_without_names() -> None:
    _, ((axis,),) = new_figure()
    made(events=[[at, f"node 1: {at}"] for at in range(30)]).plot(axis=axis)
    assert len(event_lines(axis)) == 30
    assert not axis.texts


def test_the_plot_of_a_report_marks_events_where_they_have_one_place() -> None:
    over_iterations, over_bits = draw_report([made(), made(method="lead")]).axes
    assert event_lines(over_iterations) == [20, 60]
    assert event_lines(over_bits) == []


def bars(svg: str) -> list[tuple[float, float, float]]:
    """Return top, width and strength of every bar."""
    found = re.findall(r'<rect x="[^"]+" y="([^"]+)" width="([^"]+)" height="9" fill-opacity="([^"]+)"', svg)
    return [(float(top), float(width), float(strength)) for top, width, strength in found]


def test_a_row_is_empty_while_its_node_is_gone_and_faint_while_it_is_paused() -> None:
    svg = draw_presence(made(names=["a", "b"]))
    assert svg is not None
    ElementTree.fromstring(svg)
    rows = sorted({top for top, _, _ in bars(svg)})
    strengths = [[(width, strength) for top, width, strength in bars(svg) if top == row] for row in rows]
    assert strengths == [[(700, 0.85)], [(140, 0.85), (280, 0.85)], [(140, 0.85), (560, 0.3)], [(700, 0.85)]]
    assert all(f">{name}<" in svg for name in ("a", "b", "node 2", "node 3", "50 %", "node 1: join"))
    assert "each" not in svg
    assert draw_presence(replace(made(), columns={"iteration": np.arange(2)})) is None


def test_many_nodes_share_rows_and_many_events_a_single_one() -> None:
    svg = draw_presence(made(nodes=90, gone=[[node, 0, 50] for node in range(3)]))
    assert svg is not None
    rows = {top for top, _, _ in bars(svg)}
    assert len(rows) == 30 <= MAX_ROWS
    assert bars(svg)[0][1] == 350  # the first three nodes come in the middle
    trace = made()
    alone = {name: value for name, value in trace.provenance.items() if name not in ("gone", "paused")}
    svg = draw_presence(replace(trace, provenance=alone))
    assert svg is not None
    assert bars(svg) == [(bars(svg)[0][0], 700, round(0.85 * 0.75, 2))]
    assert len(bars(svg)) < COLUMNS


def test_the_page_draws_a_network_over_time_once_for_the_same_faults() -> None:
    text = html_page([made(), made(method="lead"), made(method="dgd", faults={"drop": 0.6})])
    assert text.count('class="presence"') == 2
    assert "drop 0.5; 3 events; links spoke 50 % of the time" in text
    columns = {"iteration": np.arange(2), "error": np.ones(2), "wire_bits_per_link": np.arange(2)}
    assert "over time" not in html_page([replace(made(), provenance={}, columns=columns)])


@pytest.mark.slow
def test_the_page_marks_events_and_hostile_ones_do_no_harm(browser: Any, tmp_path: Any) -> None:
    trace = made(events=[[20, HOSTILE], [60, "node 1: join"]], names=[HOSTILE] * 4, parts=[[20, HOSTILE]])
    (tmp_path / "page.html").write_text(html_page([trace]), encoding="utf-8")
    tab = browser.new_page()
    problems: list[Any] = []
    tab.on("pageerror", lambda error: problems.append(error))
    tab.goto((tmp_path / "page.html").as_uri())
    for axis in ("bits per link", "iterations"):
        tab.get_by_role("button", name=axis, exact=True).click()
        tab.wait_for_timeout(300)
        assert tab.locator("#plot .shapelayer path").count() == 2
        assert tab.locator("#plot .annotation-text").count() == 2
    assert tab.locator("#injected").count() == 0
    assert tab.evaluate("window.ran") is None
    assert not problems


def test_a_report_in_markdown_tells_faults_events_and_parts() -> None:
    apart = {"parts": [[20, "2 parts: node 0 and nodes 2-3"]], "part_ends": [[100, "node 0: loss 1 (optimum 1)"]]}
    text = markdown_report([made(**apart), made(method="lead", events=[], faults={})])
    for words in (
        "- edge-dual",
        "drop 0.5; 3 events;",
        "node 0: loss 1 (optimum 1)",
        "  - before iteration 20: node 1: leave",
        "  - before iteration 20: now 2 parts: node 0 and nodes 2-3",
        "  - before iteration 60: node 1: join",
    ):
        assert words in text
    many = markdown_report([made(events=[[at, f"node 1: {at}"] for at in range(50)])])
    assert "  - and 10 more" in many
