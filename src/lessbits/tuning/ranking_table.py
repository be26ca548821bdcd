"""The ranking of a search as a table, for the command line and for `print`."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table

from lessbits._internal.terminal import number_table
from lessbits._internal.wording import human

MAX_RANKED = 12  # rows of a ranking


def ranking_table(
    title: str, names: Sequence[str], headings: Sequence[str], rows: Sequence[Mapping[str, Any]], goal: str
) -> Table:
    """Return the best candidates as a table.

    Args:
        title: The title of the table.
        names: The step sizes that were searched.
        headings: What their columns are called.
        rows: All candidates, from best to worst.
        goal: What the target is about.
    """
    table = number_table(title, "", *headings, "ended", "iterations", goal, "nominal bits", "epochs")
    for number, row in enumerate(_ranked(rows), start=1):
        table.add_row(
            str(number),
            *(f"{row[name]:.4g}" for name in names),
            row["ended"],
            with_range(row, "iterations", "{:,.0f}".format),
            f"{row['value']:.3e}",
            human(row["bits_per_link"]),
            f"{row['epochs']:.4g}",
        )
    return table


def count_others(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how many candidates the table leaves out, and how each kind of them ended; nothing if it has all."""
    endings = {
        "reached": "reached the target later",
        "ended": "ended without reaching it",
        "beaten": "stopped because others had won",
        "diverged": "diverged",
    }
    counts = Counter(row["ended"] for row in rows) - Counter(row["ended"] for row in _ranked(rows))
    words = [f"{counts[ended]} {what}" for ended, what in endings.items() if counts[ended]]
    left_out = counts.total()
    return f"{left_out} more {'was' if left_out == 1 else 'were'} no better: {', '.join(words)}." if left_out else ""


def _ranked(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the rows to show: candidates that were stopped early or diverged have no result worth one."""
    return [row for row in rows if row["ended"] in ("reached", "ended")][:MAX_RANKED] or rows[:1]


def with_range(row: Mapping[str, Any], name: str, show: Callable[[float], str]) -> str:
    """Return a mean over seeds with the smallest and largest value, if there are several seeds.

    >>> with_range({"iterations": 20.0, "iterations_min": 18, "iterations_max": 23}, "iterations", "{:.0f}".format)
    '20 (18 to 23)'
    """
    if f"{name}_min" not in row:
        return show(row[name])
    return f"{show(row[name])} ({show(row[f'{name}_min'])} to {show(row[f'{name}_max'])})"
