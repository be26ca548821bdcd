"""The HTML report: one self-contained file that needs no network, fits a phone, and has a dark mode."""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from lessbits._internal.figures import COLOURS, MOST_LABELS, title_of
from lessbits._internal.wording import counted
from lessbits.engines.recording.trace import Trace
from lessbits.errors import printable
from lessbits.report.faults import faults_in_words
from lessbits.report.names import network_name, report_facts, report_heading
from lessbits.report.network_drawing import draw_network
from lessbits.report.presence_drawing import draw_presence
from lessbits.report.runs import X_AXES, Y_AXES, axis_end, end_note, fewest, further_row, is_spread, main_row
from lessbits.report.seeds import RunGroup, band, distinct, group_runs, thin_curves
from lessbits.report.verdict import BITS, SECONDS, goal_of, ranked, target_of, verdict

HIDDEN = (
    "edges",
    "names",
    "compared",
    "faults",
    "events",
    "parts",
    "part_ends",
    "gone",
    "paused",
)  # of the provenance: not listed
MAX_CURVE_POINTS = 1500
MAX_HISTORIES = 6  # pictures of networks over time
MAX_PARTS = 8  # times at which a network fell apart that a caption lists
ON_A_PHONE = ("run", "bits per link", "error")  # the columns that stay on a narrow page
EXPLAINED = """Bits per link are those of the bytes sent, with headers; nominal ones follow the paper's formulas.
Bits saved compares with a vector of 32-bit numbers on each link in each iteration. A rate is the share by which an
iteration shrinks the error: proven for theory's step sizes, and measured on the way down."""


