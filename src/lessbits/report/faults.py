"""What reports say of the faults of a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lessbits._internal.wording import counted
from lessbits.engines.recording.trace import Trace
from lessbits.errors import printable
from lessbits.faults.history import ONE_PART

MOST_LINES = 40  # events that a report lists
MOST_TOLD = 4  # slow nodes, and links with delays of their own, that are told one by one


def faults_in_words(trace: Trace) -> str:
    """Return what the faults of a run were, and what became of its links and messages; empty if it had none."""
    if "speaking" not in trace.columns:
        return ""
    told = {name: value for name, value in trace.provenance.get("faults", {}).items() if name != "events"}
    words = [_in_words(name, value) for name, value in told.items()]
    words += [counted(len(trace.events), "event")] if trace.events else []
    parts = trace.provenance.get("parts", [])
    words += [f"{printable(parts[-1][1])}, each with its own optimum"] if parts and parts[-1][1] != ONE_PART else []
    words += [printable(text) for _, text in trace.provenance.get("part_ends", [])]
    spoken = f"links spoke {100 * mean_of(trace, 'speaking', 'iteration'):.3g} % of the time"
    age = mean_of(trace, "staleness", "messages")
    return "; ".join([*words, spoken + (f", messages {age:.2g} iterations old on arrival" if age else "")])


def _in_words(name: str, value: Any) -> str:
    """Return one of the faults in a few words.

    >>> _in_words("drop", 0.3), _in_words("delay", [1, 5]), _in_words("slow", {"3": 5})
    ('drop 0.3', 'delay 1-5', 'node 3 5 × slower')
    >>> _in_words("link_delays", [{"link": [0, 1], "delay": [3, 5]}])
    'link 0-1 3-5 late'
    """
    if name == "graphs":
        return f"{counted(len(value), 'graph')} in turn"
    if name == "slow":
        told = [f"node {printable(str(node))} {times} × slower" for node, times in value.items()]
        return ", ".join(told) if len(told) <= MOST_TOLD else counted(len(told), "slow node")
    if name == "link_delays":
        told = [f"link {_range(one['link'])} {_range(one['delay'])} late" for one in value]
        return ", ".join(told) if len(told) <= MOST_TOLD else counted(len(told), "link delay")
    return f"{name} {_range(value) if isinstance(value, list) else printable(str(value))}"


def _range(ends: Sequence[Any]) -> str:
    return printable("-".join(map(str, dict.fromkeys(ends))))


def faults_in_lines(trace: Trace) -> list[str]:
    """Return the faults of a run, each event, and the parts into which its network fell; empty if it had no faults."""
    words = faults_in_words(trace)
    parts = [(at, f"now {text}") for at, text in trace.provenance.get("parts", [])]
    happened = sorted([*trace.events, *parts], key=lambda one: one[0])
    lines = [f"before iteration {at:,}: {printable(text)}" for at, text in happened[:MOST_LINES]]
    left = len(happened) - MOST_LINES
    return [words, *lines, *([f"and {left:,} more"] if left > 0 else [])] if words else []


def mean_of(trace: Trace, column: str, weight: str) -> float:
    """Return the mean of a column over the run; a record counts by how much the column `weight` grew since the last."""
    amounts = np.diff(trace[weight].astype(float))
    return float(np.sum(trace[column][1:] * amounts) / amounts.sum()) if amounts.sum() > 0 else 0.0
