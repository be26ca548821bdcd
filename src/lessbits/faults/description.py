"""The description of what goes wrong in a network: numbers for what happens at random, and events at given times."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

from lessbits._internal.wording import counted
from lessbits.errors import InputError, check_kind, check_name, check_number, check_seed, check_whole, shown

NODE_EVENTS = ("leave", "crash", "join", "pause", "resume")
LINK_EVENTS = ("fail", "silence", "heal")
LARGEST_DELAY = 10_000  # iterations
STARTS = ("start", "neighbour")


@dataclass(frozen=True)
class Event:
    """Something that happens to a node or a link just before an iteration.

    Attributes:
        at: The iteration.
        what: For a node "leave" or "crash" (it is gone, and its neighbours drop what they shared with it), "join" (it
            is there from now on, and starts with nothing), "pause" or "resume" (it keeps what it has). For a link
            "fail" (both ends drop what they share), "silence" (they keep it), or "heal".
        node: The number or the name of the node.
        link: The two nodes of the link.

    Example:
        >>> print(Event(100, "leave", node=2), "and", Event(200, "fail", link=(0, 1)), sep=", ")
        node 2: leave, and, link 0-1: fail
    """

    at: int
    what: str
    node: int | str | None = None
    link: tuple[int | str, int | str] | None = None

    def __post_init__(self) -> None:
        """Check the values that need no network."""
        object.__setattr__(self, "at", check_whole("the time of an event", self.at, 0))
        check_name("event", self.what, (*NODE_EVENTS, *LINK_EVENTS))
        of_node = self.what in NODE_EVENTS
        if (self.node is None) == of_node or (self.link is None) != of_node:
            takes = "a node" if of_node else "a link"
            raise InputError(f"the event {self.what!r} at iteration {self.at} is one of {takes}: give it {takes}")
        if self.link is not None and not _is_pair(self.link):
            raise InputError(f"the link of the event {self.what!r} is {shown(self.link)}, but a link has two nodes")
        if self.link is not None:
            object.__setattr__(self, "link", tuple(self.link))

    def __str__(self) -> str:
        """Say it in a few words."""
        if self.node is not None:
            return f"node {self.node}: {self.what}"
        assert self.link is not None
        return f"link {self.link[0]}-{self.link[1]}: {self.what}"


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong in a network. The same seed gives the same faults.

    A link is *silent* in an iteration if neither end sends, and both know it. A message that is *lost* goes one way
    only: it is sent again until it arrives, and every try is counted.

    Attributes:
        drop: The probability that a link is silent, in each iteration.
        fail: The probability that a burst of silence begins at a link, in each iteration (Gilbert and Elliott's model).
        heal: The probability that a burst ends.
        lose: The probability that a message is lost, and sent again an iteration later, or later as `delay` says.
            Methods that have no answer to late messages do not send it again: the receiver leaves the link out of
            that iteration, and the sender, which does not know, does not.
        delay: The fewest and the most iterations by which a message is late, drawn for each; None if none is late.
        link_delays: The delays of some links, by their two nodes, in place of `delay`.
        part: The probability that a node takes part in an iteration.
        slow: How many iterations an iteration of some nodes takes, by their number or name.
        graphs: The links that may speak in iteration k are those of graph k modulo their number: lists of edges.
        events: What happens at given times, in order.
        start: Where a node that joins begins: at the "start", or at the iterate of a "neighbour", which is sent to it.
        share: The share of iterations in which a link speaks, for step sizes; by default that of the entries above. A
            recording has it.
        seed: Seed of everything random here; by default that of the run.

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.LeastSquares.random(8, 5, condition=5.0), lessbits.make_network("ring", 8)
        >>> method = lessbits.make_method("edge-dual", problem, network, stepsizes="practical")
        >>> faults = Faults(drop=0.3, events=[Event(100, "leave", node=2), Event(300, "join", node=2)])
        >>> trace = lessbits.simulate(problem, network, method, iterations=3000, until=1e-12, faults=faults)
        >>> faults, trace.converged
        (Faults(drop=0.3, 2 events), True)
    """

    drop: float = 0.0
    fail: float = 0.0
    heal: float = 1.0
    lose: float = 0.0
    delay: tuple[int, int] | None = None
    link_delays: Mapping[tuple[int | str, int | str], tuple[int, int]] = field(default_factory=dict)
    part: float = 1.0
    slow: Mapping[int | str, int] = field(default_factory=dict)
    graphs: Sequence[Sequence[tuple[int | str, int | str]]] = ()
    events: Sequence[Event] = ()
    start: str = "start"
    share: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check the values that need no network."""
        # Numbers become Python's, and lists become tuples, so that equal faults compare equal.
        for name in ("drop", "fail", "lose"):
            if getattr(self, name) == 1:
                raise InputError(f"{name} is 1, but then no message ever arrives: give a probability from 0 to 0.999")
            self._set(name, float(check_number(name, getattr(self, name), 0, 0.999)))
        for name in ("heal", "part"):
            self._set(name, float(check_number(name, getattr(self, name), 0.001, 1)))
        self._set("share", None if self.share is None else float(check_number("share", self.share, 1e-9, 1)))
        check_name("start of nodes that join", self.start, STARTS)
        self._set("seed", None if self.seed is None else check_seed(self.seed))
        self._set("delay", None if self.delay is None else _delay(self.delay))
        check_kind("link_delays", self.link_delays, Mapping, "give links and delays, such as {(0, 1): (3, 5)}")
        for link in self.link_delays:
            if not _is_pair(link):
                raise InputError(f"link_delays has the link {shown(link)}, but a link has two nodes")
        self._set("link_delays", {link: _delay(given) for link, given in self.link_delays.items()})
        check_kind("slow", self.slow, Mapping, 'give nodes and whole numbers, such as {"3": 5}')
        slow = {node: check_whole(f"slow of node {node}", n, 1, LARGEST_DELAY) for node, n in self.slow.items()}
        self._set("slow", slow)
        if not _are_graphs(self.graphs):
            raise InputError(
                f"graphs is {shown(self.graphs)}, but it must be lists of edges, and an edge has two nodes: "
                "[[(0, 1)], [(1, 2)]]"
            )
        self._check_events()
        self._set("graphs", tuple(tuple(map(tuple, graph)) for graph in self.graphs))
        self._set("events", tuple(self.events))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_events(self) -> None:
        if isinstance(self.events, str) or not isinstance(self.events, Sequence):
            raise InputError(f"events is {shown(self.events)}, but it must be a list of lessbits.Event")
        for event in self.events:
            check_kind("an event", event, Event, "make one with lessbits.Event")
        for before, after in pairwise(self.events):
            if after.at < before.at:
                raise InputError(
                    f"an event at iteration {after.at} comes after one at iteration {before.at}: put them in order"
                )

    @property
    def late(self) -> bool:
        """Whether a message can arrive in a later iteration than that in which it is sent."""
        return self.delay is not None or self.lose > 0 or bool(self.link_delays)

    @property
    def speaking(self) -> float:
        """The share of iterations in which a link speaks, in the long run."""
        if self.share is not None:
            return self.share
        burst = self.fail / (self.fail + self.heal)
        shared = (
            sum(map(len, self.graphs))
            / len({frozenset(edge) for one in self.graphs for edge in one})
            / len(self.graphs)
            if self.graphs
            else 1.0
        )
        return (1 - self.drop) * (1 - burst) * self.part**2 * shared

    @property
    def longest_delay(self) -> int:
        """The most iterations by which a message is late, with a few tries if messages are lost.

        Slow nodes are left out: few of them make the step sizes of no other node smaller (docs/edges.md).
        """
        if not self.late:
            return 0
        most = max(last for _, last in [self.delay or (0, 0), *self.link_delays.values()])
        tries = 0
        while self.lose ** (tries + 1) > 0.011:  # all but one in a hundred
            tries += 1
        return max(1, most + tries * max(most, 1))

    @property
    def kinds(self) -> set[str]:
        """What a method must survive: "silence", "churn" (nodes or links that lose their state), "delay" and "loss"."""
        silent = self.drop or self.fail or self.part < 1 or self.graphs or self.slow
        silent = silent or any(event.what in ("pause", "silence") for event in self.events)
        churn = any(event.what in ("leave", "crash", "join", "fail") for event in self.events)
        delay = self.delay is not None or self.link_delays
        told = {"silence": silent, "churn": churn, "delay": delay, "loss": self.lose}
        return {name for name, there in told.items() if there}

    def __repr__(self) -> str:
        """Show what differs from a network without faults."""
        return f"Faults({self})"

    def __str__(self) -> str:
        """Say what differs from a network without faults, in a few words."""
        default = {entry.name: entry.default for entry in fields(self)}
        shown_values = [
            f"{name}={getattr(self, name)!r}"
            for name in default
            if name not in ("events", "graphs", "slow", "link_delays") and getattr(self, name) != default[name]
        ]
        shown_values += [
            f"{name}={dict(getattr(self, name))!r}" for name in ("link_delays", "slow") if getattr(self, name)
        ]
        shown_values += [counted(len(self.graphs), "graph")] if self.graphs else []
        shown_values += [counted(len(self.events), "event")] if self.events else []
        return ", ".join(shown_values)


def _is_pair(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2


def _are_graphs(given: Any) -> bool:
    """Return whether this is a list of graphs, each a list of pairs."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        return False
    edges = [edge for graph in given for edge in (graph if isinstance(graph, Sequence) else [None])]
    return all(map(_is_pair, edges)) and (bool(edges) or not given)


def _delay(given: Any) -> tuple[int, int]:
    """Return the bounds of a delay, given as two numbers or as text such as 1-5."""
    if isinstance(given, str):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", given)
        parts: list[Any] = [int(found[1]), int(found[2] or found[1])] if found else []
    elif isinstance(given, Sequence):
        parts = list(given)
    else:
        parts = [given, given]
    if len(parts) != 2:
        raise InputError(f"delay is {shown(given)}, but it must be a number of iterations or two, such as 3 or 1-5")
    low, high = (check_whole("delay", part, 0, LARGEST_DELAY) for part in parts)
    if low > high:
        raise InputError(f"delay is {low}-{high}, but the first number must not be above the second")
    return low, high
