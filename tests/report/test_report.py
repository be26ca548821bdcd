"""Reports: what they say, in every format, and that the page works in a real browser."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
from command_line import run_command

import lessbits
from lessbits.config.build import build
from lessbits.config.settings import Settings
from lessbits.engines.recording.trace import Trace
from lessbits.errors import InputError
from lessbits.report.formats import draw_report, load_runs, write_report
from lessbits.report.names import name_runs, report_heading
from lessbits.report.network_drawing import draw_network
from lessbits.report.page import html_page
from lessbits.report.runs import X_AXES, further_row, measured_rate
from lessbits.report.seeds import distinct, group_runs


def run(**settings: Any) -> Trace:
    usual = {"nodes": 8, "dim": 10, "network": "star", "theta": 0.4, "eta": 0.5, "until": 1e-5, "iterations": 2000}
    return build(Settings.read({**usual, **settings})).run()


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    """Runs that differ in quantizer and in network; one has a simulated clock, one has diverged."""
    return [
        run(quantizer="exact"),
        run(quantizer="dit-3", latency=0.01),
        run(quantizer="dit-3", network="ring", theta=0.1),
        run(quantizer="dit-3", theta=50.0),
    ]


def test_runs_are_named_by_what_tells_them_apart(traces: list[Trace]) -> None:
    names = name_runs(traces)
    assert len(set(names)) == 4
    assert "exact" in names[0]
    assert "star of 8" in names[0]
    assert "ring of 8" in names[2]
    assert "seed" not in names[0]
    assert name_runs(traces[:1]) == ["primal-dual with exact"]
    assert [name[-4:] for name in name_runs([traces[0], traces[0]])] == [" (1)", " (2)"]
    assert name_runs(traces[:2])[1].startswith("primal-dual with dit-3, latency")


def test_the_proven_rate_is_below_the_measured_one(traces: list[Trace]) -> None:
    for trace in traces[:3]:
        measured = measured_rate(trace)
        assert measured is not None
        assert 0 < trace.provenance["rate"] < measured < 1
    assert measured_rate(traces[3]) is None


def test_the_measured_rate_ignores_a_floor() -> None:
    steps = np.arange(400)
    error = np.maximum(0.95**steps, 1e-6) * (1 + 0.01 * np.cos(steps))
    trace = Trace({"iteration": steps, "error": error}, np.zeros((1, 1)), False, False, "", 0.0)
    assert measured_rate(trace) == pytest.approx(0.05, rel=0.05)


def test_bits_saved_compares_with_floats_on_each_link(traces: list[Trace]) -> None:
    last = traces[1].summary()
    (group,) = group_runs(traces[1:2])
    assert further_row(group)["bits saved"] == f"{32 * 10 * last['iterations'] / last['wire_bits_per_link']:.1f} ×"


def test_networks_are_drawn_with_their_weights() -> None:
    svg = draw_network([[0, 0, 0, 1], [1, 2, 3, 2], [0.5, 0.25, 0.25, 0.1]])
    assert svg is not None
    assert svg.count("<line") == 4
    assert svg.count("<circle") == 4
    widths = [float(width) for width in re.findall(r'stroke-width="([\d.]+)"', svg)]
    assert widths[0] == 2 * widths[1] > widths[3]
    ends = range(1000)
    assert draw_network([list(ends), [end + 1 for end in ends], [1.0] * 1000]) is None


def test_nodes_show_their_names() -> None:
    roads = networkx.Graph([("Basel", "Bern"), ("Bern", "Genève & Nyon"), ("Bern", "Zürich")])
    network = lessbits.make_network(roads)
    problem = lessbits.Consensus.random(nodes=4, dim=3)
    method = lessbits.primal_dual(problem, network, theta=0.4, eta=0.5)
    trace = lessbits.simulate(problem, network, method, iterations=5)
    assert trace.provenance["names"] == ["Basel", "Bern", "Genève & Nyon", "Zürich"]
    assert report_heading([trace]) == "Average consensus, network of 4 nodes"
    text = html_page([trace])
    assert "<title>node Bern: 3 neighbours</title>" in text
    assert "<title>Basel – Bern: weight" in text
    assert re.findall("<text [^>]*>(.*?)</text>", text) == ["Basel", "Bern", "Genève &amp; Nyon", "Zürich"]
    many = draw_network([[0] * 40, list(range(1, 41)), [1.0] * 40], [f"site {node}" for node in range(41)])
    assert many is not None
    assert "<title>node site 7: 1 neighbours</title>" in many
    assert "<text" not in many


def test_a_run_is_shown_once(traces: list[Trace]) -> None:
    again = run(quantizer="exact")  # the same numbers, in another time
    assert distinct([traces[0], traces[1], traces[0], again]) == traces[:2]
    bare = Trace({"iteration": np.arange(3), "error": np.ones(3)}, np.zeros((1, 1)), False, False, "", 0.0)
    assert len(distinct([bare, bare, replace(bare)])) == 2


def test_numbers_of_the_main_table_do_not_wrap(traces: list[Trace]) -> None:
    assert re.search(r'<td data-label="error"><span>[\d.]+e-\d+</span></td>', html_page(traces))
    assert ".main td span { white-space: nowrap; }" in html_page(traces)


def test_a_run_that_was_at_its_target_is_drawn_as_a_point(traces: list[Trace], tmp_path: Path) -> None:
    start = replace(traces[0], columns={name: column[:1] for name, column in traces[0].columns.items()})
    for axis in draw_report([start, traces[2]]).axes:
        points = [line for line in axis.lines if line.get_linestyle() == "None"]
        assert len(points) == 1
        assert points[0].get_marker() != "None"
        assert points[0].get_xdata()[0] > 0 or axis.get_xscale() == "linear"


@pytest.mark.slow
def test_ticks_have_a_space_before_their_unit(traces: list[Trace], tmp_path: Path, browser: Any) -> None:
    start = replace(traces[0], columns={name: column[:1] for name, column in traces[0].columns.items()})
    write_report([start, *traces[1:3]], tmp_path / "report.html")
    tab = browser.new_page()
    tab.goto((tmp_path / "report.html").as_uri())
    for scale in ("log", "linear"):
        tab.evaluate(f"shown.sideways = '{scale}'; draw()")
        ticks = [words for words in tab.locator("#plot .xtick text").all_text_contents() if words]
        assert ticks
        assert all(re.fullmatch(r"[\d.,]+ [kM]?bit", words) for words in ticks), ticks
        assert tab.locator("#plot .scatterlayer .trace").count() == 3
        assert all(tab.locator("#plot .scatterlayer .trace").nth(run).locator(".point").count() for run in range(3))
    tab.close()


class Page(HTMLParser):
    """What a page holds: that elements close as they opened, and the addresses that it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "link", "br", "img"):
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag


