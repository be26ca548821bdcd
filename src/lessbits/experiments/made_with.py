"""What results were made with, and whether this version would still make the same.

Beside each summary stands `made_with.json`: the version, the precision, and the errors and bits of short runs of what
the experiment runs for long. Quantizers, random numbers, methods, problems and theory all enter these numbers, so they
change when the figures would. Comments and the format of encoded messages, which no figure counts, do not.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lessbits._internal.files import make_folder, write_whole
from lessbits.datasets import Samples, load_samples
from lessbits.engines.simulate.run import simulate
from lessbits.errors import InputError
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import theory_inputs
from lessbits.methods.request import MethodRequest
from lessbits.networks import make_network
from lessbits.problems import Consensus, LeastSquares, Problem, make_problem
from lessbits.quantizers import Quantizer, make_quantizer
from lessbits.theory import step_sizes
from lessbits.tuning.stepsizes import make_method
from lessbits.version import __version__

NAME, FORMAT = "made_with.json", 1
NODES, DIM, ITERATIONS = 8, 12, 12
SAME = 1e-6  # relative difference of numbers that machines may round differently


class Probe(NamedTuple):
    """A short run. Without step sizes it has those of the paper's theorems, or of the method's own."""

    method: str
    quantizer: str = "exact"
    sizes: tuple[tuple[str, float], ...] = ()
    option: str = "B"
    network: str = "ring"

    @property
    def name(self) -> str:
        """What it is called in the file."""
        return f"{self.method} {self.option} {self.quantizer}"


ALGORITHM_1 = tuple(
    Probe("primal-dual", quantizer, (("theta", 0.3), ("eta", 1.0))) for quantizer in ("exact", "dit-2", "rand-3")
)
GOSSIP = (
    Probe("choco", "dit-2", (("gamma", 0.2), ("eta", 0.1))),
    Probe("qdgd", "dit-4", (("epsilon", 0.1), ("alpha", 0.1))),
)
OPTIONS = tuple(Probe("primal-dual", "dit-3", (("theta", 0.1), ("eta", 0.1)), option) for option in "BCD")
OTHERS = tuple(Probe(method, sizes=(("eta", 0.1),)) for method in ("dgd", "extra", "gradient-tracking", "nids"))
LEARNING = (*OPTIONS, *OTHERS, Probe("lead", "dit-3", (("gamma", 0.5), ("eta", 0.1), ("alpha", 0.3))))
CLASSES = (  # on samples with two classes, as Figure 3 has
    OPTIONS[1],
    Probe("gradient-tracking-atc", sizes=(("eta", 0.1),)),
    Probe("gt-svrg", sizes=(("eta", 0.1),), option="D"),
    Probe("nids", sizes=(("eta", 0.1),), option="D"),
    *(Probe(method, option="A") for method in ("ssda", "msda")),
    Probe("diana", "dit-3", (("eta", 0.1),), network="star"),
    Probe("vr-diana", "dit-3", (("eta", 0.1),), "D", "star"),
)
PROVEN = tuple(Probe("primal-dual", "rand-4", (), option) for option in "ABCD")
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "consensus": lambda: Consensus.random(NODES, DIM),
    "least squares": lambda: LeastSquares.random(NODES, DIM),
    "logistic regression": lambda: make_problem("logistic", _samples(), NODES, regularization=0.1),
}
PROBES: dict[str, tuple[tuple[str, Probe], ...]] = {
    "consensus": tuple(("consensus", each) for each in ALGORITHM_1),
    "gossip": tuple(("consensus", each) for each in (*ALGORITHM_1, *GOSSIP)),
    "learning": (
        *(("least squares", each) for each in (*LEARNING, *GOSSIP)),
        *(("logistic regression", each) for each in CLASSES),
    ),
    "rates": tuple(("least squares", each) for each in (*PROVEN, *GOSSIP, OTHERS[0])),
}
KINDS = {"fig1": "consensus", "table3": "consensus", "fig2": "gossip", "table4": "gossip"}
KINDS |= {"fig3": "learning", "table5": "learning", "rates": "rates"}


def made_with(experiment: str) -> dict[str, Any]:
    """Return the record of this version: what an experiment's results are made with."""
    probes = {f"{problem}: {probe.name}": _run(problem, probe) for problem, probe in PROBES[KINDS[experiment]]}
    return {
        "format": FORMAT,
        "version": __version__,
        "precision": str(jnp.result_type(float)),
        "probes": probes,
    }


def write_record(folder: Path, experiment: str) -> None:
    """Write the record beside the results."""
    write_whole(folder / NAME, json.dumps(made_with(experiment), indent=1) + "\n")


def keep_cells_of_one_version(cells: Path, experiment: str) -> None:
    """Refuse to go on with cells that another version left, and otherwise say whose they are."""
    if not (cells / NAME).is_file():
        make_folder(cells)
        write_record(cells, experiment)
    elif (reason := why_stale(cells, experiment)) is not None:
        raise InputError(f"{cells.parent} has cells of another version ({reason}): name another folder, or remove it")


def why_stale(folder: Path, experiment: str) -> str | None:
    """Return why this version would make other results than those in a folder; None if it would make the same."""
    try:
        kept = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "it does not say what it was made with, so it is older than this check" if folder.is_dir() else "missing"
    except (OSError, ValueError) as problem:
        return f"{NAME} cannot be read: {problem}"
    if not isinstance(kept, dict) or kept.get("format") != FORMAT or not isinstance(kept.get("probes"), dict):
        return f"{NAME} is not one of this version"
    now = made_with(experiment)
    if kept.get("precision") != now["precision"]:
        return f"it was made in {kept.get('precision')}, not {now['precision']}"
    changed = [name for name, numbers in now["probes"].items() if not _same(kept["probes"].get(name), numbers)]
    return f"short runs have other numbers today: {', '.join(changed)}" if changed else None


def _same(kept: Any, now: list[float]) -> bool:
    if not isinstance(kept, list) or len(kept) != len(now) or not all(isinstance(each, int | float) for each in kept):
        return False
    return all(math.isclose(one, other, rel_tol=SAME, abs_tol=1e-12) for one, other in zip(kept, now, strict=True))


def _samples() -> Samples:
    """Return the first rows of a data set that the package has."""
    return load_samples("breast-cancer").take(np.arange(8 * NODES)).normalized_rows()


def _run(kind: str, probe: Probe) -> list[float]:
    """Return errors of a few iterations, and the nominal bits per link."""
    problem, network = PROBLEMS[kind](), make_network(probe.network, NODES)
    sizes: dict[str, Any] = dict(probe.sizes)
    if not sizes and probe.method == "primal-dual":
        quantizer = make_quantizer(probe.quantizer, DIM)
        assert isinstance(quantizer, Quantizer)
        inputs = theory_inputs(MethodRequest(problem, network, quantizer, Gradients(probe.option))).as_published()
        sizes = step_sizes(probe.option, inputs)._asdict()
    method = make_method(probe.method, problem, network, probe.quantizer, option=probe.option, **sizes)
    trace = simulate(problem, network, method, iterations=ITERATIONS, record_every=4)
    return [*(float(each) for each in trace["error"]), float(trace["bits_per_link"][-1])]
