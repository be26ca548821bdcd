"""The text that `lessbits tune` prints."""

from collections.abc import Mapping
from typing import Any

from lessbits._internal.terminal import Terminal
from lessbits.report.text import LETTERS, method_in_words
from lessbits.tuning.ranking_table import count_others, ranking_table


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
    console.print(ranking_table(f"Best of {len(rows)}{so_far}{several}", names, letters, rows, settings["goal"]))
    if others := count_others(rows):
        console.print(others)
    for note in found["notes"]:
        console.print(f"Note: {note}.")
    if found["best"]["ended"] == "diverged":
        return
    # All step sizes, also those held fixed: left out, a run would choose others. In full, so that it is the same run.
    sizes = {name: entry["value"] for name, entry in found["fixed"].items()} | {n: found["best"][n] for n in names}
    flags = " ".join(f"--{name} {sizes[name]!r}" for name in LETTERS if name in sizes)
    saved = f", or lessbits run {found['saved']}/best.toml." if "saved" in found else "."
    console.print(f"Take {flags}{saved}", soft_wrap=True)


def _fixed_in_words(fixed: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the step sizes that were held fixed, and where each came from."""
    if not fixed:
        return "No step size was held fixed."
    words = [f"{LETTERS[name]} = {entry['value']:.4g} ({entry['from']})" for name, entry in fixed.items()]
    return f"Held fixed: {', '.join(words)}."
