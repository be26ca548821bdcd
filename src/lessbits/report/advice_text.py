"""The text that `lessbits advise` and `lessbits tune --goal bits` print."""

import math
from typing import Any

from rich.table import Table

from lessbits._internal.terminal import Terminal, number_table
from lessbits._internal.wording import human
from lessbits.report.text import choosing_in_words, step_sizes_in_words
from lessbits.tuning.ranking_table import with_range

MAX_RANKED = 8  # rows of a ranking
PROVEN = 0.999  # share of a bound that counts as all of it


def advice_report(advice: dict[str, Any], console: Terminal | None = None) -> None:
    """Print how far messages can be compressed, and what is expected to send the fewest bits."""
    console = console or Terminal()
    console.print(f"Network: {advice['network']}.")
    if advice["free"] is None:
        console.print("The losses are not strongly convex (μ = 0), so no theorem tells how much compression is free.")
    else:
        _print_free(console, advice["free"])
    _print_fewest(console, advice["fewest"])


def _print_free(console: Terminal, free: dict[str, Any]) -> None:
    """Print how much compression is free, and the shortest messages within that bound."""
    console.print(
        f"Messages may be compressed up to ω = {free['free_omega']:.4g} for a constant factor in iterations, which "
        "may be several times. (ω is the noise that a quantizer adds, relative to what it sends.) The network allows "
        f"ρ/ρ_∞ = {free['network_bound']:.4g}, the problem κρ = {free['problem_bound']:.4g}; the smaller counts."
    )
    if free["proven_omega"] < PROVEN * free["free_omega"]:
        console.print(
            f"Only ω = {free['proven_omega']:.4g} of this is proven (docs/theorems.md); what to expect beyond is below."
        )
    if free["messages"] == "broadcast":
        console.print("Broadcast messages share their noise, so the network allows only ω = 2, whatever its shape.")
    if free["choices"]:
        console.print()
        console.print(_quantizer_table(free["choices"], free["exact_bits"]))
        console.print(
            "Bits are per link and iteration, for all messages together. The factor in iterations is "
            "predicted for the best step sizes of each; where exact messages need few iterations, it may be large."
        )
    best = free["recommended"]
    console.print()
    if best is None:
        console.print("No rand-K or dit-K is within that bound: send exact messages, or accept more iterations.")
    elif best["bits_saved"] <= 1:
        console.print(
            "Messages within that bound are no shorter than exact ones: send exact, or accept more iterations."
        )
    elif best["bits_saved_in_all"] <= 1:
        console.print("The extra iterations may cost as much as the shorter messages save: try both before you choose.")
    else:
        console.print(
            f"With the paper's messages take the quantizer {best['quantizer']}: {best['bits_saved']:.3g} times fewer "
            f"bits per iteration, and about {best['bits_saved_in_all']:.2g} times fewer in all if it needs "
            f"{best['times_the_iterations']:.2f} times the iterations."
        )


def _print_fewest(console: Terminal, fewest: dict[str, Any]) -> None:
    """Print the methods that are expected to send the fewest bits, with their commands."""
    console.print()
    goal = {"error": "a squared error"}.get(fewest["goal"], f"a {fewest['goal']}")
    table = number_table(f"Expected bits to {goal} of {fewest['until']:.3g}", "method", "exchanges", "bits per link")
    for row in fewest["expected"]:
        table.add_row(choice_in_words(row), f"{row['iterations']:,.0f}", human(row["bits"]))
    console.print(table)
    words = "Bits are those of encoded messages with headers, in one direction: the mean over all links."
    for row in fewest["expected"]:
        words += f" {row['method']} {row['note']}" if row["note"] else ""
    console.print(words)
    best, *others = fewest["expected"]
    for row, words in [(best, "Fewest bits"), *((row, "Next best") for row in others[:1])]:
        console.print()
        console.print(f"{words}, {human(row['bits'])} per link with {choice_in_words(row)}:")
        console.print(f"  {row['command']}", soft_wrap=True)
        cost = row.get("chosen_with")
        if cost and cost["bits_per_link"] > row["bits"]:
            console.print(f"Choosing {choosing_in_words(cost)}.")


def choice_in_words(row: dict[str, Any]) -> str:
    """Return a method with its variant, messages and quantizer."""
    words = [row["method"], "corrected" if row["corrected"] else "", row["messages"] or "", row["quantizer"]]
    return ", ".join(word for word in words if word)


def fewest_report(found: dict[str, Any]) -> None:
    """Print the ranking of `lessbits tune --goal bits`."""
    console = Terminal()
    settings = found["settings"]
    console.print(f"{settings['problem']}, {settings['network']} of {settings['nodes']} nodes, d = {settings['dim']}")
    reached = [row for row in found["candidates"] if math.isfinite(row["wire_bits_per_link"])]
    table = number_table(
        f"Best of {len(found['candidates'])}{' so far' if found['interrupted'] else ''}",
        *("", "method", "step sizes", "exchanges", "bits per link"),
    )
    best_of_method = {row["method"]: number for number, row in reversed(list(enumerate(reached, start=1)))}
    last_shown = 0
    for number, row in enumerate(reached, start=1):
        if number <= MAX_RANKED or number in best_of_method.values():
            if number > last_shown + 1:
                table.add_row("…")
            last_shown = number
            words = choice_in_words(row), step_sizes_in_words(row)
            spent = with_range(row, "iterations", "{:,.0f}".format), with_range(row, "wire_bits_per_link", human)
            table.add_row(str(number), *words, *spent)
    console.print(table)
    if reached:
        console.print(f"Take\n  {found['command']}", soft_wrap=True)


def _quantizer_table(rows: list[dict[str, Any]], exact_bits: float) -> Table:
    table = number_table(
        "The shortest messages within that bound", "quantizer", "ω", "bits", "bits saved", "iterations, about"
    )
    table.add_row("exact", "0", f"{exact_bits:,.0f}", "1 ×", "1 ×")
    for row in rows:
        table.add_row(
            row["quantizer"],
            f"{row['omega']:.3g}",
            f"{row['bits']:,.0f}",
            f"{row['bits_saved']:.3g} ×",
            f"{row['times_the_iterations']:.2f} ×",
        )
    return table
