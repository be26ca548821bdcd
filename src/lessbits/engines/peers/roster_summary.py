"""In what two rosters differ, in words for people."""

from typing import Any

from lessbits.engines.peers.protocol import words

MOST_ENTRIES = 100  # of a summary
MOST_SHOWN = 3  # differences that are named
LONGEST_VALUE = 60  # characters


def difference(mine: dict[str, str], theirs: Any, me: str, other: str) -> str:
    """Return what two summaries of rosters differ in.

    Args:
        mine: The summary of this site.
        theirs: What another site says that its summary is.
        me: The name of this site.
        other: The name of the other.

    >>> difference({"run": "ward-7", "until": "1e-08"}, {"run": "ward-7", "until": "1e-06"}, "berlin", "paris")
    'until is 1e-08 at berlin and 1e-06 at paris'
    """
    if not isinstance(theirs, dict) or len(theirs) > MOST_ENTRIES:
        return f"{other} does not say how"
    found = []
    for name in dict.fromkeys([*mine, *map(str, theirs)]):
        here, there = (words(str(one.get(name, "not set"))[:LONGEST_VALUE]) for one in (mine, theirs))
        if here != there:
            found.append(f"{words(name[:LONGEST_VALUE])} is {here} at {me} and {there} at {other}")
    more = [f"and {len(found) - MOST_SHOWN} more"] if len(found) > MOST_SHOWN else []
    return ", ".join([*found[:MOST_SHOWN], *more]) or "in links or weights"
