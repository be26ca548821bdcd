"""The paper's figures and tables, each from one command."""

from importlib import import_module
from pathlib import Path

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
        getattr(import_module(f"lessbits.experiments.{REPRODUCTIONS[experiment]}"), experiment)(results)
        finished.append(results)
    return finished
