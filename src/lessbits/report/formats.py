"""Reports as files: HTML, Markdown, and pictures."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lessbits._internal.figures import COLOURS, label_axis, mark_events
from lessbits._internal.files import write_whole
from lessbits.engines.recording.trace import Trace
from lessbits.errors import InputError, check_name, check_path, printable, shown
from lessbits.report.faults import faults_in_lines
from lessbits.report.names import report_facts, report_heading
from lessbits.report.page import html_page
from lessbits.report.plots import LINES, MARKERS, in_style, new_figure, save_figure
from lessbits.report.runs import X_AXES, axis_end, end_note, fewest, further_row, is_spread, main_row
from lessbits.report.seeds import RunGroup, band, distinct, group_runs
from lessbits.report.verdict import BITS, SECONDS, goal_of, ranked, target_of, verdict

FORMATS = ("html", "png", "svg", "pdf", "md")
FEW_RECORDS = 15
PANELS = ("iteration", BITS)


def load_runs(places: Sequence[Path], passed_over: Callable[[str], None] | None = None) -> list[Trace]:
    """Read traces from files, and from folders all files that end in .trace, sorted by name.

    Files in a folder that are no traces are passed over. `passed_over` is called with a line about each.
    """
    found: list[Trace] = []
    for place in places:
        if not place.is_dir():
            found.append(Trace.load(place))
            continue
        before, lines = len(found), []
        for path in sorted(place.glob("*.trace")):
            try:
                found.append(Trace.load(path))
            except InputError as error:
                lines.append(f"passed over: {error}")
        if len(found) == before:
            why = f" ({'; '.join(lines)})" if lines else ""
            raise InputError(f"the folder {place} has no traces{why}: lessbits run --save NAME.trace writes them")
        if passed_over is not None:
            for line in lines:
                passed_over(line)
    return distinct(found)


def write_report(
    traces: Sequence[Trace], path: str | Path, kind: str | None = None, x_axis: str = "bits per link"
) -> None:
    """Write a report of runs to a file.

    Args:
        traces: The runs, as `simulate` and `Trace.load` return them.
        path: The file to write.
        kind: "html", "md", "png", "svg" or "pdf"; by default the extension of the file decides.
        x_axis: The horizontal axis that an HTML report shows first: "bits per link", "iterations", "epochs", …

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=8, dim=5), lessbits.make_network("ring", nodes=8)
        >>> method = lessbits.make_method("lead", problem, network, "dit-4", stepsizes="practical")
        >>> trace = lessbits.simulate(problem, network, method, iterations=500, until=1e-3)
        >>> lessbits.write_report([trace], "report.html")  # doctest: +SKIP
    """
    path = check_path("the report", path)
    if not isinstance(traces, Sequence) or not traces or not all(isinstance(trace, Trace) for trace in traces):
        raise InputError(f"the runs are {shown(traces)}, but they must be a list of traces, at least one")
    check_name("x_axis", x_axis, [title for _, title, _, _ in X_AXES])
    kind = kind or path.suffix.lstrip(".") or "html"
    check_name("format", kind, FORMATS)
    if kind == "html":
        write_whole(path, html_page(traces, x_axis=x_axis))
    elif kind == "md":
        write_whole(path, markdown_report(traces))
    else:
        save_figure(draw_report(traces), path, format=kind, dpi=150, bbox_inches="tight")


def markdown_report(traces: Sequence[Trace]) -> str:
    """Return heading, verdict and a table of the runs in Markdown, with the command of each."""
    traces = distinct(traces)
    groups = ranked(group_runs(traces))
    least, goal = fewest(groups), goal_of(groups)
    rows = [{**main_row(group, least, goal), **further_row(group)} for group in groups]
    columns = [name for name in rows[0] if any(row[name] != "-" for row in rows)]
    lines = ["| " + " | ".join(map(as_markdown, columns)) + " |", "|---|" + "---:|" * (len(columns) - 1)]
    lines += ["| " + " | ".join(as_markdown(row[name]) for name in columns) + " |" for row in rows]
    commands = [
        f"- {as_markdown(group.name)}: {as_code(trace.provenance['command'])}"
        for group in groups
        for trace in group.traces
        if "command" in trace.provenance
    ]
    faults: list[str] = []
    for group in groups:
        first, *others = [as_markdown(line) for line in faults_in_lines(group.first)] or [""]
        faults += [f"- {as_markdown(group.name)}: {first}", *(f"  - {line}" for line in others)] if first else []
    lines += ["", "Faults:", "", *faults] if faults else []
    words = [as_markdown(text) for text in (report_heading(traces), report_facts(traces), verdict(groups))]
    heading = [f"# {words[0]}", "", words[1], "", words[2], ""]
    return "\n".join([*heading, *lines, "", *(["Commands:", "", *dict.fromkeys(commands), ""] if commands else [])])


def as_markdown(text: object) -> str:
    r"""Return a text that Markdown shows as it is: no HTML, no links, no emphasis, and no end of a cell.

    >>> print(as_markdown("a|b <i> [x](y)"))
    a\|b &lt;i> \[x\](y)
    """
    flat = printable(" ".join(str(text).split()))
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", flat.replace("&", "&amp;").replace("<", "&lt;"))


def as_code(text: object) -> str:
    """Return a text as code in Markdown, fenced by more backticks than it has in a row."""
    flat = printable(" ".join(str(text).split()))
    fence = "`" * (1 + max((len(found) for found in re.findall("`+", flat)), default=0))
    return f"{fence} {flat} {fence}" if "`" in flat else f"{fence}{flat}{fence}"


@in_style
def draw_report(traces: Sequence[Trace]) -> Any:
    """Plot the error, or what the target is about, against iterations and bits; several seeds as a band.

    With a model of the links, a third panel has the simulated seconds of each run against its bits.
    """
    traces = distinct(traces)
    groups = ranked(group_runs(traces))
    goal = goal_of(groups)
    timed = all(SECONDS in trace.columns for trace in traces)
    figure, axes = new_figure(1, len(PANELS) + timed, share_y=not timed, width=5.5, height=4.4)
    if timed:
        axes[0][1].sharey(axes[0][0])
        axes[0][1].tick_params(labelleft=False)
        _draw_ends(axes[0][-1], groups)
    for axis, column in zip(axes[0], PANELS, strict=False):
        for number, group in enumerate(groups):
            _draw_group(axis, group, number, column, goal)
        _draw_starts(axis, groups, column, goal)
        if column == "iteration" or len(groups) == 1:  # elsewhere an event has another place for each run
            for group in groups:
                mark_events(axis, group.first.events_along(column) if len(group.traces) == 1 else [])
        axis.set_yscale("log")
        if is_spread(groups, column):
            axis.set_xscale("log")
        label_axis(axis, "x", column)
        label_axis(axis, "y", goal)
        axis.set_ylim(axis_end(groups, goal), None)
        if (target := target_of(groups)) is not None and target > 0:
            axis.axhline(target, color="0.5", linestyle=":", linewidth=1.2)
    axes[0][1].set_ylabel("")
    figure.suptitle(_drawn(report_heading(traces)), x=0.01, ha="left")
    handles, names = axes[0][0].get_legend_handles_labels()
    longest = max((len(name) for name in names), default=0)  # names can be long
    note = _drawn(end_note(groups, goal)) or None
    figure.legend(
        handles, names, loc="outside lower center", ncols=max(1, min(4, 120 // (longest + 8))), title=note, fontsize=8
    )
    return figure


def _drawn(text: str) -> str:
    """Return a text that matplotlib draws as it is: a $ would begin a formula, and a _ hide a name from the legend."""
    return re.sub("^_", " _", printable(text).replace("$", r"\$"))


def _draw_starts(axis: Any, groups: Sequence[RunGroup], across: str, upwards: str) -> None:
    """Draw a point for each run that was at its target from the start; a logarithmic axis has it at its edge."""
    places = [place for group in groups for trace in group.traces for place in trace[across] if place > 0]
    left = min(places, default=0.0) if is_spread(groups, across) else 0.0
    for number, group in enumerate(groups):
        trace = group.first
        if len(trace) == 1 and upwards in trace.columns:
            look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
            axis.plot([left], trace[upwards], linestyle="none", **look)


def _draw_ends(axis: Any, groups: Sequence[RunGroup]) -> None:
    """Draw a point for each run that reached its target, or had none: seconds over bits."""
    places = BITS, SECONDS
    for number, group in enumerate(groups):
        if group.ended in ("reached", "stopped"):
            look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
            axis.plot(*(group.mean(column) for column in places), linestyle="none", markersize=8, **look)
    for direction, column in zip("xy", places, strict=True):
        if is_spread(groups, column):
            axis.set(**{f"{direction}scale": "log"})
        label_axis(axis, direction, column)


def _draw_group(axis: Any, group: RunGroup, number: int, across: str, upwards: str) -> None:
    look = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number // len(COLOURS) % 4]}
    if len(group.traces) == 1:
        trace = group.first
        if upwards not in trace.columns:
            return
        height = np.where(trace[upwards] > 0, trace[upwards], np.nan)
        marker = MARKERS[number % len(MARKERS)]
        # Between few records a straight line would claim too much.
        steps = "steps-post" if len(trace) < FEW_RECORDS else "default"
        # matplotlib spaces markers along what it draws, and fails if that is nothing.
        drawn = np.isfinite(height) & np.isfinite(trace[across]) & (trace[across] > 0)
        every = 0.2 if drawn.any() else None
        axis.plot(
            trace[across], height, label=_drawn(group.name), marker=marker, markevery=every, drawstyle=steps, **look
        )
    elif (found := band(group, across, upwards)) is not None:
        axis.fill_between(found["x"], found["low"], found["high"], color=look["color"], alpha=0.2, linewidth=0)
        axis.plot(found["x"], found["middle"], label=_drawn(group.name), **look)
