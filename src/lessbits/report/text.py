"""Results as words and tables on the terminal."""

from typing import Any

from rich.console import Console
from rich.table import Table

from lessbits.engines.trace import Trace


def human(bits: float) -> str:
    """Write a number of bits with a unit.

    >>> human(5212000)
    '5.21 Mbit'
    """
    for unit in ("bit", "kbit", "Mbit", "Gbit"):
        if bits < 1000:
            return f"{bits:.3g} {unit}"
        bits /= 1000
    return f"{bits:.3g} Tbit"


def _facts(title: str, facts: dict[str, str]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def run_report(trace: Trace, network: Any) -> None:
    """Say how a run ended."""
    last, settings = trace.summary(), trace.settings
    facts = {
        "result": last["message"],
        "problem": f"{settings['problem']}, {settings['nodes']} nodes, {settings['dim']} dimensions",
        "network": repr(network),
        "method": f"{settings['method']} option {settings['option']}, "
        f"{settings['messages']} messages, {settings['quantizer']}",
        "step sizes": f"θ = {settings['theta']:.4g}, η = {settings['eta']:.4g}, α = {settings['alpha']:.4g}",
        "error": f"{last['error']:.3e}   (mean of ‖x_i - x*‖²; consensus distance {last['consensus']:.1e})",
        "suboptimality": f"{last['suboptimality']:.3e}",
        "bits per link": f"{human(last['bits_per_link'])}   "
        f"(nominal; {human(last['total_bits'])} in all, {last['messages']} messages)",
        "gradients": f"{last['gradient_evaluations']} of single samples, {last['epochs']:.4g} epochs",
        "time": f"{last['seconds']:.3g} s, and {trace.compile_seconds:.3g} s to compile",
    }
    if "simulated_seconds" in last:
        facts["simulated time"] = f"{last['simulated_seconds']:.4g} s on these links"
    Console(highlight=False).print(_facts("", facts))


def theory_report(facts: dict[str, Any]) -> None:
    """Print what the theorems say."""
    console = Console(highlight=False)
    console.print(
        _facts(
            "",
            {
                "network": facts["network"],
                "": f"λ_max = {facts['lambda_max']:.6g}, λ_min⁺ = {facts['lambda_min']:.6g}, "
                f"ρ = {facts['rho']:.5g}, ρ_∞ = {facts['rho_inf']:.5g}",
                "problem": f"L = {facts['smoothness']:.5g} (single samples {facts['sample_smoothness']:.5g}), "
                f"μ = {facts['convexity']:.5g}, κ = {facts['condition_number']:.5g}",
                "quantizer": f"{facts['settings']['quantizer']}, ω = {facts['omega']:.5g}; "
                f"free up to ω = {facts['free_omega']:.4g} (min of ρ/ρ_∞ and κρ)",
            },
        )
    )
    table = Table(title="Step sizes and rates of the theorems", title_justify="left")
    for heading in ("option", "θ", "η", "α", "rate ρ", "iterations for 10 × less", "practical θ"):
        table.add_column(heading, justify="right")
    for option, row in facts["options"].items():
        numbers = [row[name] for name in ("theta", "eta", "alpha", "rate")]
        table.add_row(
            option,
            *(f"{number:.4g}" for number in numbers),
            f"{2.302585 / row['rate']:,.0f}",
            f"{row['practical_theta']:.4g}",
        )
    console.print(table)
    floor = facts["options"]["C"]["noise_floor"]
    console.print("Each iteration shrinks the Lyapunov function by 1 - ρ on average.", soft_wrap=True)
    if floor:
        console.print(f"Option C stops at a squared error of at most {floor:.2g}.", soft_wrap=True)


def advice_report(advice: dict[str, Any]) -> None:
    """Say in plain words how far one can compress."""
    console = Console(highlight=False, soft_wrap=True)
    messages = advice["settings"]["messages"]
    console.print(f"Network: {advice['network']}")
    console.print(
        f"Compression costs no extra iterations, up to a constant, while ω ≤ {advice['free_omega']:.4g}: "
        f"the network allows ρ/ρ_∞ = {advice['network_bound']:.4g}, the problem κρ = {advice['problem_bound']:.4g}."
    )
    if messages == "broadcast":
        console.print("Broadcast messages share their noise, so the network allows only ω = 2, whatever its shape.")
    if not advice["choices"]:
        console.print("No rand-K or dit-K is that gentle here: send exact messages, or accept more iterations.")
        return
    table = Table(title="The shortest messages within that bound", title_justify="left")
    for heading in ("family", "quantizer", "ω", "bits a link and iteration", "bits saved", "expect iterations up to"):
        table.add_column(heading, justify="right")
    for row in advice["choices"]:
        table.add_row(
            row["family"],
            row["quantizer"],
            f"{row['omega']:.3g}",
            f"{row['bits']:,.0f} (exact {advice['exact_bits']:,.0f})",
            f"{row['bits_saved']:.3g} ×",
            f"{row['iterations_at_most']:.2f} × exact",
        )
    console.print(table)
    console.print(
        "The constant matters: the last column is what tuned runs on ring and star showed; half of ω halves the excess."
    )


def headline_table(name: str, rows: list[dict[str, Any]]) -> None:
    """Print the table of `lessbits demo` for one network."""
    table = Table(title=name, title_justify="left")
    for heading in ("quantizer", "ω", "θ", "iterations", "bits per link", "bits saved", "free?"):
        table.add_column(heading, justify="right")
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
    Console(highlight=False).print(table)
