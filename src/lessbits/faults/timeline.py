"""Events in time: who is there between two of them, which links exist, and which parts the network falls into."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
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


class Lookup:
    """The numbers of the nodes and links that faults name.

    Args:
        network: The network that has them.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.names = {name: number for number, name in enumerate(network.names or ())}
        pairs = zip(network.owner.tolist(), network.neighbor.tolist(), strict=True)
        self.link_of = {pair: link for link, pair in enumerate(pairs)}

    def node(self, node: Any) -> int:
        """Return the number of a node that is given by number or by name."""
        if isinstance(node, str) and node in self.names:
            return self.names[node]
        number = int(node) if isinstance(node, str) and node.isdecimal() else node
        if not is_whole(number, 0, self.network.nodes - 1):
            names = list(self.names)
            listed = f"nodes {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
            has = listed if names else f"0 to {self.network.nodes - 1}"
            raise InputError(f"the faults name node {shown(node)}, but the network has {has}")
        return int(number)

    def links(self, edges: Iterable[Sequence[Any]]) -> np.ndarray:
        """Return the numbers of the links of some edges, in both directions."""
        found = []
        for edge in edges:
            first, second = (self.node(end) for end in edge)
            if (first, second) not in self.link_of:
                raise InputError(f"the faults name the link {edge[0]}-{edge[1]}, but the network has no such link")
            found += [self.link_of[first, second], self.link_of[second, first]]
        return np.array(found, dtype=np.int64)


class Timeline:
    """The segments of a run. They are made when they are asked for: a run may have many, of a large network.

    Args:
        faults: What happens.
        network: The network in which it happens.
        iterations: How long the run is, at most.
    """

    def __init__(self, faults: Faults, network: Network, iterations: int) -> None:
        self.network, self.iterations, self.lookup = network, iterations, Lookup(network)
        self.events: dict[int, list[Event]] = {0: []}
        joins_first: dict[int, bool] = {}
        for event in faults.events:
            if event.node is not None:
                joins_first.setdefault(self.lookup.node(event.node), event.what == "join")
            else:
                self.lookup.links([event.link or ()])
            if event.at < iterations:
                self.events.setdefault(event.at, []).append(event)
        self.absent = np.array([node for node, joins in joins_first.items() if joins], dtype=np.int64)
        self.firsts = list(self.events)  # events are in order
        self.spoken = np.ones(network.links, bool)  # in one of the graphs that take turns
        if faults.graphs:
            self.spoken[:] = False
            self.spoken[self.lookup.links({edge for graph in faults.graphs for edge in graph})] = True
        self._rewind()
        for first in self.firsts:  # each event must be possible
            for event in self.events[first]:
                self._apply(event)
            if not self.count:
                raise InputError(f"all nodes are gone at iteration {first}: leave one in the network")
        self._rewind()

    def _rewind(self) -> None:
        """Go back to the time before the first iteration."""
        self.present = np.ones(self.network.nodes, bool)
        self.present[self.absent] = False  # one that joins first was not there before
        self.count = int(self.present.sum())
        self.paused = np.zeros(self.network.nodes, bool)
        self.failed, self.silent = np.zeros(self.network.links, bool), np.zeros(self.network.links, bool)
        self.place = -1
        self.segment: Segment | None = None

    def segments(self) -> Iterator[Segment]:
        """Return all segments, in order."""
        return map(self.at, self.firsts)

    def at(self, iteration: int) -> Segment:
        """Return the segment of an iteration; the last one after the end."""
        place = bisect_right(self.firsts, iteration) - 1
        if place < self.place:
            self._rewind()
        while self.place < place:
            self._advance(made=self.place + 1 == place)
        assert self.segment is not None
        return self.segment

    def is_last(self, segment: Segment) -> bool:
        """Return whether nothing happens after a segment."""
        return segment.first == self.firsts[-1]

    def _advance(self, made: bool) -> None:
        """Go to the next segment; without `made` it is passed over."""
        self.place += 1
        first = self.firsts[self.place]
        end = self.firsts[self.place + 1] if self.place + 1 < len(self.firsts) else self.iterations
        events = tuple(self.events[first])
        before_nodes, before_links = self.present.copy(), self._links() if made else None
        for event in events:
            self._apply(event)
        if before_links is None:
            return
        links, fresh_nodes = self._links(), self.present & ~before_nodes
        restarted = [self.lookup.node(event.node) for event in events if event.what == "join"]
        fresh_nodes[restarted] = True  # also one that left in this very iteration
        fresh_links = links != before_links
        fresh_links |= fresh_nodes[self.network.owner] | fresh_nodes[self.network.neighbor]
        failing = [event.link for event in events if event.what == "fail" and event.link is not None]
        fresh_links[self.lookup.links(failing)] = True  # also where one heals in this very iteration
        states = (self.present.copy(), links, self.paused.copy(), self.silent.copy())
        self.segment = Segment(first, end, *states, fresh_nodes, fresh_links, events)

    def _links(self) -> np.ndarray:
        return ~self.failed & self.present[self.network.owner] & self.present[self.network.neighbor]

    def _apply(self, event: Event) -> None:
        if event.node is not None:
            node = self.lookup.node(event.node)
            there, paused = bool(self.present[node]), bool(self.paused[node])
            possible = {"join": not there, "pause": there and not paused, "resume": paused}.get(event.what, there)
            state = "there" if there and not paused else "paused" if there else "gone"
            if not possible:
                raise InputError(f"{event} at iteration {event.at} cannot be: the node is {state} then")
            self.present[node] = event.what not in ("leave", "crash")
            self.count += int(self.present[node]) - there
            self.paused[node] = event.what == "pause"
            return
        links = self.lookup.links([event.link or ()])
        down = bool(self.failed[links[0]] or self.silent[links[0]])
        if down != (event.what == "heal"):
            raise InputError(f"{event} at iteration {event.at} cannot be: the link is {'down' if down else 'up'} then")
        self.failed[links] = event.what == "fail"
        self.silent[links] = event.what == "silence"

    def parts(self, segment: Segment) -> np.ndarray:
        """Return the number of the connected part of each node; -1 for those that are not there.

        A link that is in none of the graphs that take turns never speaks, and connects nothing.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        links = segment.links & self.spoken
        owner, neighbor = self.network.owner[links], self.network.neighbor[links]
        graph = coo_array((np.ones(len(owner)), (owner, neighbor)), shape=(self.network.nodes,) * 2)
        _, labels = connected_components(graph, directed=False)
        labels = np.where(segment.present, labels, -1)
        numbers = np.unique(labels[segment.present])
        return np.where(segment.present, np.searchsorted(numbers, labels), -1)