def html_page(traces: Sequence[Trace], title: str | None = None, x_axis: str = "bits per link") -> str:
    """Return the whole page; `x_axis` is the title of the horizontal axis that it shows first."""
    from plotly.offline import get_plotlyjs

    traces = distinct(traces)
    column = SECONDS if x_axis == title_of(SECONDS) else BITS
    groups = ranked(group_runs(traces), column)
    styles, code = (files("lessbits.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    scripts = [get_plotlyjs().replace("\r\n", "\n"), code]
    title = title or report_heading(traces)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{styles}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<p class="facts">{escape(report_facts(traces))}</p>
<p class="verdict">{escape(verdict(groups, column))}</p>
<div class="controls">
<fieldset class="switch" id="across" aria-label="horizontal axis"></fieldset>
<fieldset class="switch" id="upwards" aria-label="vertical axis"></fieldset>
<fieldset class="switch" id="sideways" aria-label="scale of the horizontal axis"></fieldset>
<fieldset class="switch" id="scale" aria-label="scale of the vertical axis"></fieldset>
<fieldset class="switch" id="depth" aria-label="end of the vertical axis"></fieldset>
</div>
<div id="plot"></div>
<p class="faint" id="note"></p>
<h2>Runs</h2>
{_main_table(groups, column)}
<details><summary>More columns: nominal bits, epochs, time, rates, step sizes</summary>
{_table([further_row(group) for group in groups], "stacks")}
<p class="faint">{EXPLAINED}</p>
</details>
{_networks(traces)}
{_histories(groups)}
<h2>Settings</h2>
{"".join(_settings(trace, name) for trace, name in _named(groups))}
<footer>Made by lessbits. Everything is in this file; nothing is loaded from elsewhere.</footer>
<script type="application/json" id="page">{_json(_script_data(groups, x_axis))}</script>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def _policy(scripts: Sequence[str]) -> str:
    """Return the content-security policy: these scripts run and no others, and nothing is loaded from elsewhere.

    Plotly writes style attributes, and makes pictures of its plot as data and blob addresses.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _named(groups: Sequence[RunGroup]) -> list[tuple[Trace, str]]:
    """Return every run with its name; those of one group are told apart by their seed."""
    return [
        (trace, group.name if len(group.traces) == 1 else f"{group.name}: seed {trace.settings.get('seed')}")
        for group in groups
        for trace in group.traces
    ]


def _script_data(groups: Sequence[RunGroup], x_axis: str) -> dict[str, Any]:
    """Return the data that page.js reads."""
    recorded = {column for group in groups for trace in group.traces for column in trace.columns}
    across = [axis for axis in X_AXES if axis[0] in recorded]
    upwards = [axis for axis in Y_AXES if axis[0] in recorded]
    titles = [title for _, title, _, _ in across]
    goal, shown = goal_of(groups), [column for column, _ in upwards]
    return {
        "opens": titles.index(x_axis) if x_axis in titles else 0,
        "shows": shown.index(goal) if goal in shown else 0,
        "goal": goal,
        "target": target_of(groups),
        "runs": [_curves(group, [axis[0] for axis in across], shown) for group in groups],
        "across": [
            {"column": column, "title": title, "factor": factor, "unit": unit, "log": is_spread(groups, column)}
            for column, title, factor, unit in across
        ],
        "upwards": [
            {
                "column": column,
                "title": title,
                "end": axis_end(groups, column),
                "note": end_note(groups, column),
            }
            for column, title in upwards
        ],
        "colours": COLOURS,
        "labels": MOST_LABELS,
    }


def _curves(group: RunGroup, across: Sequence[str], upwards: Sequence[str]) -> dict[str, Any]:
    """Return the columns of a single run, or the bands of several seeds by the columns of both axes."""
    if len(group.traces) == 1:
        columns = thin_curves(group.first, MAX_CURVE_POINTS)
        events = {x: group.first.events_along(x) for x in dict.fromkeys(across) if x in columns}
        return {"name": group.name, "columns": columns, "events": events}
    return {
        "name": group.name,
        "events": {},
        "bands": {x: {y: band(group, x, y) for y in upwards} for x in dict.fromkeys(across)},
    }


def _json(value: Any) -> str:
    """Return JSON that cannot close the script element that contains it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _main_table(groups: Sequence[RunGroup], column: str) -> str:
    least, goal = fewest(groups, column), goal_of(groups)
    rows = [main_row(group, least, goal, column) for group in groups]
    return _table(rows, "main")


def _table(rows: Sequence[dict[str, str]], kind: str) -> str:
    """Return a table, without the columns that no run has. A narrow page hides the lesser columns of the main one."""
    columns = [name for name in rows[0] if name == "run" or any(row[name] != "-" for row in rows)]
    extra = {name: ' class="wide"' if kind == "main" and name not in ON_A_PHONE else "" for name in columns}
    head = "".join(f"<th{extra[name]}>{escape(name)}</th>" for name in columns)
    body = []
    for number, row in enumerate(rows):
        cells = [f'<td class="swatch" data-run="{number}">{escape(row["run"])}</td>']
        cells += [f'<td data-label="{escape(name)}"{extra[name]}>{_whole(row[name])}</td>' for name in columns[1:]]
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _whole(text: str) -> str:
    """Return a number as HTML that does not wrap, except before its spread."""
    return " ± ".join(f"<span>{escape(part)}</span>" for part in text.split(" ± "))


def _networks(traces: Sequence[Trace]) -> str:
    """Draw each network once."""
    drawn: dict[str, str] = {}
    for trace in traces:
        edges = trace.provenance.get("edges")
        nodes = trace.provenance.get("names") or []
        key = json.dumps([trace.settings.get("network"), trace.settings.get("nodes"), edges, nodes])
        if key in drawn or not edges:
            continue
        svg = draw_network(edges, nodes)
        words = f"{network_name(trace.settings)}: {trace.x.shape[0]} nodes, {counted(len(edges[0]), 'edge')}"
        low, high = f"{min(edges[2]):.4g}", f"{max(edges[2]):.4g}"
        weights = (
            f"{trace.settings.get('weights', '')} weights {low if low == high else f'from {low} to {high}'}".strip()
        )
        if svg is not None:
            drawn[key] = f"<figure>{svg}<figcaption>{escape(words)}, {escape(weights)}</figcaption></figure>"
    if not drawn:
        return ""
    heading = "Network" if len(drawn) == 1 else "Networks"
    return f'<h2>{heading}</h2>\n<div class="networks">{"".join(drawn.values())}</div>'


def _histories(groups: Sequence[RunGroup]) -> str:
    """Draw who was there and which links spoke, once for each kind of faults."""
    drawn: dict[str, str] = {}
    for group in groups:
        known = group.first.provenance
        key = json.dumps([known.get(name) for name in ("faults", "events")])
        if key in drawn or len(drawn) == MAX_HISTORIES or (svg := draw_presence(group.first)) is None:
            continue
        apart = "; ".join(f"from iteration {at:,} on {text}" for at, text in known.get("parts", [])[:MAX_PARTS])
        words = f"{group.name}: {faults_in_words(group.first)}{f'; {apart}' if apart else ''}"
        drawn[key] = f'<figure class="over-time">{svg}<figcaption>{escape(printable(words))}.</figcaption></figure>'
    return f"<h2>The network over time</h2>\n{''.join(drawn.values())}" if drawn else ""


def _settings(trace: Trace, name: str) -> str:
    facts = {**trace.settings, **{key: value for key, value in trace.provenance.items() if key not in HIDDEN}}
    facts["result"] = trace.message
    lines = [
        f"<tr><td>{escape(key.replace('_', ' '))}</td><td>{escape(str(value))}</td></tr>"
        for key, value in facts.items()
        if value is not None
    ]
    return f"<details><summary>{escape(name)}</summary><table>{''.join(lines)}</table></details>\n"
