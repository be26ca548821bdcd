"""What a trace keeps of a run's faults: what they were, what happened when, and who was away meanwhile."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lessbits._internal.wording import counted, shortened
from lessbits.errors import printable
from lessbits.faults.description import Event, Faults
from lessbits.faults.files import plain_faults
from lessbits.faults.timeline import Lookup, Timeline
from lessbits.networks.network import Network

MOST_EVENTS = 10_000  # longer lists are not stored
ONE_PART = "one part"  # of a network that had fallen apart
MOST_NAMED = 6  # parts, and nodes of a part, that are listed
LONGEST_NAME = 16  # characters of a node's name in such a list


def history(faults: Faults, network: Network, iterations: int) -> dict[str, Any]:
    """Return what is known of the faults of a run that took some iterations, as values for JSON.

    Returns:
        `faults`, which `faults_of` reads; `events`, a list of [iteration, text]; `parts`, such a list that says which
        connected parts there were, empty if there was one; `gone` and `paused`, lists of [node, first iteration,
        iteration after the last].

    Example:
        >>> import lessbits
        >>> faults = lessbits.Faults(events=[Event(40, "fail", link=(2, 3)), Event(60, "leave", node=0)])
        >>> found = history(faults, lessbits.make_network("path", 8), iterations=100)
        >>> found["events"], found["parts"], found["gone"]
        ([[40, 'link 2-3: fail'], [60, 'node 0: leave']], [[40, '2 parts: nodes 3-7 and nodes 0-2'], \
[60, '2 parts: nodes 3-7 and nodes 1-2']], [[0, 60, 100]])
    """
    kept = plain_faults(faults)
    if len(faults.events) > MOST_EVENTS:
        del kept["events"]
        return {"faults": kept, "events": [[0, f"{len(faults.events)} events, too many to list"]]}
    timeline = Timeline(faults, network, iterations)
    events = [(first, event) for first, found in timeline.events.items() for event in found]
    absent = np.flatnonzero(~timeline.at(0).present)
    return {
        "faults": kept,
        "events": [[at, printable(str(event))] for at, event in events],
        "parts": _parts(timeline),
        "gone": _spans(timeline.lookup, events, ("leave", "crash"), ("join",), iterations, absent),
        "paused": _spans(timeline.lookup, events, ("pause",), ("resume", "leave", "crash"), iterations),
    }


def _parts(timeline: Timeline) -> list[list[Any]]:
    """Return when the network fell into other parts than before."""
    names = timeline.network.names
    texts = ["", *(_in_words(members_of(timeline.parts(segment)), names) for segment in timeline.segments())]
    changes = zip(timeline.firsts, pairwise(texts), strict=True)
    return [[first, after or ONE_PART] for first, (before, after) in changes if after != before]


def members_of(parts: np.ndarray) -> list[np.ndarray]:
    """Return the nodes of each part, the largest part first, given the number of each node's part."""
    members = [np.flatnonzero(parts == part) for part in range(parts.max() + 1)]
    return sorted(members, key=len, reverse=True)


def _in_words(members: Sequence[np.ndarray], names: Sequence[str] | None) -> str:
    """Return the nodes of all parts; empty if there is one part.

    >>> _in_words([np.array([3, 4, 5, 7]), np.arange(3)], None), _in_words([np.arange(3)], None)
    ('2 parts: nodes 3-5, 7 and nodes 0-2', '')
    """
    if len(members) < 2:
        return ""
    if len(members) > MOST_NAMED:
        return f"{len(members)} parts of {len(members[-1])} to {counted(len(members[0]), 'node')}"
    *others, last = (nodes_in_words(nodes, names) for nodes in members)
    return f"{len(members)} parts: {', '.join(others)} and {last}"


def nodes_in_words(nodes: np.ndarray, names: Sequence[str] | None) -> str:
    """Return some nodes by name, or by number; long lists are cut.

    >>> nodes_in_words(np.array([0, 1, 2, 5]), None), nodes_in_words(np.array([1]), ["Oslo", "Bergen"])
    ('nodes 0-2, 5', 'node Bergen')
    >>> nodes_in_words(np.arange(0, 40, 2), None)
    'nodes 0, 2, 4, 6, 8, 10, … (20 in all)'
    """
    if names:
        pieces = [shortened(printable(names[node]), LONGEST_NAME) for node in nodes]
    else:
        runs = np.split(nodes, np.flatnonzero(np.diff(nodes) > 1) + 1)
        pieces = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    cut = f", … ({len(nodes)} in all)" if len(pieces) > MOST_NAMED else ""
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(pieces[:MOST_NAMED])}{cut}"


def _spans(
    lookup: Lookup,
    events: Sequence[tuple[int, Event]],
    begins: Sequence[str],
    ends: Sequence[str],
    iterations: int,
    open_at_start: Iterable[int] = (),
) -> list[list[int]]:
    """Return [node, first, end] for every stay in a state that some events begin and others end."""
    since: dict[int, int] = {int(node): 0 for node in open_at_start}
    spans = []
    for at, event in events:
        if event.node is None:
            continue
        node = lookup.node(event.node)
        if event.what in begins:
            since.setdefault(node, at)
        elif event.what in ends and node in since:
            spans.append([node, since.pop(node), at])
    spans += [[node, first, iterations] for node, first in since.items()]
    return sorted(span for span in spans if span[2] > span[1])
