"""Draws networks as SVG: nodes are dots, and edges are lines whose width shows the weight."""

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from lessbits._internal.wording import shortened
from lessbits.errors import printable

if TYPE_CHECKING:
    import networkx

SIDE = 400  # of the picture, in SVG units
MARGIN = 14
MAX_NODES = 500  # larger drawings are unreadable, and their layout takes long
MAX_LABELS = 30  # nodes whose names are written next to them
LONGEST_LABEL = 24  # characters
FONT = 12
WIDEST, THINNEST = 4.0, 0.6  # lines


def draw_network(edges: list[list[Any]], names: Sequence[str] = ()) -> str | None:
    """Return an SVG of the edges [first nodes, second nodes, weights]; None if there are too many nodes.

    Nodes that have names show them when the mouse is over them, and in a small network always.
    """
    import networkx

    first, second, weights = edges
    graph = networkx.Graph()
    graph.add_weighted_edges_from(zip(first, second, weights, strict=True))
    if not 0 < graph.number_of_nodes() <= MAX_NODES:
        return None
    positions = _fit(_layout(graph))

    def name(node: Any) -> str:
        return printable(names[node]) if isinstance(node, int) and node < len(names) else str(node)

    scale = max(weights)
    lines = [
        _line(
            positions[i],
            positions[j],
            max(THINNEST, WIDEST * weight / scale),
            f"{name(i)} – {name(j)}: weight {weight:.4g}",
        )
        for i, j, weight in zip(first, second, weights, strict=True)
    ]
    radius = max(1.5, min(7.0, 60 / math.sqrt(len(positions))))
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">'
        f"<title>node {escape(name(node))}: {graph.degree(node)} neighbours</title></circle>"
        for node, (x, y) in sorted(positions.items())
    ]
    inside = ['<g class="edges">', *lines, '</g><g class="nodes">', *dots, "</g>"]
    if names and len(positions) <= MAX_LABELS:
        labels = [_label(place, radius, name(node)) for node, place in sorted(positions.items())]
        inside += ['<g class="labels">', *labels, "</g>"]
    content = "\n".join(inside)
    return f'<svg viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="the network">\n{content}\n</svg>'


def _line(start: tuple[float, float], end: tuple[float, float], width: float, title: str) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke-width="{width:.2f}"><title>{escape(title)}</title></line>'
    )


def _label(place: tuple[float, float], radius: float, name: str) -> str:
    """Return the name of a node below its dot, or above if there is no room; at the sides it runs inwards."""
    x, y = place
    anchor = "start" if x < SIDE / 3 else "end" if x > SIDE * 2 / 3 else "middle"
    height = y + radius + FONT if y < SIDE - 2 * MARGIN else y - radius - FONT / 3
    shown = escape(shortened(name, LONGEST_LABEL))
    return f'<text x="{x:.1f}" y="{height:.1f}" text-anchor="{anchor}" font-size="{FONT}">{shown}</text>'


def _layout(graph: "networkx.Graph") -> dict[int, Any]:
    """Place rings, paths and complete graphs on a circle, a star around its hub, and others by a spring layout."""
    import networkx

    nodes, degrees = sorted(graph), dict(graph.degree)
    hub = max(nodes, key=degrees.__getitem__)
    leaves = [node for node in nodes if node != hub]
    if len(nodes) > 3 and degrees[hub] == len(leaves) and all(degrees[leaf] == 1 for leaf in leaves):
        return {hub: (0.0, 0.0), **_circle(leaves)}
    if degrees[hub] <= 2:
        end = min(nodes, key=lambda node: (degrees[node], node))
        return _circle(list(networkx.dfs_preorder_nodes(graph, end)))
    if degrees[hub] == len(leaves):
        return _circle(nodes)
    return dict(networkx.spring_layout(graph, pos=_circle(nodes), weight=None, iterations=150, seed=0))


def _circle(nodes: list[int]) -> dict[int, Any]:
    angle = 2 * math.pi / max(1, len(nodes))
    return {node: (math.sin(index * angle), -math.cos(index * angle)) for index, node in enumerate(nodes)}


def _fit(positions: dict[int, Any]) -> dict[int, tuple[float, float]]:
    """Scale positions to the picture, keeping proportions."""
    x_values, y_values = zip(*positions.values(), strict=True)
    left, top = min(x_values), min(y_values)
    span = max(max(x_values) - left, max(y_values) - top) or 1.0
    scale = (SIDE - 2 * MARGIN) / span
    return {node: (MARGIN + scale * (x - left), MARGIN + scale * (y - top)) for node, (x, y) in positions.items()}
