"""What reports say of the faults of a run."""

from typing import Any

import numpy as np

from lessbits._internal.wording import counted
from lessbits.engines.recording.trace import Trace
from lessbits.errors import printable
from lessbits.faults.history import ONE_PART

THINGS = {
    "graphs": "graph",
    "slow": "slow node",
    "link_delays": "link delay",
}  # of which only the number is said


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
    ('drop 0.3', 'delay 1-5', '1 slow node')
    >>> _in_words("link_delays", [{"link": [0, 1], "delay": [3, 5]}])
    '1 link delay'
    """
    if name in THINGS:
        return counted(len(value), THINGS[name])
    return f"{name} {'-'.join(map(str, dict.fromkeys(value))) if isinstance(value, list) else printable(str(value))}"


def mean_of(trace: Trace, column: str, weight: str) -> float:
    """Return the mean of a column over the run; a record counts by how much the column `weight` grew since the last."""
    amounts = np.diff(trace[weight].astype(float))
    return float(np.sum(trace[column][1:] * amounts) / amounts.sum()) if amounts.sum() > 0 else 0.0
