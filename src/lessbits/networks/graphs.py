"""The named graphs: their edges by index arithmetic (or by networkx for the random ones) and their closed forms."""

import math
import random
import re
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from lessbits._internal.logging import logger
from lessbits.errors import InputError
from lessbits.networks import spectrum
from lessbits.networks.weights import check_nodes, check_size, count_components

# A disconnected random graph is drawn again. For sensible parameters a few draws are enough.
DRAWS = 20


class Graph(NamedTuple):
    """A graph without weights: edges int64 [edges, 2], and (λ_min⁺, λ_max) for unit weights where known."""

    name: str
    nodes: int
    edges: np.ndarray
    unit_spectrum: tuple[float, float] | None = None


def ring(nodes: int) -> Graph:
    """Join each node to the next, and the last to the first. A ring of two nodes is a single edge."""
    return Graph("ring", nodes, _ring_edges(nodes), spectrum.ring_spectrum(nodes))


def path(nodes: int) -> Graph:
    """Join each node to the next, but not the last to the first."""
    first = np.arange(nodes - 1)
    return Graph("path", nodes, _pairs(first, first + 1), spectrum.path_spectrum(nodes))


def star(nodes: int) -> Graph:
    """Node 0 is the hub, joined to all others."""
    leaves = np.arange(1, nodes)
    return Graph("star", nodes, _pairs(np.zeros_like(leaves), leaves), spectrum.star_spectrum(nodes))


def complete(nodes: int) -> Graph:
    """Every two nodes are joined."""
    check_size(f"a complete network of {nodes} nodes", nodes * (nodes - 1))
    return Graph("complete", nodes, _complete_edges(nodes), spectrum.complete_spectrum(nodes))


def torus(nodes: int | None, sides: str | None = None) -> Graph:
    """Build a grid of rows x columns that closes in both directions; node = row * columns + column.

    Without `sides` it is as nearly square as the number of nodes allows, with sides of three or more if there are such.
    """
    rows, columns = _nearly_square(check_nodes(nodes)) if sides is None else _parse_sides(sides)
    check_nodes(rows * columns)
    if sides is None and min(rows, columns) == 1:
        logger.warning("a torus of %d nodes has the sides %d x %d, which is a ring", nodes, rows, columns)
    down, right = _ring_edges(rows), _ring_edges(columns)
    row, column = np.arange(rows), np.arange(columns)
    # Every edge of a column's ring in every column, then every edge of a row's ring in every row.
    vertical = down[:, None, :] * columns + column[None, :, None]
    horizontal = row[:, None, None] * columns + right[None, :, :]
    edges = np.concatenate((vertical.reshape(-1, 2), horizontal.reshape(-1, 2)))
    return Graph(f"torus:{rows}x{columns}", rows * columns, edges, spectrum.torus_spectrum(rows, columns))


def hypercube(nodes: int) -> Graph:
    """Join the nodes whose numbers differ in one bit."""
    dimension = nodes.bit_length() - 1
    if nodes != 1 << dimension:
        raise InputError(
            f"a hypercube cannot have {nodes} nodes: the number must be a power of two, "
            f"such as {1 << dimension} or {2 << dimension}"
        )
    number = np.arange(nodes)
    without = [number[number & (1 << bit) == 0] for bit in range(dimension)]
    edges = np.concatenate([_pairs(low, low | (1 << bit)) for bit, low in enumerate(without)])
    return Graph("hypercube", nodes, edges, spectrum.hypercube_spectrum(dimension))


def barbell(nodes: int) -> Graph:
    """Two complete graphs of nodes // 2, joined by one edge or, if the number is odd, through a middle node."""
    half = nodes // 2
    check_size(f"a barbell of {nodes} nodes", 2 * half * (half - 1))
    bridge = np.arange(half - 1, nodes - half)
    clique = _complete_edges(half)
    edges = np.concatenate((clique, _pairs(bridge, bridge + 1), clique + (nodes - half)))
    return Graph("barbell", nodes, edges)


def random_regular(nodes: int, seed: int, degree: str = "4") -> Graph:
    """Draw a connected graph in which every node has `degree` neighbours."""
    import networkx

    count = _parse_count("random-regular", "the degree", degree)
    if not 1 <= count < nodes:
        raise InputError(f"random-regular:{count} on {nodes} nodes: the degree must be between 1 and {nodes - 1}")
    if nodes * count % 2:
        raise InputError(f"random-regular:{count} on {nodes} nodes: nodes x degree must be even, change one of them")
    name = f"random-regular:{count}"
    check_size(f"{name} of {nodes} nodes", nodes * count)
    generator = random.Random(seed)
    return _draw_connected(
        name, nodes, lambda: networkx.random_regular_graph(count, nodes, seed=generator), "a larger degree"
    )


