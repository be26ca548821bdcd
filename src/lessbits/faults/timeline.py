"""Events in time: who is there between two of them, which links exist, and which parts the network falls into."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lessbits.errors import InputError, is_whole, shown
from lessbits.faults.description import Event, Faults
from lessbits.networks.network import Network


@dataclass(frozen=True)
class Segment:
    """The iterations between two events.

    Attributes:
        first: The first iteration.
        end: The iteration after the last one.
        present: Whether each node is there.
        links: Whether each link exists: it has not failed, and both its ends are there.
        resting: Whether each node is paused.
        quiet: Whether each link is silent until further notice.
        fresh_nodes: The nodes that join at the first iteration.
        fresh_links: The links whose ends forget what they shared.
        events: What happens at the first iteration.
    """

    first: int
    end: int
    present: np.ndarray
    links: np.ndarray
    resting: np.ndarray
    quiet: np.ndarray
    fresh_nodes: np.ndarray
    fresh_links: np.ndarray
    events: tuple[Event, ...] = ()


def node_number(network: Network, node: Any) -> int:
    """Return the number of a node that is given by number or by name."""
    names = network.names or ()
    if isinstance(node, str) and node in names:
        return names.index(node)
    number = int(node) if isinstance(node, str) and node.isdecimal() else node
    if not is_whole(number, 0, network.nodes - 1):
        has = f"nodes {', '.join(names[:8])}{', …' if len(names) > 8 else ''}" if names else f"0 to {network.nodes - 1}"
        raise InputError(f"the faults name node {shown(node)}, but the network has {has}")
    return int(number)


def link_numbers(network: Network, edges: Sequence[Sequence[Any]]) -> np.ndarray:
    """Return the numbers of the links of some edges, in both directions."""
    ends = [[node_number(network, end) for end in edge] for edge in edges]
    where = {
        pair: link for link, pair in enumerate(zip(network.owner.tolist(), network.neighbor.tolist(), strict=True))
    }
    for edge, (first, second) in zip(edges, ends, strict=True):
        if (first, second) not in where:
            raise InputError(f"the faults name the link {edge[0]}-{edge[1]}, but the network has no such link")
    found = [where[pair] for first, second in ends for pair in ((first, second), (second, first))]
    return np.array(found, dtype=np.int64)


class Timeline:
    """The segments of a run.

    Args:
        faults: What happens.
        network: The network in which it happens.
        iterations: How long the run is, at most.
    """

    def __init__(self, faults: Faults, network: Network, iterations: int) -> None:
        self.network, self.iterations = network, iterations
        first_of: dict[int, Event] = {}
        for event in faults.events:
            if event.node is not None:
                first_of.setdefault(node_number(network, event.node), event)
        self.present = np.ones(network.nodes, bool)
        for node, event in first_of.items():
            self.present[node] = event.what != "join"  # one that joins first was not there before
        self.paused = np.zeros(network.nodes, bool)
        self.failed, self.silent = np.zeros(network.links, bool), np.zeros(network.links, bool)
        times = sorted({0, *(event.at for event in faults.events if event.at < iterations)})
        self.segments: list[Segment] = []
        for first, end in zip(times, [*times[1:], iterations], strict=True):
            self._add(first, end, tuple(event for event in faults.events if event.at == first))

    def _add(self, first: int, end: int, events: tuple[Event, ...]) -> None:
        before_nodes, before_links = self.present.copy(), self._links()
        for event in events:
            self._apply(event)
        links = self._links()
        fresh_nodes = self.present & ~before_nodes
        restarted = [node_number(self.network, event.node) for event in events if event.what == "join"]
        fresh_nodes[restarted] = True  # also one that left in this very iteration
        owner, neighbor = self.network.owner, self.network.neighbor
        failing = [event.link for event in events if event.what == "fail" and event.link is not None]
        fresh_links = (links != before_links) | fresh_nodes[owner] | fresh_nodes[neighbor]
        fresh_links[link_numbers(self.network, failing)] = True  # also where one heals in this very iteration
        if not self.present.any():
            raise InputError(f"all nodes are gone at iteration {first}: leave one in the network")
        self.segments.append(
            Segment(
                first,
                end,
                self.present.copy(),
                links,
                self.paused.copy(),
                self.silent.copy(),
                fresh_nodes,
                fresh_links,
                events,
            )
        )

    def _links(self) -> np.ndarray:
        return ~self.failed & self.present[self.network.owner] & self.present[self.network.neighbor]

    def _apply(self, event: Event) -> None:
        if event.node is not None:
            node = node_number(self.network, event.node)
            there, paused = bool(self.present[node]), bool(self.paused[node])
            possible = {"join": not there, "pause": there and not paused, "resume": paused}.get(event.what, there)
            state = "there" if there and not paused else "paused" if there else "gone"
            if not possible:
                raise InputError(f"{event} at iteration {event.at} cannot be: the node is {state} then")
            self.present[node] = event.what not in ("leave", "crash")
            self.paused[node] = event.what == "pause"
            return
        links = link_numbers(self.network, [event.link or ()])
        down = bool(self.failed[links[0]] or self.silent[links[0]])
        if down != (event.what == "heal"):
            raise InputError(f"{event} at iteration {event.at} cannot be: the link is {'down' if down else 'up'} then")
        self.failed[links] = event.what == "fail"
        self.silent[links] = event.what == "silence"

    def at(self, iteration: int) -> Segment:
        """Return the segment of an iteration; the last one after the end."""
        return next((each for each in self.segments if each.first <= iteration < each.end), self.segments[-1])

    def parts(self, segment: Segment) -> np.ndarray:
        """Return the number of the connected part of each node; -1 for those that are not there."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        owner, neighbor = self.network.owner[segment.links], self.network.neighbor[segment.links]
        graph = coo_array((np.ones(len(owner)), (owner, neighbor)), shape=(self.network.nodes,) * 2)
        _, labels = connected_components(graph, directed=False)
        labels = np.where(segment.present, labels, -1)
        numbers = np.unique(labels[segment.present])
        return np.where(segment.present, np.searchsorted(numbers, labels), -1)
