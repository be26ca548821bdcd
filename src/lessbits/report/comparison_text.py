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
    table = number_table(
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
        ratio = row["wire_bits_per_link"] / reached[0]["wire_bits_per_link"] if row in reached else None
        table.add_row(
            str(number),
            f"{row['method']} {row['option']}{messages}",
            row["quantizer"],
            row["ended"],
            f"{row['iterations']:,}",
            f"{row['error']:.2e}",
            human(row["wire_bits_per_link"]),
            "-" if ratio is None else f"{ratio:.2f}",
        )
    console.print(table)
    if reached:
        console.print("Times: bits relative to the best run. Step sizes are in the report.")
    console.print("Bits are those of the bytes sent, with headers.", end=" " if exact else "\n")
    if exact:
        console.print(f"Exact messages are {settings['precision']}-bit numbers{half}.")
    for name, why in found["refused"].items():
        console.print(f"Not run: {escape(name)}: {escape(why)}")
    if report is not None:
        console.print(f"Report, with all curves: {escape(report)}", soft_wrap=True)  # a wrapped path cannot be copied
