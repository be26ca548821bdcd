"""Draws a network over time as SVG: a row per node, coloured while it is there, below the share of links that spoke."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from lessbits._internal.figures import MOST_LABELS
from lessbits._internal.wording import shortened
from lessbits.engines.recording.trace import Trace
from lessbits.errors import printable

LEFT, WIDTH, RIGHT = 96, 700, 14  # of the picture, in SVG units
BAND, ROW, GAP, FOOT = 44, 11, 3, 24
MAX_ROWS = 40  # more nodes share rows
COLUMNS = 350  # moments that are told apart
PAUSED = 0.35  # how strongly a node is coloured that is there but takes no part


class Row(NamedTuple):
    """A node, or some that share a row: its name, and how many of its nodes are there in each column, from 0 to 1."""

    name: str
    there: np.ndarray


def draw_presence(trace: Trace) -> str | None:
    """Return an SVG of who was there and which links spoke; None for a run without faults."""
    end = int(trace["iteration"][-1])
    if "speaking" not in trace.columns or end == 0:
        return None
    rows = _rows(trace, end)
    names, top = _event_names(trace, end)
    base = top + BAND + GAP
    inside = [names, _band(trace, end, top), *(_bars(row, base + ROW * number) for number, row in enumerate(rows))]
    bottom = base + ROW * len(rows)
    inside += [_event_lines(trace, end, top, bottom), _scale(end, bottom)]
    size = f"0 0 {LEFT + WIDTH + RIGHT} {bottom + FOOT}"
    return (
        f'<svg class="presence" viewBox="{size}" role="img" aria-label="the network over time">{"".join(inside)}</svg>'
    )


def _rows(trace: Trace, end: int) -> list[Row]:
    """Return who was there; nodes that are next to each other share rows if there are many."""
    nodes, known = trace.x.shape[0], trace.provenance
    if "gone" not in known:  # too many events to store
        moments = np.linspace(0, end, COLUMNS + 1)[1:]
        return [Row(f"{nodes} nodes", np.interp(moments, trace["iteration"], trace["present"]) / nodes)]
    there = np.ones((nodes, COLUMNS), np.float32)
    for name, value in (("paused", PAUSED), ("gone", 0.0)):
        for node, first, last in known.get(name, []):
            start = min(round(COLUMNS * first / end), COLUMNS - 1)
            there[node, start : max(start + 1, round(COLUMNS * last / end))] = value
    names = known.get("names") or []
    share = -(-nodes // MAX_ROWS)
    if share == 1:
        return [Row(names[node] if node < len(names) else f"node {node}", there[node]) for node in range(nodes)]
    ends = [(first, min(first + share, nodes)) for first in range(0, nodes, share)]
    return [Row(f"{first}–{last - 1}", there[first:last].mean(axis=0)) for first, last in ends]


def _bars(row: Row, top: float) -> str:
    """Return a row: its name, and a bar for each stretch of time in which as many of its nodes are there."""
    starts = [0, *(np.flatnonzero(np.diff(row.there)) + 1).tolist()]
    bars = []
    for start, stop in zip(starts, [*starts[1:], COLUMNS], strict=True):
        if (share := float(row.there[start])) > 0:
            place = f'x="{LEFT + WIDTH * start / COLUMNS:.1f}" y="{top}" width="{WIDTH * (stop - start) / COLUMNS:.1f}"'
            bars.append(f'<rect {place} height="{ROW - 2}" fill-opacity="{0.85 * share:.2f}"/>')
    name = escape(shortened(printable(row.name), 14))
    return f'<text x="{LEFT - 6}" y="{top + ROW - 3}" text-anchor="end" class="small">{name}</text>{"".join(bars)}'


def _band(trace: Trace, end: int, top: float) -> str:
    """Return the share of links that spoke, as an area, averaged over the width of a point."""
    # Each record says what was since the one before: the sums up to records, and their differences at even places.
    iteration, spoken = trace["iteration"].astype(float), trace["speaking"]
    edges = np.linspace(0, end, min(len(trace), COLUMNS // 2) + 1)
    sums = np.interp(edges, iteration, np.cumsum(spoken * np.diff(iteration, prepend=0)))
    shares = np.clip(np.nan_to_num(np.diff(sums) / np.diff(edges)), 0, 1)
    floor = top + BAND - 6
    points = []
    for first, last, share in zip(edges[:-1], edges[1:], shares, strict=True):
        height = floor - (BAND - 6) * share
        points += [f"{_place(first, end):.1f},{height:.1f}", f"{_place(last, end):.1f},{height:.1f}"]
    area = f"{LEFT},{floor} {' '.join(points)} {LEFT + WIDTH},{floor}"
    mean = f"{100 * np.sum(spoken * np.diff(iteration, prepend=0)) / end:.3g} %"
    words = [("links that", 12), ("spoke,", 24), (mean, 36)]
    labels = [f'<text x="{LEFT - 6}" y="{top + y}" text-anchor="end" class="small">{text}</text>' for text, y in words]
    frame = f'<line x1="{LEFT}" y1="{top}" x2="{LEFT + WIDTH}" y2="{top}" class="full"/>'
    return f'{"".join(labels)}{frame}<polygon points="{area}" class="spoke"/>'


def _event_names(trace: Trace, end: int) -> tuple[str, int]:
    """Return the names of events in lines of text that do not overlap, and the height that they take."""
    moments = trace.events_along("iteration")
    if not 0 < len(moments) <= MOST_LABELS:
        return "", 4
    free: list[float] = []  # where each line has room
    texts = []
    for at, text in moments:
        shown = shortened(printable(text), 40)
        length = 5.4 * len(shown)
        place = min(_place(at, end), LEFT + WIDTH + RIGHT - length)
        line = next((number for number, edge in enumerate(free) if edge < place), len(free))
        free[line:] = [place + length + 8, *free[line + 1 :]]
        texts.append(f'<text x="{place:.1f}" y="{11 + 12 * line}" class="small">{escape(shown)}</text>')
    return "".join(texts), 4 + 12 * len(free)


def _event_lines(trace: Trace, end: int, top: float, bottom: float) -> str:
    return "".join(
        f'<line x1="{_place(at, end):.1f}" y1="{top}" x2="{_place(at, end):.1f}" y2="{bottom}" class="event">'
        f"<title>iteration {at:,.0f}: {escape(printable(text))}</title></line>"
        for at, text in trace.events_along("iteration")
    )


def _scale(end: int, bottom: float) -> str:
    """Return the ticks of the horizontal axis."""
    step = next(step for power in range(12) for step in (10**power, 2 * 10**power, 5 * 10**power) if end <= 8 * step)
    ticks: Sequence[int] = range(0, end + 1, step)
    words = [f"{tick:,}" for tick in ticks]
    words[-1] += " iterations" if WIDTH - _place(ticks[-1], end) + LEFT > 60 else ""
    return "".join(
        f'<text x="{_place(tick, end):.1f}" y="{bottom + 15}" text-anchor="{"start" if "iter" in word else "middle"}" '
        f'class="small">{word}</text>'
        for tick, word in zip(ticks, words, strict=True)
    )


def _place(iteration: float, end: int) -> float:
    return LEFT + WIDTH * iteration / end
