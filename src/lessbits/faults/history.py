"""What a trace keeps of a run's faults: what they were, what happened when, and who was away meanwhile."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lessbits._internal.wording import counted
from lessbits.errors import printable
from lessbits.faults.description import Event, Faults
from lessbits.faults.files import plain_faults
from lessbits.faults.timeline import Lookup, Timeline
from lessbits.networks.network import Network

MOST_EVENTS = 10_000  # longer lists are not stored
ONE_PART = "one part"  # of a network that had fallen apart
MOST_NAMED = 6  # parts whose sizes are listed


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
        ([[40, 'link 2-3: fail'], [60, 'node 0: leave']], [[40, '2 parts: 5 and 3 nodes'], \
[60, '2 parts: 5 and 2 nodes']], [[0, 60, 100]])
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
    texts = ["", *(_in_words(_sizes(timeline.parts(segment))) for segment in timeline.segments())]
    changes = zip(timeline.firsts, pairwise(texts), strict=True)
    return [[first, after or ONE_PART] for first, (before, after) in changes if after != before]


def _sizes(parts: np.ndarray) -> list[int]:
    """Return the numbers of nodes of the parts, the largest first."""
    return sorted(np.bincount(parts[parts >= 0]).tolist(), reverse=True)


def _in_words(sizes: Sequence[int]) -> str:
    """Return the sizes of parts, the largest first; empty if there is one part.

    >>> _in_words([5, 3]), _in_words([7, 1]), _in_words([8])
    ('2 parts: 5 and 3 nodes', '2 parts: 7 nodes and 1 node', '')
    """
    if len(sizes) < 2:
        return ""
    if len(sizes) > MOST_NAMED:
        return f"{len(sizes)} parts of {sizes[-1]} to {counted(sizes[0], 'node')}"
    *others, last = sizes if sizes[-1] > 1 else [counted(size, "node") for size in sizes]
    listed = f"{', '.join(map(str, others))} and {last}"
    return f"{len(sizes)} parts: {listed}{' nodes' if sizes[-1] > 1 else ''}"


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
