"""A spanning tree of a network, for sums towards the root and answers from it."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lessbits.networks.network import Network

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class SpanningTree(NamedTuple):
    """Parents and depths of all nodes; the root has depth 0 and no parent, -1.

    If there are two roots they are each other's parent, and have depth 1: between them is the middle of the tree.
    """

    parent: np.ndarray
    depth: np.ndarray

    @property
    def height(self) -> int:
        """The largest depth."""
        return int(self.depth.max())

    @property
    def below(self) -> np.ndarray:
        """How many nodes are below each edge of the tree, in the order of its lower ends."""
        sizes = np.ones(len(self.parent), np.int64)
        *lower, root = np.argsort(-self.depth, kind="stable")
        for node in lower:
            sizes[self.parent[node]] += sizes[node]
        return np.delete(sizes, root)


def spanning_tree(network: Network) -> SpanningTree:
    """Return the tree of shortest paths to a central node, which has the smallest height or nearly.

    The centre is the middle of a longest path: one that ends farthest from where the farthest node from node 0 is.
    """
    links = network.laplacian()
    end = int(np.argmax(_search(links, 0).depth))
    across = _search(links, end)
    middle = int(np.argmax(across.depth))
    for _ in range(across.height // 2):
        middle = int(across.parent[middle])
    return _search(links, middle)


def twin_tree(network: Network) -> SpanningTree:
    """Return a tree with two roots, the ends of an edge, if a sum then reaches all one exchange earlier; else with one.

    With one root this takes twice the height. Two roots tell each other their sums, and then both know the total.
    """
    links, single = network.laplacian(), spanning_tree(network)
    if network.nodes == 2:
        return single  # two roots would have nobody to tell
    one = int(np.argmin(single.depth))
    near = _search(links, one)
    for other in network.neighbor[network.owner == one].tolist():
        far = _search(links, other)
        first = near.depth <= far.depth
        depth = 1 + np.where(first, near.depth, far.depth)
        if depth.max() <= single.height:  # 2·depth - 1 exchanges
            parent = np.where(first, near.parent, far.parent)
            parent[[one, other]] = other, one
            return SpanningTree(parent, depth)
    return single


def _search(links: "csr_array", root: int) -> SpanningTree:
    from scipy.sparse.csgraph import breadth_first_order

    order, parent = breadth_first_order(links, root, directed=False)
    depth = np.zeros(len(parent), np.int64)
    for node in order[1:]:
        depth[node] = depth[parent[node]] + 1
    return SpanningTree(np.maximum(parent, -1), depth)
