"""The fewest bits that any method can need for average consensus: a cut of the network, and rate-distortion theory.

Let n nodes hold vectors c_i of d independent standard normal numbers, and let the error be the mean of ‖x_i - c̄‖² over
the nodes, in expectation. A node in a set S knows c̄ but for the part that the m nodes outside S hold, (1/n)Σ c_j, whose
coordinates have the variance m/n². If it ends with an error e, the bits that entered S tell at least

    (d/2)·log2((m/n²)/(e/d))

bits about that part, which is the rate-distortion function of a Gaussian. This holds for any protocol, with any number
of rounds, and with shared random numbers, as these are independent of the c_i.
"""

import math

from lessbits.errors import InputError, check_positive, check_whole


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
