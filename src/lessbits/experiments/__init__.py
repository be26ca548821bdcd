"""The paper's figures and tables, each from one command."""

from importlib import import_module
from pathlib import Path

from lessbits.experiments.made_with import keep_cells_of_one_version, why_stale, write_record
from lessbits.experiments.results import Results

# The module of each experiment. It has a function with the name of the experiment.
REPRODUCTIONS = {
    "fig1": "table3",
    "fig2": "table4",
    "fig3": "table5",
    "table3": "table3",
    "table4": "table4",
    "table5": "table5",
    "rates": "rates",
}


def reproduce(name: str, out: Path, quick: bool = False, progress: bool = True) -> list[Results]:
    """Reproduce one figure or table of the paper, or `all`, each in its own folder under `out`."""
    finished = []
    for experiment in REPRODUCTIONS if name == "all" else [name]:
        results = Results(out / experiment, experiment, quick, progress)
        if not quick:
            keep_cells_of_one_version(out / "cells" / experiment, experiment)
        getattr(import_module(f"lessbits.experiments.{REPRODUCTIONS[experiment]}"), experiment)(results)
        if not quick:
            write_record(results.folder, experiment)
        finished.append(results)
    return finished


def stale_results(name: str, folder: Path) -> dict[str, str | None]:
    """Return for each reproduction in a folder why this version would make another; None if it would not."""
    return {each: why_stale(folder / each, each) for each in (REPRODUCTIONS if name == "all" else [name])}
