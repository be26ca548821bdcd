"""The text that `lessbits compare` prints."""

from typing import Any

from rich.console import Console
from rich.markup import escape

from lessbits._internal.wording import counted, human, mean_and_spread
from lessbits.report.text import number_table


def comparison_report(found: dict[str, Any], precision: int, report: str | None) -> None:
    """Print the runs ranked by bits, the verdict, and the path of the HTML report."""
    console = Console(highlight=False)
    settings, rows, goal = found["settings"], found["runs"], found["goal"]
    console.print(f"{settings['problem']}, {settings['network']}, to {goal} {found['until']:g}")
    seeds = rows[0].get("seeds", 1)
    title = f"{counted(seeds * len(rows), 'run')}, the fewest bits first"
    title += f"; mean ± standard deviation of {seeds} seeds" if seeds > 1 else ""
    table = number_table(title, "", "method", "quantizer", "ended", "iterations", goal, "bits per link", "times")
    for column in (1, 2):
        table.columns[column].justify = "left"
    least = rows[0]["wire_bits_per_link"]
    for number, row in enumerate(rows, start=1):
        messages = f" {row['messages']}" if row["messages"] else ""
        spread = row.get("spread", {})
        ended = row["ended"] if row.get("reached", seeds) in (0, seeds) else f"{row['reached']} of {seeds}"
        table.add_row(
            str(number),
            f"{row['method']} {row['option']}{messages}",
            row["quantizer"],
            ended,
            mean_and_spread(row["iterations"], spread.get("iterations"), "{:,.0f}"),
            f"{row[goal]:.2e}",
            human(row["wire_bits_per_link"], spread.get("wire_bits_per_link")),
            f"{row['wire_bits_per_link'] / least:.2f}" if row["ended"] == "reached" else "-",
        )
    console.print(table)
    console.print(escape(found["verdict"]))
    half = "; --precision 32 halves them" if precision == 64 else ""
    exact = any(row["quantizer"] == "exact" for row in rows)
    words = f" Exact messages are {precision}-bit numbers{half}." if exact else ""
    console.print(f"Bits are those of the bytes sent, with headers.{words}")
    for name, why in found["refused"].items():
        console.print(f"Not run: {escape(name)}: {escape(why)}")
    if report is not None:
        console.print(f"Report, with all curves: {escape(report)}", soft_wrap=True)  # a wrapped path cannot be copied
