"""Schedules of graphs: which links of a network speak in which iteration, by a name, or as a recording."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.errors import InputError, check_kind, check_name, check_whole
from lessbits.faults.conditions import Conditions
from lessbits.faults.description import Faults
from lessbits.networks.network import Network

Edges = list[tuple[int, int]]
SCHEDULES = ("matchings", "one-peer-exponential", "base:2")  # any base, not only 2
MOST_RECORDED = 10**8  # links times iterations of a recording: each takes some bytes


def matchings(network: Network) -> list[Edges]:
    """Return groups of links of which no two share a node, so that a node speaks with one neighbour at a time.

    Args:
        network: The network whose links are divided.

    Example:
        >>> import lessbits
        >>> [len(edges) for edges in matchings(lessbits.make_network("ring", 8))]
        [4, 4]
    """
    import networkx

    check_kind("network", network, Network, "make one with lessbits.make_network")
    once = network.owner < network.neighbor
    graph = networkx.Graph(list(zip(network.owner[once].tolist(), network.neighbor[once].tolist(), strict=True)))
    colours = networkx.greedy_color(networkx.line_graph(graph), "largest_first")
    groups: list[Edges] = [[] for _ in range(max(colours.values()) + 1)]
    for (first, second), colour in colours.items():
        groups[colour].append((min(first, second), max(first, second)))
    return [sorted(edges) for edges in groups]


def one_peer_exponential(nodes: int) -> list[Edges]:
    """Return graphs in which node i speaks with nodes i ± 2^k, for k = 0, 1, … in turn.

    Args:
        nodes: The number of nodes.

    Example:
        >>> len(one_peer_exponential(8)), one_peer_exponential(8)[2]
        (3, [(0, 4), (1, 5), (2, 6), (3, 7)])
    """
    nodes = check_whole("nodes", nodes, 2)
    graphs, distance = [], 1
    while distance < nodes:
        pairs = {tuple(sorted((node, (node + distance) % nodes))) for node in range(nodes)}
        graphs.append(sorted((first, second) for first, second in pairs))
        distance *= 2
    return graphs


def base_graphs(nodes: int, neighbors: int = 1) -> list[Edges]:
    """Return graphs in which each node has at most k neighbours, and which together mix all nodes exactly.

    These are the simple Base-(k+1) graphs of Takezawa et al. (2023), for numbers of nodes without prime factors above
    k + 1. Nodes are numbered in a mixed base whose digits are below k + 1. In the graph of a digit, nodes that differ
    in this digit alone are connected.

    Args:
        nodes: The number of nodes.
        neighbors: The most neighbours of a node in one graph, k.

    Example:
        >>> base_graphs(4), len(base_graphs(12, neighbors=2))
        ([[(0, 1), (2, 3)], [(0, 2), (1, 3)]], 3)
    """
    left, factors = check_whole("nodes", nodes, 2), []
    for factor in range(check_whole("neighbors", neighbors, 1) + 1, 1, -1):
        while left % factor == 0:
            left //= factor
            factors.append(factor)
    if left > 1:
        raise InputError(
            f"{nodes} nodes have the factor {left}, but with {neighbors} neighbours factors are at most "
            f"{neighbors + 1}: take more neighbours, or another number of nodes"
        )
    graphs, stride = [], 1
    for factor in reversed(factors):
        digit = np.arange(nodes) // stride % factor
        apart = [(node, node + step * stride) for node in range(nodes) for step in range(1, factor - digit[node])]
        graphs.append([(int(first), int(second)) for first, second in apart])
        stride *= factor
    return graphs


def named_graphs(name: str, network: Network) -> list[Edges]:
    """Return the schedule of this name: "matchings", "one-peer-exponential", or "base:B" with at most B - 1 neighbours.

    >>> import lessbits
    >>> len(named_graphs("base:2", lessbits.make_network("complete", 8)))
    3
    """
    if base := re.fullmatch(r"base:([0-9]{1,4})", name):
        return base_graphs(network.nodes, check_whole("the base of graphs", int(base[1]), 2) - 1)
    check_name("schedule of graphs", name, SCHEDULES)
    return matchings(network) if name == "matchings" else one_peer_exponential(network.nodes)


def union_of(graphs: Sequence[Sequence[Sequence[Any]]], nodes: int, weights: str = "metropolis") -> Network:
    """Return the network of all links of a schedule.

    Args:
        graphs: The links of each iteration.
        nodes: The number of nodes.
        weights: The rule of the weights, as in `make_network`.

    Example:
        >>> union_of(one_peer_exponential(8), 8).edges
        20
    """
    edges = sorted({tuple(sorted(edge)) for one in graphs for edge in one})
    return Network.from_edges(nodes, edges, weights, name="schedule")


def record_faults(faults: Faults, network: Network, iterations: int, seed: int = 0) -> Faults:
    """Return faults in which the links that speak by chance are written down, to replay them.

    The share of iterations in which links speak is kept, so that practical step sizes are those of the faults. To
    replay a run to the bit, give it the seed that it had, which is also that of its quantizer.

    Args:
        faults: The faults to record.
        network: The network in which they happen.
        iterations: How many iterations to record. A longer run repeats them.
        seed: The seed of the run, for faults that have none.

    Example:
        >>> import lessbits
        >>> ring = lessbits.make_network("ring", 4)
        >>> recorded = record_faults(lessbits.Faults(drop=0.5), ring, 3)
        >>> recorded
        Faults(share=0.5, seed=0, 3 graphs)
    """
    check_kind("faults", faults, Faults, "make them with lessbits.Faults")
    check_kind("network", network, Network, "make one with lessbits.make_network")
    numbers = jnp.arange(check_whole("iterations", iterations, 1, MOST_RECORDED // network.links), dtype=jnp.int32)
    conditions = Conditions.of(faults, network, seed)

    def at(burst: jax.Array, iteration: jax.Array) -> tuple[jax.Array, jax.Array]:
        now, burst = conditions.at(iteration, burst)
        return burst, now.up

    _, spoken = jax.lax.scan(at, conditions.start(), numbers)
    once = network.owner < network.neighbor
    pairs = np.stack([network.owner, network.neighbor], axis=1)
    graphs = tuple(tuple(map(tuple, pairs[row & once].tolist())) for row in np.asarray(spoken))
    known = seed if faults.seed is None else faults.seed
    return replace(faults, drop=0.0, fail=0.0, heal=1.0, graphs=graphs, share=faults.speaking, seed=known)
