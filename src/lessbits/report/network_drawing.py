"""Networks drawn as SVG: nodes as dots, edges as lines as thick as their weights."""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx

SIDE = 400  # of the picture, in its own units
MARGIN = 14
MOST_NODES = 500  # beyond, a drawing shows nothing, and laying it out takes long
THICKEST, THINNEST = 4.0, 0.6


def draw_network(edges: list[list[Any]]) -> str | None:
    """Return an SVG of the edges [first nodes, second nodes, weights]; None if there are too many nodes to see any."""
    import networkx

    first, second, weights = edges
    graph = networkx.Graph()
    graph.add_weighted_edges_from(zip(first, second, weights, strict=True))
    if not 0 < graph.number_of_nodes() <= MOST_NODES:
        return None
    places = _scaled(_places(graph))
    heaviest = max(weights)
    lines = [
        f'<line x1="{places[i][0]:.1f}" y1="{places[i][1]:.1f}" x2="{places[j][0]:.1f}" y2="{places[j][1]:.1f}" '
        f'stroke-width="{max(THINNEST, THICKEST * weight / heaviest):.2f}">'
        f"<title>{i} – {j}: weight {weight:.4g}</title></line>"
        for i, j, weight in zip(first, second, weights, strict=True)
    ]
    radius = max(1.5, min(7.0, 60 / math.sqrt(len(places))))
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>node {node}: {graph.degree(node)} neighbours'
        "</title></circle>"
        for node, (x, y) in sorted(places.items())
    ]
    inside = "\n".join(['<g class="edges">', *lines, '</g><g class="nodes">', *dots, "</g>"])
    return f'<svg viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="the network">\n{inside}\n</svg>'


def _places(graph: "networkx.Graph") -> dict[int, Any]:
    """Lay out by shape: rings and paths around a circle, a star around its hub, all others by springs."""
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
    return {node: (math.sin(place * angle), -math.cos(place * angle)) for place, node in enumerate(nodes)}


def _scaled(places: dict[int, Any]) -> dict[int, tuple[float, float]]:
    """Fit the picture, keeping proportions."""
    across, upwards = zip(*places.values(), strict=True)
    left, top = min(across), min(upwards)
    span = max(max(across) - left, max(upwards) - top) or 1.0
    scale = (SIDE - 2 * MARGIN) / span
    return {node: (MARGIN + scale * (x - left), MARGIN + scale * (y - top)) for node, (x, y) in places.items()}
