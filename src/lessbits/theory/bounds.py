"""The fewest bits that any method can need for average consensus: a cut of the network, and rate-distortion theory.

Let n nodes hold vectors c_i of d independent standard normal numbers, and let the error be the mean of ‖x_i - c̄‖² over
the nodes, in expectation. A node in a set S knows c̄ but for the part that the m nodes outside S hold, (1/n)Σ c_j, whose
coordinates have the variance m/n². If it ends with an error e, the bits that entered S tell at least

    (d/2)·log2((m/n²)/(e/d))

bits about that part, which is the rate-distortion function of a Gaussian. This holds for any protocol, with any number
of rounds, and with shared random numbers, as these are independent of the c_i.

If only the edges of a spanning tree are used, each of them is a cut by itself, in both directions. And if the tree is
used for one round, a sum up and a result down, the errors add up. Let each message up have an error u per coordinate,
and the result, which is coded once and passed on, an error v. Each node ends with e/d = (n-1)u + v. The bits

    (d/2) Σ over edges of log2((m/n²)/u) + (n-1)(d/2)·log2((1/n)/v),

where m nodes are below an edge, are fewest for v = (n-1)u = e/(2d). A code that reaches the rate-distortion function
needs so many. Uniform quantizers with entropy codes need ½·log2(2πe/12) = 0.25 bits more per coordinate and message.
"""

import math
from collections.abc import Sequence

from lessbits.errors import InputError, check_positive, check_whole

SCALAR_LOSS = math.log2(2 * math.pi * math.e / 12) / 2  # bits per coordinate, of uniform quantizers with many levels


def cut_bits(nodes: int, outside: int, dim: int, error: float) -> float:
    """Return the fewest bits that must enter a set of nodes from the others.

    Args:
        nodes: The number n of nodes.
        outside: The number m of nodes outside the set.
        dim: The number d of coordinates.
        error: The squared distance from the average that the nodes of the set have in the end.

    >>> round(cut_bits(nodes=100, outside=50, dim=250, error=1e-3))
    1286
    """
    nodes, outside, dim = check_whole("nodes", nodes, 2), check_whole("outside", outside, 1), check_whole("dim", dim, 1)
    check_positive("error", error)
    if outside >= nodes:
        raise InputError(f"{outside} nodes are outside the set, but only {nodes - 1} can be: it has at least one node")
    return max(0.0, dim / 2 * math.log2(outside * dim / (nodes**2 * error)))


def consensus_bits_per_link(nodes: int, links: int, dim: int, error: float) -> float:
    """Return the fewest bits per directed link, as a mean over all links, by the cuts around single nodes.

    The bound of a cut is convex in the error, so nodes with different errors need no fewer bits than with their mean.

    Args:
        nodes: The number of nodes.
        links: The number of directed links: twice the number of edges.
        dim: The number of coordinates.
        error: The mean squared distance from the average in the end.

    >>> round(consensus_bits_per_link(nodes=100, links=200, dim=250, error=1e-3))
    705
    """
    links = check_whole("links", links, 1)
    return nodes * cut_bits(nodes, nodes - 1, dim, error) / links


def tree_bits_per_link(below: Sequence[int], links: int, dim: int, error: float) -> float:
    """Return the fewest bits per directed link, as a mean over all links, if only a spanning tree is used.

    Args:
        below: How many nodes are below each edge of the tree.
        links: The number of directed links of the network, including those that the tree does not use.
        dim: The number of coordinates.
        error: The squared distance from the average that all nodes have in the end.

    >>> round(tree_bits_per_link(range(1, 100), links=200, dim=250, error=1e-3))  # a path: the ring but for one edge
    1222
    """
    links, nodes = check_whole("links", links, 1), len(below) + 1
    return sum(cut_bits(nodes, m, dim, error) + cut_bits(nodes, nodes - m, dim, error) for m in below) / links


def tree_round_bits_per_link(
    below: Sequence[int], links: int, dim: int, error: float, *, scalar: bool = False
) -> float:
    """Return the bits per directed link of one round, a sum up a tree and a result down, with ideal codes.

    Args:
        below: How many nodes are below each edge of the tree.
        links: The number of directed links of the network.
        dim: The number of coordinates.
        error: The squared distance from the average that all nodes have in the end.
        scalar: Whether codes are uniform quantizers with an entropy code, rather than as good as theory allows.

    >>> path = [*range(1, 50), *range(1, 51)]  # from both ends to the middle
    >>> [round(tree_round_bits_per_link(path, 200, 250, 1e-3, scalar=scalar)) for scalar in (False, True)]
    [1784, 1847]
    """
    links, nodes = check_whole("links", links, 1), len(below) + 1
    # A message up may have an error of e/(2(n-1)), as the cut of m nodes would with an error of that size.
    up = sum(cut_bits(nodes, m, dim, error / (2 * (nodes - 1))) for m in below)
    down = (nodes - 1) * max(0.0, dim / 2 * math.log2(2 * dim / (nodes * error)))
    return (up + down + (2 * (nodes - 1) * dim * SCALAR_LOSS if scalar else 0)) / links
