"""What both libraries say of a run, and how they check a state that was saved."""

import sys
from typing import Any

from lessbits._internal.wording import counted
from lessbits.errors import InputError, shown


def sent_line(steps: int, exchanges: int, bits: float, size: int) -> str:
    """Return one line about what a node with a model of so many numbers has sent.

    >>> sent_line(40, 2, 1_000_000, 100_000)
    '40 steps, 2 exchanges, 0.125 MB sent, 6 times less than as many float32 models'
    """
    sent, exact = bits / 8e6, exchanges * 4 * size / 1e6
    share = f", {exact / sent:.0f} times less than as many float32 models" if sent else ""
    return f"{counted(steps, 'step')}, {counted(exchanges, 'exchange')}, {sent:.3g} MB sent{share}"


def tell(report: str) -> None:
    """Print a line of progress on standard error."""
    print(f"lessbits: {report}", file=sys.stderr, flush=True)


def check_state(
    state: Any, version: int, layout: str, settings: str, names: set[str], late: bool = False
) -> dict[str, int]:
    """Check that a state is of the same node of the same run, and return its counts; `late` if neighbours were met."""
    if late:
        raise InputError("a state was loaded after the first step: load it before, as neighbours are met there")
    parts = {"layout": str, "settings": str, "counts": dict, "tensors": dict}
    known = isinstance(state, dict) and state.get("version") == version
    if not known or not all(isinstance(state.get(name), kind) for name, kind in parts.items()):
        raise InputError(f"the state is no state_dict of a Gossip of version {version}: save it again")
    for name, mine in (("layout", layout), ("settings", settings)):
        if state[name] != mine:
            raise InputError(f"the state has another {name} ({shown(state[name])}) than this Gossip ({shown(mine)})")
    if names != set(state["tensors"]):
        raise InputError("the state is of another node: each node loads its own")
    counts: dict[str, int] = state["counts"]
    return counts
