"""Draws docs/images/agreement.svg, an animated picture of a network that agrees: `python docs/draw_agreement.py`.

Twenty nodes hold a vector each, and find the average of all. Colours show one coordinate of each node's estimate after
each exchange; the curves beside show the same numbers, against the bits that a link has carried. Readers whose system
asks for less motion see the end of it.
"""

from pathlib import Path
from typing import NamedTuple

import networkx
import numpy as np

import lessbits
from lessbits._internal.wording import human

FILE = Path(__file__).parent / "images" / "agreement.svg"
NODES, DIM, LAST, SECONDS = 20, 30, 14, 9
SIDE, CHART_LEFT, CHART_WIDTH, TOP, HEIGHT = 300, 372, 360, 34, 266
LOW, MIDDLE, HIGH = (0, 114, 178), (180, 168, 140), (213, 94, 0)  # colours of small and large values

STYLE = """
  svg { background: var(--page); --page: #ffffff; --text: #24292f; --faint: #8b949e; }
  text { font: 13px system-ui, sans-serif; fill: var(--text); }
  .faint { fill: var(--faint); font-size: 12px; }
  line, .frame { stroke: var(--faint); fill: none; }
  circle { stroke: var(--text); stroke-width: 1; }
  polyline { fill: none; stroke-width: 1.3; stroke-opacity: 0.85; }
  .cursor { stroke: var(--text); stroke-dasharray: 3 3; }
  @media (prefers-color-scheme: dark) { svg { --page: #14171a; --text: #e6e9ed; --faint: #7d8894; } }
  @media (prefers-reduced-motion: reduce) { * { animation: none !important; } }
"""


class Course(NamedTuple):
    """What the picture shows: the graph, one coordinate of all nodes after each exchange, and the bits of a link."""

    graph: networkx.Graph
    values: np.ndarray  # [exchanges + 1, nodes]
    bits: np.ndarray
    error: np.ndarray


def run() -> Course:
    """Run average consensus with coarse messages, and keep every iterate."""
    graph = networkx.connected_watts_strogatz_graph(NODES, 4, 0.25, seed=3)
    network = lessbits.make_network(graph)
    problem = lessbits.Consensus.random(NODES, DIM, seed=1)
    method = lessbits.make_method(
        "primal-dual", problem, network, "dit-4", messages="broadcast", corrected=True, stepsizes="practical"
    )
    traces = [
        lessbits.simulate(problem, network, method, iterations=last, record_every=1) for last in range(1, LAST + 1)
    ]
    start = np.asarray(problem.vectors)[:, 0]  # every node starts from its own vector
    values = np.stack([start, *(np.asarray(trace.x)[:, 0] for trace in traces)])
    longest = traces[-1]
    return Course(graph, values, np.asarray(longest["wire_bits_per_link"]), np.asarray(longest["error"]))


def colour(value: float, low: float, high: float) -> str:
    """Return the colour of a value between `low` and `high`: blue, grey in the middle, orange."""
    place = min(max((value - low) / (high - low), 0.0), 1.0)
    ends, share = ((LOW, MIDDLE), 2 * place) if place < 0.5 else ((MIDDLE, HIGH), 2 * place - 1)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in zip(*ends, strict=True))


def frames(name: str, declarations: list[str]) -> str:
    """Return CSS keyframes: a pause at the start, all declarations at equal distances, and a pause at the end."""
    places = np.linspace(8, 80, len(declarations))
    stops = [f"{place:.1f}%{{{text}}}" for place, text in zip(places, declarations, strict=True)]
    return f"@keyframes {name}{{0%{{{declarations[0]}}}{''.join(stops)}to{{{declarations[-1]}}}}}"


def draw(course: Course) -> str:
    """Return the picture as text."""
    values, low, high = course.values, float(course.values[0].min()), float(course.values[0].max())
    spots = networkx.spring_layout(course.graph, seed=2, iterations=200)
    points = np.array([spots[node] for node in range(NODES)])
    points = 20 + (SIDE - 40) * (points - points.min(0)) / (points.max(0) - points.min(0))
    across = CHART_LEFT + CHART_WIDTH * course.bits / course.bits[-1]
    upwards = TOP + HEIGHT * (high - values) / (high - low)
    shades = [[colour(value, low, high) for value in values[:, node]] for node in range(NODES)]
    css = [frames(f"n{node}", [f"fill:{shade}" for shade in shades[node]]) for node in range(NODES)]
    css += [f".n{node}{{animation:n{node} {SECONDS}s linear infinite}}" for node in range(NODES)]
    css.append(frames("cursor", [f"transform:translateX({x - across[-1]:.1f}px)" for x in across]))
    css.append(f".cursor{{animation:cursor {SECONDS}s linear infinite}}")
    lines = [
        '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'.format(*points[i], *points[j])
        for i, j in course.graph.edges
    ]
    dots = [
        f'<circle class="n{node}" cx="{x:.1f}" cy="{y:.1f}" r="9" fill="{shades[node][-1]}"/>'
        for node, (x, y) in enumerate(points)
    ]
    curves = [
        f'<polyline stroke="{shades[node][0]}" points="'
        + " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, upwards[:, node], strict=True))
        + '"/>'
        for node in range(NODES)
    ]
    right, bottom = CHART_LEFT + CHART_WIDTH, TOP + HEIGHT
    ticks = [
        f'<text class="faint" x="{CHART_LEFT + share * CHART_WIDTH:.0f}" y="{bottom + 18}" text-anchor="{anchor}">'
        f"{human(share * course.bits[-1])}</text>"
        for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end"))
    ]
    words = [
        f'<text x="20" y="18">{NODES} nodes, each talks to its neighbours only</text>',
        f'<text x="{CHART_LEFT}" y="18">One coordinate of each node, against bits per link</text>',
        f'<text class="faint" x="20" y="{bottom + 36}">After {LAST} exchanges the mean squared error is '
        f"{course.error[-1]:.1e}, of {course.error[0]:.0f} at the start.</text>",
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {bottom + 46}" role="img">',
            "<title>A network whose nodes agree on an average, exchange by exchange</title>",
            f"<style>{STYLE}{''.join(css)}</style>",
            f'<g transform="translate(10 {TOP - 10})">',
            *lines,
            *dots,
            "</g>",
            *curves,
            f'<path class="frame" d="M{CHART_LEFT} {TOP}V{bottom}H{right}"/>',
            f'<line class="cursor" x1="{right}" x2="{right}" y1="{TOP}" y2="{bottom}"/>',
            *ticks,
            *words,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    FILE.write_text(draw(run()), encoding="utf-8")
    print(FILE)
