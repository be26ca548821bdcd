"""The paper's figures and tables, each from one command."""

from importlib import import_module
from pathlib import Path

from lessbits.experiments.results import Results

# Where each is made: a module here, and a function of the experiment's name in it.
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
    """Make one figure or table of the paper, or `all`, in a folder of its own under `out`."""
    made = []
    for one in REPRODUCTIONS if name == "all" else [name]:
        results = Results(out / one, one, quick, progress)
        getattr(import_module(f"lessbits.experiments.{REPRODUCTIONS[one]}"), one)(results)
        made.append(results)
    return made
