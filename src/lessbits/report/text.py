"""Results as text and tables for the terminal."""

import math
from collections.abc import Mapping
from typing import Any

from rich.padding import Padding

from lessbits._internal.terminal import Terminal, fact_table, number_table
from lessbits._internal.wording import counted, human, mean_and_spread
from lessbits.engines.checks import GOALS
from lessbits.engines.recording.trace import Trace
from lessbits.methods.registry import find_method, method_names
from lessbits.report.faults import faults_in_words

LETTERS = {
    "theta": "θ",
    "eta": "η",
    "gamma": "γ",
    "alpha": "α",
    "epsilon": "ε",
    "momentum": "β",
    "decay": "decay",
    "probability": "p",
}


def method_in_words(settings: Mapping[str, Any]) -> str:
    """Return the method with its option, variant, messages, quantizer and chunks."""
    messages = f"{settings['messages']} messages, " if settings.get("messages") else ""
    corrected = "corrected, " if settings.get("corrected") else ""
    chunks = f", {settings['chunks']} chunks" if (settings.get("chunks") or 1) > 1 else ""
    return f"{settings['method']} option {settings['option']}, {corrected}{messages}{settings['quantizer']}{chunks}"


def step_sizes_in_words(sizes: Mapping[str, Any]) -> str:
    """Return the step sizes, named by their letters in the papers.

    >>> step_sizes_in_words({"theta": 1.5848931924611136, "eta": 1.0, "gamma": None})
    'θ = 1.585, η = 1'
    """
    given = {LETTERS[name]: sizes[name] for name in LETTERS if sizes.get(name) is not None}
    given |= sizes.get("step_sizes") or {}  # of a registered method
    return ", ".join(f"{letter} = {size:.4g}" for letter, size in given.items())


def run_report(trace: Trace, network: str, prepared: float = 0.0, ranks: int | None = None) -> None:
    """Print the result of a run.

    `network` is a description in words, and `prepared` the seconds that were spent before the run.
    """
    last, settings = trace.summary(), trace.settings
    known = settings["method"] in method_names()  # not one that another program registered
    schedule = known and find_method(settings["method"]).for_target
    facts = {
        "result": last["message"],
        "problem": f"{settings['problem']}, {settings['nodes']} nodes, {counted(settings['dim'], 'dimension')}",
        "network": network,
        **({"faults": words} if (words := faults_in_words(trace)) else {}),
        "method": method_in_words(settings),
        "step sizes": schedule * "a schedule for the target, and after it " + step_sizes_in_words(settings),
        **_scores(last),
        "bits per link": f"{human(last['wire_bits_per_link'])}   ({_bit_count(last, settings)})",
        "": f"{human(last['bits_per_link'])}   (by the paper's formulas; {last['messages']} messages on all links)",
        "gradients": f"{last['gradient_evaluations']} of single samples, {counted(last['epochs'], 'epoch')}, "
        f"in {counted(last['gradient_rounds'], 'round')}",
        "time": f"{last['seconds']:.3g} s, and {trace.compile_seconds:.3g} s to {_preparation(last)}",
    }
    if prepared >= 0.1:
        facts["time"] += f"; before that {prepared:.3g} s for the problem, its solution and step sizes"
    if words := choosing_in_words(trace.provenance.get("chosen_with")):
        facts["choosing"] = words
    if len(trace.x) < settings["nodes"]:
        facts["x"] = "stays at the ranks, as nothing is scored; --solution FILE gathers it"
    if settings["engine"] == "mpi":
        facts["engine"] = f"MPI, {counted(ranks or 1, 'rank')}"
    if "compute_seconds" in last:
        facts["of it"] = (
            f"{last['compute_seconds']:.3g} s computing, {last['coding_seconds']:.3g} s coding, "
            f"{last['communication_seconds']:.3g} s communicating"
        )
    if last.get("bytes_between_ranks"):
        facts["between ranks"] = f"{human(8 * last['bytes_between_ranks'])} were given to MPI"
    if "simulated_seconds" in last:
        facts["simulated time"] = f"{last['simulated_seconds']:.4g} s on these links"
    Terminal().print(fact_table(facts))


def choosing_in_words(cost: Mapping[str, Any] | None) -> str:
    """Return what choosing the step sizes cost, which no count of a run's bits includes; empty if nothing.

    >>> choosing_in_words({"trials": 0, "iterations": 0, "bits_per_link": 64.0})
    'what nodes agreed on before the run took 64 bit per link, not counted above'
    """
    if not cost or not cost["bits_per_link"]:
        return ""
    bits = f"{human(cost['bits_per_link'])} per link, not counted above"
    if not cost["trials"]:
        return f"what nodes agreed on before the run took {bits}"
    return f"step sizes took {counted(cost['trials'], 'trial run')}, {cost['iterations']} iterations, {bits}"


