"""The text that `lessbits compare` prints."""

from collections.abc import Mapping
from typing import Any

from lessbits._internal.terminal import Terminal, number_table
from lessbits._internal.wording import counted, human, mean_and_spread

SHORT = {
    "iterations": "iter.",
    "suboptimality": "subopt.",
    "bits per link": "bits\nper link",
    "test_loss": "test\nloss",
    "test_accuracy": "test\nacc.",
}  # headings


def comparison_report(
    found: dict[str, Any], precision: int, report: str | None = None, console: Terminal | None = None
) -> None:
    """Print the runs as they are ranked, the verdict, and the path of the HTML report of the command line."""
    console = console or Terminal()
    settings, rows, goal = found["settings"], found["runs"], found["goal"]
    console.print(f"{settings['problem']}, {settings['network']}, to {goal} {found['until']:g}")
    seeds = rows[0].get("seeds", 1)
    by_time, timed = found.get("rank") == "seconds", "simulated_seconds" in rows[0]
    title = f"{counted(seeds * len(rows), 'run')}, the {'fastest' if by_time else 'fewest bits'} first"
    title += f"; mean ± standard deviation of {seeds} seeds" if seeds > 1 else ""
    held_out = [name for name in ("test_loss", "test_accuracy") if name in rows[0]]
    headings = ["iterations", goal, "bits per link", *(["seconds"] if timed else []), "times", *held_out]
    if held_out or timed:  # short ones: the table must fit a terminal of 80 columns
        headings = [SHORT.get(heading, heading) for heading in headings]
    table = number_table(title, "", "method", "quantizer", *headings)
    for column in (1, 2):
        table.columns[column].justify = "left"
        table.columns[column].no_wrap = True  # names stay whole; if something must wrap, it is a heading
    ranking = "simulated_seconds" if by_time else "wire_bits_per_link"
    least = rows[0][ranking]
    for number, (row, name) in enumerate(zip(rows, method_names(rows), strict=True), start=1):
        ratio, spread = row[ranking] / least if least else 1.0, row.get("spread", {})
        times = f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"
        table.add_row(
            str(number),
            name,
            row["quantizer"],
            mean_and_spread(row["iterations"], spread.get("iterations"), "{:,.0f}"),
            f"{row[goal]:.1e}",
            human(row["wire_bits_per_link"], spread.get("wire_bits_per_link")),
            *([mean_and_spread(row["simulated_seconds"], spread.get("simulated_seconds"), "{:.3g}")] if timed else []),
            times if row["ended"] == "reached" else _ended(row, seeds),
            *(f"{row[name]:.3g}" if name == "test_loss" else f"{row[name]:.1%}" for name in held_out),
        )
    console.print(table)
    console.print(found["verdict"])
    place = "the report" if report else ".rows"
    spent = "time" if by_time else "bits"
    console.print(f"Times: {spent} relative to the best run, or how a run ended. Step sizes are in {place}.")
    if timed:
        console.print("Seconds: the latency and the time to send of every exchange. Computing takes no time here.")
    if most := max(row["choosing_bits_per_link"] for row in rows):
        console.print(f"Choosing step sizes took up to {human(most)} per link more, not counted above.")
    half = "; those of float32 have half" if precision == 64 and report is not None else ""
    exact = any(row["quantizer"] == "exact" for row in rows)
    words = f" Exact messages are {precision}-bit numbers{half}." if exact else ""
    console.print(f"Bits are those of the bytes sent, with headers.{words}")
    for name, why in _together(found["refused"]).items():
        console.print(f"Not run: {name}: {why}")
    if report is not None:
        console.print(f"Report, with all curves: {report}", soft_wrap=True)  # a wrapped path cannot be copied


def _together(refused: Mapping[str, str]) -> dict[str, str]:
    """Return what was refused with one line for the quantizers of a method that were refused for one reason.

    >>> _together({"a with x": "no", "a with y": "no", "b with x": "no"})
    {'a': 'no', 'b with x': 'no'}
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name, why in refused.items():
        found.setdefault((name.partition(" with ")[0], why), []).append(name)
    return {names[0] if len(names) == 1 else method: why for (method, why), names in found.items()}


def _ended(row: dict[str, Any], seeds: int) -> str:
    """Return how a run ended; of several seeds, how many reached the target if some did."""
    some = 0 < row.get("reached", 0) < seeds
    return f"{row['reached']} of {seeds}" if some else row["ended"]


def method_names(rows: list[dict[str, Any]]) -> list[str]:
    """Return the method of each row, with its option and messages where rows of one method differ in them.

    >>> method_names([{"method": "lead", "option": "B"}, {"method": "tree", "option": "C"}])
    ['lead', 'tree']
    >>> method_names([{"method": "lead", "option": "B"}, {"method": "lead", "option": "C"}])
    ['lead B', 'lead C']
    """
    names = []
    for row in rows:
        rivals = [other for other in rows if other["method"] == row["method"]]
        parts = [row.get(part) for part in ("option", "messages") if len({other.get(part) for other in rivals}) > 1]
        names.append(" ".join([row["method"], *(part for part in parts if part)]))
    return names
