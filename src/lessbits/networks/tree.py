"""A spanning tree of a network, for sums towards the root and answers from it."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lessbits.networks.network import Network

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class SpanningTree(NamedTuple):
    """Parents and depths of all nodes; the root has depth 0 and no parent, -1."""

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
        for node in np.argsort(-self.depth, kind="stable")[:-1]:
            sizes[self.parent[node]] += sizes[node]
        return np.delete(sizes, int(np.argmin(self.depth)))


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


def _search(links: "csr_array", root: int) -> SpanningTree:
    from scipy.sparse.csgraph import breadth_first_order

    order, parent = breadth_first_order(links, root, directed=False)
    depth = np.zeros(len(parent), np.int64)
    for node in order[1:]:
        depth[node] = depth[parent[node]] + 1
    return SpanningTree(np.maximum(parent, -1), depth)