def _scores(last: dict[str, Any]) -> dict[str, str]:
    """Return the metrics of the last record, in words; none if nothing was scored."""
    meanings = {
        "error": "mean of ‖x_i - x*‖²; consensus distance {consensus:.1e}",
        "suboptimality": "f - f* at the average of the x_i",
        "loss": "f at the average of the x_i",
        "gradient": "‖∇f‖² there, and L² times the consensus distance, {consensus:.1e}",
    }
    found = {name: f"{last[name]:.3e}   ({text.format(**last)})" for name, text in meanings.items() if name in last}
    if "test_loss" in last:
        found["held out"] = f"loss {last['test_loss']:.4g}"
    if "test_accuracy" in last:
        found["held out"] += f", accuracy {last['test_accuracy']:.1%}"
    return found


def seeds_report(seeds: Mapping[str, Any]) -> None:
    """Print mean and spread over several seeds."""
    mean, spread = seeds["mean"], seeds["spread"]
    facts = {"iterations": mean_and_spread(mean["iterations"], spread["iterations"], "{:,.0f}")}
    for name in (*GOALS, "test_loss", "test_accuracy"):
        if name in mean:
            facts[name.replace("_", " ")] = mean_and_spread(mean[name], spread[name], "{:.3g}")
    facts["bits per link"] = human(mean["wire_bits_per_link"], spread["wire_bits_per_link"])
    console = Terminal()
    ended = f"{seeds['reached']} reached the target" + (f", {seeds['diverged']} diverged" if seeds["diverged"] else "")
    console.print(f"\nMean ± standard deviation of {seeds['count']} seeds ({ended}); above is the first:")
    console.print(fact_table(facts))


def _bit_count(last: dict[str, Any], settings: Mapping[str, Any]) -> str:
    how = "encoded bytes with headers" if "coding_seconds" in last else "length of the bytes with headers"
    return f"{how}, {settings['code']} code"


def _preparation(last: dict[str, Any]) -> str:
    return "prepare" if "coding_seconds" in last else "compile"


def theory_report(facts: dict[str, Any]) -> None:
    """Print the step sizes and rates of the theorems."""
    console = Terminal()
    options = facts["options"]
    console.print(
        fact_table(
            {
                "network": facts["network"],
                "": f"λ_max = {facts['lambda_max']:.6g}, λ_min⁺ = {facts['lambda_min']:.6g}, "
                f"ρ = {facts['rho']:.5g}, ρ_∞ = {facts['rho_inf']:.5g}",
                "problem": f"L = {facts['smoothness']:.5g} (single samples {facts['sample_smoothness']:.5g}), "
                f"μ = {facts['convexity']:.5g}, κ = {facts['condition_number']:.5g}",
                "quantizer": f"{facts['settings']['quantizer']}, ω = {facts['omega']:.5g}; "
                f"free up to ω = {facts['free_omega']:.4g} by the paper (the smaller of ρ/ρ_∞ and κρ), proven up to "
                f"{facts['proven_omega']:.4g} (docs/theorems.md)",
                "memory": f"α = {options['B']['alpha']:.4g} for every option",
            },
        )
    )
    console.print()
    table = number_table(
        "Step sizes and rates of the theorems", "option", "θ", "η", "rate", "iterations for 10 × less", "practical θ"
    )
    for option, row in options.items():
        table.add_row(
            option,
            f"{row['theta']:.4g}",
            f"{row['eta']:.4g}",
            f"{row['rate']:.3g}",
            f"{math.log(10) / row['rate']:,.0f}",
            f"{row['practical_theta']:.4g}",
        )
    console.print(table)
    console.print("Each iteration multiplies the Lyapunov function, which bounds the error, by 1 - rate on average.")
    if options["B"]["iterations"] is not None:
        proven = ", ".join(f"{option} {row['iterations']:,}" for option, row in options.items())
        console.print(f"Iterations that are enough for an error of {facts['settings']['until']:g}: {proven}.")
    if options["C"]["noise_floor"]:
        console.print(f"Option C stops at a squared error of at most {options['C']['noise_floor']:.2g}.")


def headline_table(name: str, rows: list[dict[str, Any]]) -> None:
    """Print the table of `lessbits demo` for one network."""
    table = number_table(name, "quantizer", "ω", "θ", "iterations", "nominal bits", "bits saved", "free?")
    for row in rows:
        table.add_row(
            row["quantizer"],
            f"{row['omega']:.3g}",
            f"{row['theta']:.3g}",
            f"{row['iterations']:,}" if row["converged"] else f"> {row['iterations']:,}",
            human(row["bits_per_link"]),
            f"{row['bits_saved']:.1f} ×",
            row["free"],
        )
    Terminal().print(table)


def staleness_report(found: Mapping[str, str | None], folder: str) -> None:
    """Print which reproductions in a folder are those of this version."""
    console = Terminal()
    for name, reason in found.items():
        console.print(f"{folder}/{name}: " + ("up to date" if reason is None else f"stale: {reason}"), soft_wrap=True)


def reproduction_report(name: str, findings: dict[str, list[str]], folder: str) -> None:
    """Print the findings of a reproduction."""
    console = Terminal()
    console.print(name, style="bold")
    for heading, lines in findings.items():
        console.print(f"  {heading}:")
        for line in lines:
            console.print(Padding(f"- {line}", (0, 0, 0, 2), expand=False))
    console.print(f"Summary, data and plots: {folder}/summary.md", soft_wrap=True)
