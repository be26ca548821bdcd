"""The commands about many runs: comparing them, reporting on them, and the paper's own."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from lessbits.cli.flags import (
    Json,
    Quiet,
    check_folder,
    check_simulated,
    check_writable,
    output,
    path_of,
    search_flag,
    set_precision,
    show,
)
from lessbits.cli.help import completion
from lessbits.config.settings import Settings
from lessbits.errors import InputError, check_name

USUAL_METHODS = ("primal-dual", "tree", "lead", "choco")
USUAL_QUANTIZERS = ("exact", "dit-4", "dit-2")


def compare(
    settings: Settings,
    methods: Annotated[
        str, search_flag("Methods, with commas; each runs with every quantizer that it takes.", "--methods")
    ] = ",".join(USUAL_METHODS),
    quantizers: Annotated[str, search_flag("Quantizers, with commas.", "--quantizers")] = ",".join(USUAL_QUANTIZERS),
    tuned: Annotated[
        bool, search_flag("Tune each method's first step size for the fewest iterations.", "--tuned")
    ] = False,
    out: Annotated[
        Path,
        output(
            "Folder for the traces of all runs and report.html, in place of those of an earlier comparison; "
            "default: out/compare.",
            "--out",
        ),
    ] = Path("out/compare"),
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run several methods with several quantizers on one problem and network, and rank them by the bits they send.

    Step sizes are practical ones, or --stepsizes theory, or --tuned; the target is an error of 1e-3 unless --until says
    another. Ends with a table and a report with all curves, which opens in any browser.
    """
    check_writable(path_of(json_file))
    check_folder(out)
    check_simulated(settings, "compare")
    set_precision(settings)
    from lessbits.config.compare import compare_settings
    from lessbits.report.comparison_text import comparison_report
    from lessbits.report.formats import write_report

    say = None if quiet else lambda text: print(f"lessbits: {text}", file=sys.stderr, flush=True)
    found = compare_settings(settings, _words(methods), _words(quantizers), tuned, out, say)
    file = out / "report.html"
    write_report(found.pop("traces"), file, across="bits per link")
    show(found, json_file, lambda: comparison_report(found, str(file)))
    if found["runs"][0]["ended"] != "reached":
        print("lessbits: no run reached the target: allow more --iterations, or ask for less", file=sys.stderr)
        raise typer.Exit(1)


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Traces that lessbits run --save wrote, or folders of them.", metavar="RUN")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="html, png, svg, pdf or md; default: what the file's name ends in.",
            autocompletion=completion("format"),
        ),
    ] = None,
) -> None:
    """Make a report of runs: one HTML file that opens anywhere, or a picture, or Markdown.

    The page shows the error against iterations, bits, bytes, epochs and time, the networks, and how each run was made.
    """
    check_writable(out)
    from lessbits.report.formats import load_runs, write_report

    traces = load_runs(runs)
    write_report(traces, out, kind)
    print(f"{len(traces)} run{'s' if len(traces) > 1 else ''}: {out}")


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="fig1, fig2, fig3, table3, table4, table5, rates, or all.",
            metavar="NAME",
            autocompletion=completion("reproduction"),
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A smaller form of about a minute.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="out/reproduction, or out/quick")
    ] = None,
    precision: Annotated[int, typer.Option(help="Bits of a floating-point number in the computation: 32 or 64.")] = 64,
    quiet: Quiet = False,
) -> None:
    """Make a figure or a table of the paper: data, plots, and a summary of what agrees with it and what does not.

    A run that was interrupted goes on where it was when it is started again with the same folder.
    """
    names = ("fig1", "fig2", "fig3", "table3", "table4", "table5", "rates", "all")
    check_name("reproduction", name, names)
    folder = out or Path("out") / ("quick" if quick else "reproduction")
    check_folder(folder)
    set_precision(Settings.read({"precision": precision}))
    from lessbits.experiments import reproduce as make
    from lessbits.report.text import reproduction_report

    for results in make(name, folder, quick, progress=not quiet):
        reproduction_report(results.name, results.findings(), str(results.folder))


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the plot.")] = Path("out/demo"),
    quiet: Quiet = False,
) -> None:
    """Show the headline: on the star compression is free, on the ring it is not (the paper's Figure 1)."""
    check_folder(out)
    set_precision(Settings())
    from lessbits.experiments.headline import headline

    headline(out, progress=not quiet)


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"{text!r} names nothing: write names with commas between")
    return words
