"""What `lessbits peer status` prints: the site, its neighbours, and what happened last."""

from collections.abc import Mapping
from typing import Any, TypeGuard

from rich.table import Table

from lessbits._internal.terminal import Terminal, as_text, fact_table, number_table
from lessbits._internal.wording import human, shortened, significant

LAST_EVENTS = 5
LONGEST_NAME = 16  # characters of a neighbour's name in the table


def status_text(snapshot: Mapping[str, Any]) -> list[str]:
    """Return the lines about a site, at most 80 columns wide.

    Args:
        snapshot: How the site stands, as `ask_status` returns it. What is missing is shown as "-".
    """
    neighbours = [one for one in snapshot.get("neighbours") or [] if isinstance(one, Mapping)]
    events = [one for one in snapshot.get("events") or [] if isinstance(one, Mapping)][-LAST_EVENTS:]

    def show(console: Terminal) -> None:
        state, mode = _flat(snapshot.get("state")), _flat(snapshot.get("mode"))
        console.print(f"{_flat(snapshot.get('site'))}, run {_flat(snapshot.get('run'))}: {state}, {mode}")
        if snapshot.get("message"):
            console.print(_flat(snapshot["message"]))
        console.print(fact_table(_facts(snapshot)))
        console.print()
        _show_neighbours(console, neighbours)
        if events:
            console.print("\nLast events")
            console.print(_event_table(events))

    return as_text(show).splitlines()


def duration(seconds: Any) -> str:
    """Return seconds in words.

    >>> duration(0.1234), duration(12.34), duration(125), duration(7300), duration(200_000), duration(None)
    ('0.12 s', '12.3 s', '2 min 5 s', '2 h 1 min', '2 d 7 h', '-')
    """
    if not _is_number(seconds):
        return "-"
    if seconds < 99.95:
        return f"{significant(seconds, 3 if seconds >= 10 else 2)} s"
    whole = round(seconds)
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{whole} s"


def _facts(snapshot: Mapping[str, Any]) -> dict[str, str]:
    done, planned = snapshot.get("iteration"), snapshot.get("iterations")
    share = f" ({done / planned:.0%})" if _is_number(done) and _is_number(planned) and planned > 0 else ""
    facts = {"iteration": f"{_count(done)} of {_count(planned)}{share}, {duration(snapshot.get('seconds'))}"}
    target = f"; the target is {_number(snapshot['until'])}" if _is_number(snapshot.get("until")) else ""
    facts["error estimate"] = f"{_number(snapshot.get('estimate'))}{target}"
    if _is_number(snapshot.get("loss")):
        facts["loss"] = _number(snapshot["loss"])
    facts["sent"] = _bits(snapshot.get("sent_bytes"))
    facts["received"] = _bits(snapshot.get("received_bytes"))
    return facts


def _show_neighbours(console: Terminal, neighbours: list[Mapping[str, Any]]) -> None:
    """Print the table, and below it why a neighbour is not connected, which would not fit in it.

    "starts" is how often the link has begun from zero: its epoch. "error" is the neighbour's own estimate.
    """
    if not neighbours:
        console.print("It has no neighbours.")
        return
    headings = ("neighbour", "state", "round", "starts", "error", "heard", "patience", "sent")
    table = number_table("", *headings)
    table.title = None
    for column in table.columns[:2]:
        column.justify = "left"
    for one in neighbours:
        table.add_row(
            shortened(_flat(one.get("site")), LONGEST_NAME),
            _flat(one.get("state")),
            _count(one.get("round")),
            _count(one.get("epoch")),
            _number(one.get("estimate")),
            duration(one.get("heard_seconds")),
            duration(one.get("patience_seconds")),
            _bits(one.get("sent_bytes")),
        )
    console.print(table)
    for one in neighbours:
        if one.get("why"):
            console.print(f"{_flat(one.get('site'))}, {_flat(one.get('state'))}: {_flat(one['why'])}")


def _event_table(events: list[Mapping[str, Any]]) -> Table:
    table = fact_table({})
    for one in events:
        table.add_row(duration(one.get("seconds")), _flat(one.get("text")))
    table.columns[0].justify = "right"
    table.columns[0].no_wrap = True
    return table


def _flat(text: Any) -> str:
    """Return a text in one line; the terminal escapes other control characters."""
    return "-" if text is None else " ".join(str(text).split()) or "-"


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> str:
    return f"{value:.3g}" if _is_number(value) else "-"


def _count(value: Any) -> str:
    return f"{value:,}" if _is_number(value) else "-"


def _bits(size: Any) -> str:
    return human(8 * size) if _is_number(size) else "-"
