"""The text that `lessbits tune` prints."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lessbits._internal.wording import human
from lessbits.report.text import LETTERS, Terminal, method_in_words, number_table

MAX_RANKED = 12  # rows of a ranking


def tuning_report(found: dict[str, Any]) -> None:
    """Print the ranking of `lessbits tune`."""
    names, rows = found["searched"], found["candidates"]
    console = Terminal()
    settings = found["settings"]
    console.print(
        f"{method_in_words(settings)}, {settings['problem']}, {settings['network']} of {settings['nodes']} nodes"
    )
    letters = [LETTERS.get(name, name) for name in names]
    console.print(_fixed_in_words(found["fixed"]), soft_wrap=True)
    so_far = " so far" if found["interrupted"] else ""
    several = f", means of {found['seeds']} seeds" if found["seeds"] > 1 else ""
    table = number_table(
        f"Best of {len(rows)}{so_far}{several}",
        *("", *letters, "ended", "iterations", settings["goal"], "nominal bits", "epochs"),
    )
    # Candidates that were stopped early or diverged have no result worth a row: they are only counted.
    ranked = [row for row in rows if row["ended"] in ("reached", "ended")][:MAX_RANKED] or rows[:1]
    for number, row in enumerate(ranked, start=1):
        table.add_row(
            str(number),
            *(f"{row[name]:.4g}" for name in names),
            row["ended"],
            with_range(row, "iterations", "{:,.0f}".format),
            f"{row['value']:.3e}",
            human(row["bits_per_link"]),
            f"{row['epochs']:.4g}",
        )
    console.print(table)
    if len(rows) > len(ranked):
        console.print(_others_in_words(rows, ranked))
    for note in found["notes"]:
        console.print(f"Note: {note}.")
    if found["best"]["ended"] == "diverged":
        return
    # All step sizes, also those held fixed: left out, a run would choose others. In full, so that it is the same run.
    sizes = {name: entry["value"] for name, entry in found["fixed"].items()} | {n: found["best"][n] for n in names}
    flags = " ".join(f"--{name} {sizes[name]!r}" for name in LETTERS if name in sizes)
    saved = f", or run {found['saved']}/best.toml." if "saved" in found else "."
    console.print(f"Take {flags}{saved}", soft_wrap=True)


def _others_in_words(rows: Sequence[Mapping[str, Any]], ranked: Sequence[Mapping[str, Any]]) -> str:
    """Return how many candidates have no row in the table, and how each kind of them ended."""
    endings = {
        "reached": "reached the target later",
        "ended": "ended without reaching it",
        "beaten": "stopped because others had won",
        "diverged": "diverged",
    }
    counts = Counter(row["ended"] for row in rows) - Counter(row["ended"] for row in ranked)
    words = [f"{counts[ended]} {what}" for ended, what in endings.items() if counts[ended]]
    return f"{counts.total()} more were no better: {', '.join(words)}."


def with_range(row: Mapping[str, Any], name: str, show: Callable[[float], str]) -> str:
    """Return a mean over seeds with the smallest and largest value, if there are several seeds.

    >>> with_range({"iterations": 20.0, "iterations_min": 18, "iterations_max": 23}, "iterations", "{:.0f}".format)
    '20 (18 to 23)'
    """
    if f"{name}_min" not in row:
        return show(row[name])
    return f"{show(row[name])} ({show(row[f'{name}_min'])} to {show(row[f'{name}_max'])})"


def _fixed_in_words(fixed: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the step sizes that were held fixed, and where each came from."""
    if not fixed:
        return "No step size was held fixed."
    words = [f"{LETTERS[name]} = {entry['value']:.4g} ({entry['from']})" for name, entry in fixed.items()]
    return f"Held fixed: {', '.join(words)}."
