"""The text that `lessbits compare` prints."""

from typing import Any

from rich.console import Console
from rich.markup import escape

from lessbits._internal.wording import counted, human
from lessbits.report.text import number_table


def comparison_report(found: dict[str, Any], report: str | None) -> None:
    """Print the runs ranked by bits, and the path of the HTML report."""
    console = Console(highlight=False)
    settings, rows = found["settings"], found["runs"]
    exact = any(row["quantizer"] == "exact" for row in rows)
    half = "; --precision 32 halves them" if settings["precision"] == 64 else ""
    reached = [row for row in rows if row["ended"] == "reached"]
    console.print(f"{settings['problem']}, {settings['network']}, to {settings['goal']} {settings['until']:g}")
    names = method_names(rows)
    table = number_table(
        f"{counted(len(rows), 'run')}, the fewest bits first",
        "",
        "method",
        "quantizer",
        "iterations",
        "error",
        "bits per link",
        "times",
    )
    for column in (1, 2):
        table.columns[column].justify = "left"
        table.columns[column].no_wrap = True  # names stay whole; if something must wrap, it is a heading
    for number, (row, name) in enumerate(zip(rows, names, strict=True), start=1):
        ratio = row["wire_bits_per_link"] / reached[0]["wire_bits_per_link"] if row in reached else None
        table.add_row(
            str(number),
            name,
            row["quantizer"],
            f"{row['iterations']:,}",
            f"{row['error']:.1e}",
            human(row["wire_bits_per_link"]),
            row["ended"] if ratio is None else f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}",
        )
    console.print(table)
    if reached:
        console.print("Times: bits relative to the best run, or how a run ended. Step sizes are in the report.")
    numbers = f" Exact messages are {settings['precision']}-bit numbers{half}." if exact else ""
    console.print(f"Bits are those of the bytes sent, with headers.{numbers}")
    for name, why in found["refused"].items():
        console.print(f"Not run: {escape(name)}: {escape(why)}")
    if report is not None:
        console.print(f"Report, with all curves: {escape(report)}", soft_wrap=True)  # a wrapped path cannot be copied


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
