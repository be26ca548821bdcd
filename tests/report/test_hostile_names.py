"""Names from elsewhere: in a real browser no script of theirs runs and no element appears; other formats hold, too."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from lessbits.config.build import build
from lessbits.config.settings import Settings
from lessbits.engines.recording.trace import Trace
from lessbits.report.comparison_text import comparison_report
from lessbits.report.formats import markdown_report, write_report
from lessbits.report.network_drawing import draw_network
from lessbits.report.page import html_page

HOSTILE = (
    "<img id=injected src=x onerror=window.ran=1>",
    "</script><script id=injected>window.ran=1</script>",
    "\"'></title></style></td></details><svg id=injected onload=window.ran=1></svg>",
    "<a id=injected href='javascript:window.ran=1'>click</a>",
    '<a href="https://example.com" target="_blank">a link of Plotly</a><b>bold</b>',
    "--><iframe id=injected srcdoc='<script>parent.ran=1</script>'></iframe>",
    "&lt;script&gt; $x_$ _hidden `` | [a](javascript:1) ]]> \x1b[31m \n\n# heading %{fullData.name} [/bold]",
)


@pytest.fixture(scope="module")
def usual() -> Trace:
    settings = {"nodes": 4, "dim": 3, "theta": 0.4, "eta": 0.5, "until": 1e-5, "iterations": 20, "quantizer": "exact"}
    return build(Settings.read(settings)).run()


def with_names(trace: Trace, name: str) -> Trace:
    """Return the trace with this name in place of every text, as a key, as a node and as a column."""

    def spoilt(facts: Any) -> dict[str, Any]:
        return {key: name if isinstance(value, str) else value for key, value in facts.items()} | {name: name}

    settings = {**spoilt(trace.settings), **dict.fromkeys(("data", "target", "site", "test"), name), "goal": "error"}
    settings["step_sizes"] = {name: 0.5}
    edges = [[name, name + "2"], [name + "2", name + "3"], [0.5, 0.25]]
    columns = {**trace.columns, name: np.ones(len(trace))}
    provenance = {**spoilt(trace.provenance), "edges": edges, "names": [name] * 4, "rate": 0.1}
    return replace(trace, message=name, settings=settings, provenance=provenance, columns=columns)


@pytest.fixture(scope="module")
def hostile(usual: Trace) -> list[Trace]:
    """One run per name: they differ in their names, which so are in the legend."""
    return [with_names(usual, name) for name in HOSTILE]


def elements(tab: Any) -> dict[str, int]:
    kinds = ("script", "a", "img", "iframe", "b", "i", "svg g.trace", "object", "form", "[id=injected]", "[onload]")
    return {kind: tab.locator(kind).count() for kind in kinds}


@pytest.mark.slow
def test_no_script_runs_and_no_element_appears_in_a_browser(
    usual: Trace, hostile: list[Trace], tmp_path: Path, browser: Any
) -> None:
    others = [replace(usual, settings={**usual.settings, "network": f"other {n}"}) for n in range(len(hostile))]
    found, asked, spoken = [], [], []
    for runs in (others, hostile):
        write_report(runs, tmp_path / "report.html")
        tab = browser.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: spoken.append(message.text) if message.type == "error" else None)
        tab.goto((tmp_path / "report.html").as_uri())
        tab.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
        tab.locator("#plot .nsewdrag").hover()
        found.append(elements(tab))
        assert tab.evaluate("window.ran") is None
        tab.close()
    assert found[1] == found[0]
    assert {address.split(":")[0] for address in asked} <= {"file", "data"}
    assert spoken == []


@pytest.mark.slow
def test_a_name_that_was_not_escaped_could_still_do_nothing(usual: Trace, tmp_path: Path, browser: Any) -> None:
    """The page's policy forbids scripts but its own two, and addresses elsewhere."""
    page = html_page([usual])
    planted = "<script>window.ran=1</script><img src='https://example.com/x' onerror='window.ran=1'>"
    (tmp_path / "page.html").write_text(page.replace("</h1>", f"</h1>{planted}"), encoding="utf-8")
    tab = browser.new_page()
    refused: list[str] = []
    tab.on("requestfailed", lambda request: refused.append(request.failure))
    tab.goto((tmp_path / "page.html").as_uri())
    assert tab.locator("#plot .scatterlayer .trace").count() == 1  # the page's own scripts do run
    assert tab.evaluate("window.ran") is None
    assert refused == ["csp"]
    tab.close()


def test_notebooks_show_names_as_text(hostile: list[Trace], browser: Any) -> None:
    tab = browser.new_page()
    for trace in hostile:
        tab.set_content(trace._repr_html_())
        assert set(elements(tab).values()) == {0}
        assert tab.evaluate("window.ran") is None
    tab.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_drawings_show_names_as_text(name: str) -> None:
    drawn = draw_network([[name, "b"], ["b", "c"], [0.5, 0.25]])
    assert drawn is not None
    assert set(re.findall(r"<(\w+)", drawn)) == {"svg", "g", "line", "title", "circle"}
    labelled = draw_network([[0, 1], [1, 2], [0.5, 0.25]], [name, "b", "c"])
    assert labelled is not None
    assert set(re.findall(r"<(\w+)", labelled)) == {"svg", "g", "line", "title", "circle", "text"}
    assert "\x1b" not in labelled


def test_markdown_shows_names_as_text(hostile: list[Trace]) -> None:
    text = markdown_report(hostile)
    outside_code = re.sub(r"(`+) .*? \1|`[^`]*`", "", re.sub(r"\\.", "", text))
    assert not re.search(r"[<`\[\]*]", outside_code)
    assert text.count("\n| ") == 1 + len(hostile)
    assert sum(line.startswith("#") for line in text.splitlines()) == 1
    assert "\x1b" not in text


def test_pictures_are_drawn_of_any_name(hostile: list[Trace], tmp_path: Path) -> None:
    write_report(hostile, tmp_path / "report.svg")
    drawn = list(ElementTree.parse(tmp_path / "report.svg").iter())
    assert "script" not in {element.tag.rpartition("}")[2] for element in drawn}
    assert not [name for element in drawn for name in element.attrib if name.startswith("on")]


def test_the_terminal_gets_names_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    name = HOSTILE[-1].replace("\n", "") + "\x9b2J\u202e"
    row = {"method": name, "quantizer": name, "iterations": 3, "error": 1.0, "wire_bits_per_link": 8.0, "ended": name}
    row["choosing_bits_per_link"] = 1.0
    settings = {"problem": name, "network": name}
    found = {"settings": settings, "runs": [row], "goal": "error", "until": 1e-3, "verdict": name, "refused": {}}
    comparison_report(found, 64, name)
    printed = capsys.readouterr().out
    assert "[/bold]" in printed
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", printed)
