"""Networks as unions of perfect matchings: in each, a node has one partner."""

import numpy as np


def matchings(name, nodes, seed=0):
    """Return the partners in each matching, int [matchings, nodes]: `ring`, or `regular-K` at random."""
    if nodes % 2:
        raise SystemExit(f"{nodes} nodes were asked for, but matchings need an even number")
    if name == "ring":
        even = np.arange(nodes) ^ 1
        odd = np.where(np.arange(nodes) % 2, np.arange(nodes) + 1, np.arange(nodes) - 1) % nodes
        return np.stack([even, odd])
    random = np.random.default_rng(seed)
    found, used = [], set()
    while len(found) < int(name.removeprefix("regular-")):
        order = random.permutation(nodes).reshape(-1, 2)
        pairs = {frozenset(map(int, pair)) for pair in order}
        if pairs & used:
            continue
        used |= pairs
        partner = np.empty(nodes, int)
        partner[order[:, 0]], partner[order[:, 1]] = order[:, 1], order[:, 0]
        found.append(partner)
    return np.stack(found)


def tree(graph):
    """Return each node's parent in a spanning tree of least height (-1 for the root), and its depth."""
    nodes = graph.shape[1]

    def search(root):
        parents, depths, queue = [None] * nodes, [0] * nodes, [root]
        parents[root] = -1
        for node in queue:
            for other in sorted(int(partner[node]) for partner in graph):
                if parents[other] is None:
                    parents[other], depths[other] = node, depths[node] + 1
                    queue.append(other)
        return tuple(parents), tuple(depths)

    return min((search(root) for root in range(nodes)), key=lambda found: max(found[1]))
