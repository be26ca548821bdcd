"""Who speaks with whom: the neighbours of a node, their weights, and the order of turns."""

import os
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lessbits.errors import InputError, check_name, shown
from lessbits.networks import NETWORK_NAMES, Network, make_network
from lessbits.networks.tree import spanning_tree
from lessbits.training.links import Links

PER_LINK, PER_NODE = 1, 2  # purposes of random numbers, as in lessbits._internal.randomness


def neighbours(network: Network, node: int) -> dict[int, float]:
    """Return the weight of each neighbour of a node."""
    mine = network.owner == node
    return dict(zip(network.neighbor[mine].tolist(), network.weight[mine].tolist(), strict=True))


def rounds(network: Network) -> list[dict[int, int]]:
    """Return the partners of all nodes in each of some rounds: every link has its round, and a node one link in each.

    There are as few rounds as we find, mostly the largest degree or one more: a link that waits long for its turn has
    old news. Links take the first round that both ends have free. Where there is none, two rounds change places along
    the path of links that alternates between them, from one end on (Kempe), so that a round becomes free.

    >>> rounds(make_network("path", nodes=3))
    [{0: 1, 1: 0}, {1: 2, 2: 1}]
    """
    found: list[dict[int, int]] = []
    for first, second in zip(network.owner.tolist(), network.neighbor.tolist(), strict=True):
        if first < second:
            free = _free_round(found, first, second)
            free[first], free[second] = second, first
    return found


def _free_round(found: list[dict[int, int]], first: int, second: int) -> dict[int, int]:
    """Return a round in which neither end has a partner; a new one if there is no other way."""
    ours = [pairs for pairs in found if first not in pairs]
    theirs = [pairs for pairs in found if second not in pairs]
    if common := next((pairs for pairs in ours if second not in pairs), None):
        return common
    for one, other in product(ours, theirs):
        path = _alternating(one, other, second)
        if first not in path:  # else the first node would lose the round that it has free
            kept = [{node: pairs.pop(node) for node in path if node in pairs} for pairs in (other, one)]
            for pairs, links in zip((one, other), kept, strict=True):
                pairs.update(links)
            return one
    found.append({})
    return found[-1]


def _alternating(one: dict[int, int], other: dict[int, int], node: int) -> list[int]:
    """Return the nodes of the path of links that starts at a node with a link of `one`, and alternates."""
    path = [node]
    while (following := one.get(path[-1])) is not None:
        path.append(following)
        one, other = other, one
    return path


def turns(network: Network, node: int) -> list[int | None]:
    """Return the partner of a node in each round, None where it has none."""
    return [pairs.get(node) for pairs in rounds(network)]


class Family(NamedTuple):
    """The place of a node in a spanning tree: its parent, None for the root, and its children."""

    parent: int | None
    children: list[int]

    @classmethod
    def of(cls, network: Network, node: int) -> "Family":
        """Find it in the tree of shortest paths to a central node."""
        parents = spanning_tree(network).parent
        children = np.flatnonzero(parents == node).tolist()
        return cls(None if parents[node] < 0 else int(parents[node]), children)


def network_between(links: Links, network: str | Network) -> Network | None:
    """Return the network of links that bring their own, or one that was given or named; None for a single node."""
    if (own := links.network()) is not None:
        return own
    if links.nodes > 1:
        return network_of(network, links.nodes)
    _check_spelling(network)  # so that a script that works in one process works in several
    return None


def _check_spelling(network: str | Network) -> None:
    """Raise for what is no network of any number of nodes."""
    if isinstance(network, str) and not os.path.isfile(network):
        check_name("network", network.partition(":")[0], NETWORK_NAMES)
    elif not isinstance(network, str | Network):
        raise _no_network(network)


def _no_network(given: Any) -> InputError:
    return InputError(f"the network is {shown(given)}, but it must be a name such as 'ring', or a Network")


def network_of(network: str | Network, nodes: int, why: str = "the processes that were started are") -> Network:
    """Return a network that was given or named, and check that it has so many nodes; `why` says where they are from."""
    made = make_network(network, nodes=nodes) if isinstance(network, str) else network
    if not isinstance(made, Network):
        raise _no_network(network)
    if made.nodes != nodes:
        raise InputError(f"the network has {made.nodes} nodes, but {why} {nodes}")
    return made
