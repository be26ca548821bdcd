"""Who speaks with whom: the neighbours of a node, their weights, and the order of turns."""

from lessbits.errors import InputError, shown
from lessbits.networks import Network, make_network

PER_LINK, PER_NODE = 1, 2  # purposes of random numbers, as in lessbits._internal.randomness


def neighbours(network: Network, node: int) -> dict[int, float]:
    """Return the weight of each neighbour of a node."""
    mine = network.owner == node
    return dict(zip(network.neighbor[mine].tolist(), network.weight[mine].tolist(), strict=True))


def rounds(network: Network) -> list[dict[int, int]]:
    """Return the partners of all nodes in each of some rounds: every link has its round, and a node one link in each.

    >>> rounds(make_network("path", nodes=3))
    [{0: 1, 1: 0}, {1: 2, 2: 1}]
    """
    found: list[dict[int, int]] = []
    for first, second in zip(network.owner.tolist(), network.neighbor.tolist(), strict=True):
        if first > second:
            continue
        free = next((pairs for pairs in found if first not in pairs and second not in pairs), None)
        if free is None:
            free = {}
            found.append(free)
        free[first], free[second] = second, first
    return found


def turns(network: Network, node: int) -> list[int | None]:
    """Return the partner of a node in each round, None where it has none."""
    return [pairs.get(node) for pairs in rounds(network)]


def network_of(network: str | Network, nodes: int) -> Network:
    """Return a network that was given or named, and check that it has so many nodes."""
    made = make_network(network, nodes=nodes) if isinstance(network, str) else network
    if not isinstance(made, Network):
        raise InputError(f"the network is {shown(network)}, but it must be a name such as 'ring', or a Network")
    if made.nodes != nodes:
        raise InputError(f"the network has {made.nodes} nodes, but {nodes} processes were started")
    return made