def test_the_page_is_whole_and_loads_nothing(traces: list[Trace]) -> None:
    text = html_page(traces)
    parsed = Page(text)
    assert not parsed.opened
    assert parsed.addresses == ["data:,"]
    data = json.loads(re.search(r'id="page">(.*?)</script>', text, re.S)[1])  # type: ignore[index]
    assert len(data["runs"]) == 4
    assert [axis["title"] for axis in data["across"]] == [axis[1] for axis in X_AXES]
    for words in (
        " weights 0",
        "rate, proven",
        "theta",
        "Python",
        "command",
        "diverged",
        "Target: error at most 1e-05",
    ):
        assert words in text
    assert "<h1>Average consensus</h1>" in text  # the networks differ
    assert report_heading(traces[:2]) == "Average consensus, star of 8 nodes"


def test_names_cannot_break_out_of_the_page(traces: list[Trace]) -> None:
    evil = traces[0].with_settings({**traces[0].settings, "quantizer": "</script><script>alert(1)</script>"})
    assert "<script>alert" not in html_page([evil])


def test_a_picture_shows_seconds_over_bits_if_links_have_a_speed(traces: list[Trace]) -> None:
    timed = [traces[1], run(quantizer="dit-2", latency=0.01)]
    panels = draw_report(timed).axes
    assert len(draw_report(traces).axes) == 2
    assert [axis.get_xlabel() for axis in panels] == ["iterations", "bits per link", "bits per link"]
    assert panels[2].get_ylabel() == "simulated seconds"
    ends = {(trace["wire_bits_per_link"][-1], trace["simulated_seconds"][-1]) for trace in timed}
    assert {(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in panels[2].lines} == ends


@pytest.mark.parametrize("kind", ["png", "svg", "pdf", "md"])
def test_other_formats(traces: list[Trace], tmp_path: Path, kind: str) -> None:
    write_report(traces, tmp_path / f"report.{kind}")
    content = (tmp_path / f"report.{kind}").read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "md": b"# Average"}[kind]
    assert content.startswith(start)
    if kind == "md":
        assert content.decode().count("\n| ") == 5
    if kind == "svg":
        assert "kbit" in content.decode()  # numbers have a unit


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_picture_of_a_run_without_a_finite_error(traces: list[Trace], tmp_path: Path, value: float) -> None:
    run = traces[0]
    forged = replace(run, columns={**run.columns, "error": np.full(len(run), value)})
    write_report([forged, traces[1]], tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes()[:4] == b"\x89PNG"


def test_a_folder_of_damaged_traces_gets_one_line(traces: list[Trace], tmp_path: Path) -> None:
    run, said = traces[0], []
    replace(run, columns={**run.columns, "iteration": np.full(len(run), np.nan)}).save(tmp_path / "a.trace")
    with pytest.raises(InputError, match=r"no traces \(passed over: .*a\.trace .* iterations are not all numbers\)"):
        load_runs([tmp_path], said.append)
    assert not said


def test_mistakes_get_a_line(traces: list[Trace], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="format"):
        write_report(traces, tmp_path / "report.doc")
    with pytest.raises(InputError, match="has no traces"):
        load_runs([tmp_path])
    with pytest.raises(InputError, match="no trace"):
        load_runs([tmp_path / "missing.trace"])


def test_the_command_reads_files_and_folders(
    traces: list[Trace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, trace in enumerate(traces):
        trace.save(tmp_path / f"{number}.trace")
    words = (str(tmp_path), str(tmp_path / "0.trace"), "-o", str(tmp_path / "all.md"))
    found = run_command(monkeypatch, capsys, "report", *words)
    assert found.status == 0, found.err
    assert found.out.strip() == f"4 runs: {tmp_path / 'all.md'}"
    assert (tmp_path / "all.md").read_text(encoding="utf-8").count("\n| ") == 5  # one is there twice
    (tmp_path / "strange.trace").write_text("open(3) = 7", encoding="utf-8")
    found = run_command(monkeypatch, capsys, "report", str(tmp_path), "-o", str(tmp_path / "all.md"))
    assert found.status == 0
    assert found.out.startswith("4 runs")
    assert found.err.startswith("lessbits: passed over: ")
    assert found.err.count("\n") == 1
    assert "strange.trace is no trace" in found.err
    wrong = run_command(monkeypatch, capsys, "report", str(tmp_path / "none.trace"), "-o", str(tmp_path / "all.md"))
    assert wrong.status == 2
    assert wrong.err.count("\n") == 1


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_the_page_works_in_a_browser(traces: list[Trace], tmp_path: Path, browser: Any, scheme: str) -> None:
    """No error on the console, every switch works, nothing is wider than a phone, and the dark is dark."""
    write_report(traces, tmp_path / "report.html")
    tab = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    errors: list[str] = []
    tab.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto((tmp_path / "report.html").as_uri())
    assert tab.locator("#plot .scatterlayer .trace").count() == 4
    for _, title, _, _ in X_AXES:
        tab.locator("#across").get_by_role("button", name=title, exact=True).click()
        assert tab.locator("#plot .xtitle").text_content() == title
        assert tab.locator("#across [aria-pressed=true]").text_content() == title
    tab.locator("#upwards").get_by_role("button", name="simulated seconds").click()  # of the run that has them
    assert tab.locator("#plot .ytitle").text_content() == "simulated seconds"
    tab.get_by_role("button", name="suboptimality").click()
    assert "suboptimality" in tab.locator("#plot .ytitle").text_content()
    for key, axis in (("sideways", "xaxis"), ("scale", "yaxis")):
        for scale in ("log", "linear"):
            tab.locator(f"#{key} button", has_text=scale).click()
            assert tab.evaluate(f"document.getElementById('plot').layout.{axis}.type") == scale
    for width in (390, 1280):
        tab.set_viewport_size({"width": width, "height": 800})
        tab.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        edges = tab.evaluate("[...document.querySelectorAll('table')].map((one) => one.getBoundingClientRect().right)")
        assert len(edges) == 6
        assert max(edges) <= width
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert errors == []
    tab.close()
