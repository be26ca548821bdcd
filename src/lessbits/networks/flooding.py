"""Shortest ways from every node to every other, for messages that nodes pass on."""

from typing import NamedTuple

import numpy as np

from lessbits.errors import InputError
from lessbits.networks.network import Network

OWN, NOTHING = -1, -2
MOST_NODES = 1000  # all pairs of nodes are looked at
MOST_SLOTS = 32  # vectors that a link carries in one exchange: each of them is part of the compiled program


class Routes(NamedTuple):
    """What each link carries in each exchange. After the last one every node has had a vector of every other.

    Attributes:
        place: Where the sender has a vector from, [exchanges, links, slots]: OWN, NOTHING if the slot is empty, or the
            slot in which it came in the exchange before, counted over all slots of the sender's links.
        comes: Whether a vector comes back in the slot, on the reverse link, [exchanges, links, slots].
    """

    place: np.ndarray
    comes: np.ndarray


def shortest_routes(network: Network) -> Routes:
    """Return routes on which every vector takes a shortest way, and ways are spread over links.

    In exchange t a node hears of all nodes at distance t. Of neighbours that could tell it, one whose link carries few
    vectors in this exchange is chosen.
    """
    check_size(network)
    distance = _distances(network)
    link = np.array([_told_on(network, distance, node) for node in range(network.nodes)])  # [receiver, source]
    receiver, source = np.nonzero(distance)
    exchange, back = distance[receiver, source] - 1, link[receiver, source]
    slot = np.zeros(distance.shape, np.int64)
    slot[receiver, source] = _numbered(back * int(distance.max()) + exchange)
    slots = int(slot.max()) + 1
    if slots > MOST_SLOTS:
        raise InputError(
            f"a link of the network {network.name} with {network.nodes} nodes would carry {slots} vectors at once, "
            f"but at most {MOST_SLOTS} are possible: take tree"
        )
    sender, first = network.neighbor[back], np.searchsorted(network.owner, np.arange(network.nodes))
    came = (link[sender, source] - first[sender]) * slots + slot[sender, source]
    place = np.full((int(distance.max()), network.links, slots), NOTHING)
    place[exchange, network.reverse[back], slot[receiver, source]] = np.where(sender == source, OWN, came)
    return Routes(place, place[:, network.reverse] != NOTHING)


def _told_on(network: Network, distance: np.ndarray, node: int) -> np.ndarray:
    """Return on which of its links a node is told of each other one: by a neighbour that is nearer."""
    links = np.flatnonzero(network.owner == node)
    nearer = distance[network.neighbor[links]] == distance[node] - 1  # [links, source]
    chosen, choices = nearer.argmax(axis=0), nearer.sum(axis=0)
    load = np.zeros((int(distance.max()) + 1, len(links)), np.int64)
    np.add.at(load, (distance[node], chosen), choices == 1)
    for source in np.flatnonzero(choices > 1).tolist():
        carried = load[distance[node, source]]
        chosen[source] = np.argmin(np.where(nearer[:, source], carried, network.nodes))
        carried[chosen[source]] += 1
    return links[chosen]


def _numbered(groups: np.ndarray) -> np.ndarray:
    """Return the number of each entry among those of the same group.

    >>> _numbered(np.array([7, 3, 7, 7, 3]))
    array([0, 0, 1, 2, 1])
    """
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    numbers = np.empty(len(groups), np.int64)
    numbers[order] = np.arange(len(groups)) - np.repeat(starts, sizes)
    return numbers


def check_size(network: Network) -> None:
    """Raise InputError for a network whose pairs of nodes are too many."""
    if network.nodes > MOST_NODES:
        raise InputError(
            f"the network has {network.nodes} nodes, but vectors of all can be gathered from {MOST_NODES} nodes at "
            "most: take tree"
        )


def _distances(network: Network) -> np.ndarray:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    ones = np.ones(network.links)
    links = csr_array((ones, (network.owner, network.neighbor)), shape=(network.nodes, network.nodes))
    return np.asarray(shortest_path(links, method="D", unweighted=True)).astype(int)