def erdos_renyi(nodes: int, seed: int, probability: str | None = None) -> Graph:
    """Draw a connected graph in which each edge is there with probability P, by default min(1, 2 ln(n)/n)."""
    import networkx

    chance = min(1.0, 2 * math.log(nodes) / nodes)
    if probability is not None:
        chance = _parse_probability("erdos-renyi", probability)
    name = f"erdos-renyi:{chance:.6g}"
    check_size(f"{name} of {nodes} nodes", chance * nodes * (nodes - 1))
    generator = random.Random(seed)
    chance = chance if 1 - chance < 1 else 0.0  # networkx divides by log(1 - P)
    return _draw_connected(
        name,
        nodes,
        lambda: networkx.fast_gnp_random_graph(nodes, chance, seed=generator),
        f"a larger P (connected graphs are usual from {min(1.0, 2 * math.log(nodes) / nodes):.2g} on)",
    )


def watts_strogatz(nodes: int, seed: int, neighbors: str = "4", probability: str = "0.1") -> Graph:
    """Draw a connected small world: a ring with K nearest neighbours, each edge rewired with probability P."""
    import networkx

    count = _parse_count("watts-strogatz", "K", neighbors)
    chance = _parse_probability("watts-strogatz", probability)
    if count % 2 or not 2 <= count < nodes:
        raise InputError(f"watts-strogatz with K = {count} on {nodes} nodes: K must be even, from 2 to {nodes - 1}")
    name = f"watts-strogatz:{count}:{chance:g}"
    check_size(f"{name} of {nodes} nodes", nodes * count)
    generator = random.Random(seed)
    return _draw_connected(
        name,
        nodes,
        lambda: networkx.watts_strogatz_graph(nodes, count, chance, seed=generator),
        "a larger K or a smaller P",
    )


def geometric(nodes: int, seed: int, radius: str | None = None) -> Graph:
    """Draw points in a square of side 1, and connect those within the radius R, by default √(2 ln(n)/n)."""
    import networkx

    reach = math.sqrt(2 * math.log(nodes) / nodes)
    if radius is not None:
        reach = _parse_positive("geometric", "R", radius)
    name = f"geometric:{reach:.6g}"
    check_size(f"{name} of {nodes} nodes", min(1.0, math.pi * reach**2) * nodes**2)
    generator = random.Random(seed)
    return _draw_connected(
        name, nodes, lambda: networkx.random_geometric_graph(nodes, reach, seed=generator), "a larger R"
    )


def _draw_connected(name: str, nodes: int, draw: Callable[[], Any], advice: str) -> Graph:
    """Draw until the graph is connected, at most `DRAWS` times."""
    for _ in range(DRAWS):
        graph = draw()
        ends = np.fromiter(chain.from_iterable(graph.edges()), dtype=np.int64, count=2 * graph.number_of_edges())
        edges = ends.reshape(-1, 2)
        components = count_components(nodes, edges)
        if components == 1:
            return Graph(name, nodes, edges)
    raise InputError(
        f"{name} on {nodes} nodes came out disconnected in {DRAWS} draws (the last fell into {components} "
        f"components), but every node must be reachable from every other: take {advice}, or another seed"
    )


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack((first, second), axis=1)


def _ring_edges(nodes: int) -> np.ndarray:
    """Return the edges of a ring; two nodes have one edge and one node has none."""
    number = np.arange(nodes if nodes > 2 else nodes - 1)
    return _pairs(number, (number + 1) % nodes)


def _complete_edges(nodes: int) -> np.ndarray:
    return _pairs(*np.triu_indices(nodes, k=1))


def _nearly_square(nodes: int) -> tuple[int, int]:
    """Return the two factors of `nodes` that are closest to each other: the smaller is the largest up to the root."""
    rows = next(side for side in range(math.isqrt(nodes), 0, -1) if nodes % side == 0)
    return rows, nodes // rows


def _parse_sides(sides: str) -> tuple[int, int]:
    rows, cross, columns = sides.partition("x")
    if not (cross and all(re.fullmatch(r"[0-9]{1,18}", side) for side in (rows, columns))):
        raise InputError(f"torus:{sides[:60]} is not a torus: write rows x columns, as in torus:10x10")
    if min(int(rows), int(columns)) < 1:
        raise InputError(f"torus:{sides} is empty: both sides must be at least 1")
    return int(rows), int(columns)


def _parse_count(graph: str, meaning: str, given: str) -> int:
    try:
        return int(given)
    except ValueError:
        raise InputError(f"{graph}: {meaning} is {given!r}, but it must be a whole number") from None


def _parse_positive(graph: str, meaning: str, given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise InputError(f"{graph}: {meaning} is {given!r}, but it must be a number above 0")
    return number


def _parse_probability(graph: str, given: str) -> float:
    try:
        chance = float(given)
    except ValueError:
        chance = math.nan
    if not 0 <= chance <= 1:
        raise InputError(f"{graph}: the probability P is {given!r}, but it must be a number between 0 and 1")
    return chance
