"""The command `lessbits reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from lessbits.cli.checks import check_folder
from lessbits.cli.flags import Quiet, folder_flag, number_parser
from lessbits.cli.help import complete_from
from lessbits.cli.jax_setup import configure_jax
from lessbits.config.settings import Settings
from lessbits.errors import check_name

EXAMPLES = (
    "lessbits reproduce fig1 --quick",
    "lessbits reproduce all --out reproduction",
    "lessbits reproduce all --check --out docs/reproduction",
)
NAMES = ("fig1", "fig2", "fig3", "table3", "table4", "table5", "rates", "all")


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(NAMES[:-1])}, or {NAMES[-1]}.", metavar="NAME", autocompletion=complete_from(NAMES)
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A smaller version that takes about a minute.")] = False,
    out: Annotated[
        Path | None, folder_flag("Folder for the results; default: out/reproduction, or out/quick.", "--out")
    ] = None,
    precision: Annotated[
        int,
        typer.Option(help="Bits of a floating-point number in the computation: 32 or 64.", parser=number_parser(int)),
    ] = 64,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the results in the folder are those of this version.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce a figure or a table of the paper: data, plots, and a summary of what agrees and what does not.

    A command that was interrupted resumes when it is started again with the same folder. With --check the exit status
    is 1 if some results are stale.
    """
    check_name("reproduction", name, NAMES)
    folder = out or Path("out") / ("quick" if quick else "reproduction")
    check_folder(folder)
    configure_jax(Settings.read({"precision": precision}).precision)  # `read` refuses other precisions
    from lessbits.experiments import reproduce as run_experiments
    from lessbits.experiments import stale_results
    from lessbits.report.text import reproduction_report, staleness_report

    if check:
        found = stale_results(name, folder)
        staleness_report(found, str(folder))
        raise typer.Exit(1 if any(found.values()) else 0)
    for results in run_experiments(name, folder, quick, progress=not quiet):
        reproduction_report(results.name, results.findings(), str(results.folder))
