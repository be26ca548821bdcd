"""The HTML report: one self-contained file that needs no network, fits a phone, and has a dark mode."""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from lessbits._internal.wording import counted
from lessbits.engines.recording.trace import Trace
from lessbits.report.network_drawing import draw_network
from lessbits.report.plots import COLOURS
from lessbits.report.runs import X_AXES, Y_AXES, axis_floor, name_runs, table_row, thin_curves

HIDDEN = ("edges",)  # of the provenance: drawn, but not listed


def html_page(traces: Sequence[Trace], title: str = "lessbits report", x_axis: str = "iterations") -> str:
    """Return the whole page; `x_axis` is the title of the horizontal axis that it shows first."""
    from plotly.offline import get_plotlyjs

    names = name_runs(traces)
    parts = {name: files("lessbits.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")}
    count = "One run" if len(traces) == 1 else f"{len(traces)} runs"
    lead = f"{count} by lessbits {_versions(traces)}. Click a name in the legend to hide a run."
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{parts["page.css"]}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<p class="lead">{lead}</p>
<div class="controls">
<fieldset class="switch" id="across" aria-label="horizontal axis"></fieldset>
<fieldset class="switch" id="upwards" aria-label="vertical axis"></fieldset>
<fieldset class="switch" id="scale" aria-label="scale of the vertical axis"></fieldset>
</div>
<div id="plot"></div>
<h2>Runs</h2>
{_table([table_row(trace, name) for trace, name in zip(traces, names, strict=True)])}
<p class="faint">Bits per link are those of the bytes sent, with headers; nominal ones follow the paper's formulas.
Bits saved compares with a vector of 32-bit numbers on each link in each iteration. A rate is the share by which an
iteration shrinks the error: proven for theory's step sizes, and measured on the way down.</p>
{_networks(traces)}
<h2>Settings</h2>
{"".join(_settings(trace, name) for trace, name in zip(traces, names, strict=True))}
<footer>Made by lessbits. Everything is in this file; nothing is loaded from elsewhere.</footer>
<script type="application/json" id="page">{_json(_script_data(traces, names, x_axis))}</script>
<script>{get_plotlyjs()}</script>
<script>
{parts["page.js"]}</script>
</body>
</html>
"""


def _versions(traces: Sequence[Trace]) -> str:
    return ", ".join(sorted({escape(str(trace.provenance.get("version", "of unknown version"))) for trace in traces}))


def _script_data(traces: Sequence[Trace], names: Sequence[str], x_axis: str) -> dict[str, Any]:
    """Return the data that page.js reads."""
    recorded = {column for trace in traces for column in trace.columns}
    titles = [title for column, title, _ in X_AXES if column in recorded]
    return {
        "opens": titles.index(x_axis) if x_axis in titles else 0,
        "runs": [{"name": name, "columns": thin_curves(trace)} for trace, name in zip(traces, names, strict=True)],
        "across": [
            {"column": column, "title": title, "factor": factor}
            for column, title, factor in X_AXES
            if column in recorded
        ],
        "upwards": [
            {"column": column, "title": title, "floor": axis_floor(traces, column)}
            for column, title in Y_AXES
            if column in recorded
        ],
        "colours": COLOURS,
    }


def _json(value: Any) -> str:
    """Return JSON that cannot close the script element that contains it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _table(rows: Sequence[dict[str, str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = []
    for number, cells in enumerate(rows):
        first, *others = (escape(cell) for cell in cells.values())
        marked = f'<td class="swatch" data-run="{number}">{first}</td>'
        body.append(f"<tr>{marked}{''.join(f'<td>{cell}</td>' for cell in others)}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def _networks(traces: Sequence[Trace]) -> str:
    """Draw each network once."""
    drawn: dict[str, str] = {}
    for trace in traces:
        edges = trace.provenance.get("edges")
        key = json.dumps([trace.settings.get("network"), trace.settings.get("nodes"), edges])
        if key in drawn or not edges:
            continue
        svg = draw_network(edges)
        words = (
            f"{trace.settings.get('network', 'network')}: {trace.x.shape[0]} nodes, {counted(len(edges[0]), 'edge')}"
        )
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


def _settings(trace: Trace, name: str) -> str:
    facts = {**trace.settings, **{key: value for key, value in trace.provenance.items() if key not in HIDDEN}}
    facts["result"] = trace.message
    lines = [
        f"<tr><td>{escape(key.replace('_', ' '))}</td><td>{escape(str(value))}</td></tr>"
        for key, value in facts.items()
        if value is not None
    ]
    return f"<details><summary>{escape(name)}</summary><table>{''.join(lines)}</table></details>\n"
