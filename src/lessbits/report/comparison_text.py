"""The ranking of `lessbits compare` on the terminal."""

from typing import Any

from rich.console import Console
from rich.markup import escape

from lessbits._internal.wording import counted, human
from lessbits.report.text import numbers


def comparison_report(found: dict[str, Any], report: str | None) -> None:
    """Print who sent the fewest bits, and where the report is."""
    console = Console(highlight=False)
    settings, rows = found["settings"], found["runs"]
    exact = any(row["quantizer"] == "exact" for row in rows)
    half = "; --precision 32 halves them" if settings["precision"] == 64 else ""
    reached = [row for row in rows if row["ended"] == "reached"]
    console.print(f"{settings['problem']}, {settings['network']}, to {settings['goal']} {settings['until']:g}")
    table = numbers(
        f"{counted(len(rows), 'run')}, the fewest bits first",
        "",
        "method",
        "quantizer",
        "ended",
        "iterations",
        "error",
        "bits per link",
        "times",
    )
    for column in (1, 2):
        table.columns[column].justify = "left"
    for number, row in enumerate(rows, start=1):
        messages = f" {row['messages']}" if row["messages"] else ""
        fewest = row["wire_bits_per_link"] / reached[0]["wire_bits_per_link"] if row in reached else None
        table.add_row(
            str(number),
            f"{row['method']} {row['option']}{messages}",
            row["quantizer"],
            row["ended"],
            f"{row['iterations']:,}",
            f"{row['error']:.2e}",
            human(row["wire_bits_per_link"]),
            "-" if fewest is None else f"{fewest:.2f}",
        )
    console.print(table)
    if reached:
        console.print("Times are those of the fewest bits. Step sizes are in the report.")
    console.print("Bits are those of the bytes sent, with headers.", end=" " if exact else "\n")
    if exact:
        console.print(f"Exact messages are {settings['precision']}-bit numbers{half}.")
    for name, why in found["refused"].items():
        console.print(f"Not run: {escape(name)}: {escape(why)}")
    if report is not None:
        console.print(f"Report, with all curves: {escape(report)}", soft_wrap=True)  # a path in two lines is none
