"""What a trace says of its run: settings in the words of `Settings`, version, machine, network and proven rate."""

import os
import platform
import re
import shlex
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits.faults import Faults
from lessbits.methods.base import Method
from lessbits.methods.registry import BUILT_IN
from lessbits.networks import Network
from lessbits.problems import Consensus, LeastSquares, Logistic, Problem, Softmax
from lessbits.version import __version__

if TYPE_CHECKING:
    from lessbits.engines.options import RunOptions

MOST_NAMES = 500  # names of nodes that are stored for drawing
MOST_EDGES = 2000  # larger networks are not stored for drawing
NAMED = (Consensus, LeastSquares, Logistic, Softmax)  # problems that settings have a name for
MADE_IN_PYTHON = "made in Python"
SMALL = 1_000_000  # numbers in the data, up to which the constants of a problem are computed in no time


def provenance(problem: Problem, network: Network, method: Method, faults: Faults | None = None) -> dict[str, Any]:
    """Return what a report says about a run of the command line besides its settings, as values for JSON."""
    command = shlex.join([os.path.basename(sys.argv[0]) or "python", *sys.argv[1:]])
    return {**_facts(network, method), "command": command, "rate": _rate(problem, network, method, faults)}


def made_in_python(problem: Problem, network: Network, method: Method, faults: Faults | None = None) -> dict[str, Any]:
    """Return the same for a run that was made in Python. It computes nothing that takes long."""
    rate = None
    with suppress(Exception):  # a problem or a method of the user's own must not fail after its run
        if _knows_constants(problem, network, method):
            rate = _rate(problem, network, method, faults)
    return {**_facts(network, method), "command": MADE_IN_PYTHON, "rate": rate}


def _rate(problem: Problem, network: Network, method: Method, faults: Faults | None) -> float | None:
    return method.proven_rate(problem, network, *([] if faults is None else [faults]))


def run_settings(problem: Problem, network: Network, method: Method, options: "RunOptions") -> dict[str, Any]:
    """Return the settings of a run that was made in Python, by the names that `Settings` gives them."""
    import jax.numpy as jnp

    kind = type(method)
    messages = getattr(method, "messages", None)
    sizes = {name: getattr(method, name) for name in method.step_size_names}
    sizes = {name: float(size) for name, size in sizes.items() if np.ndim(size) == 0}
    return {
        "problem": problem_name(problem),
        "nodes": network.nodes,
        "dim": problem.dim,
        "network": network.name,
        "weights": network.weighting,
        "method": method.name,
        "option": method_option(method),
        "messages": messages if kind.message_kinds and isinstance(messages, str) else None,
        "corrected": bool(getattr(method, "corrected", False)),
        "quantizer": getattr(method, "asked", method.compressors[0].name),  # by `scheduled`, which changes it
        # A registered method may have step sizes that settings have no name for.
        **(sizes if method.name in BUILT_IN else {"step_sizes": sizes}),
        "batch_size": method.gradients.batch_size,
        **({"chunks": getattr(method, "chunks", 1)} if kind.takes_chunks else {}),
        "iterations": options.iterations,
        "until": options.until,
        "goal": options.goal,
        "record_every": options.record_every,
        "seed": options.seed,
        **({} if options.faults is None else {"faults": str(options.faults)}),
        "code": options.code,
        "precision": 8 * jnp.dtype(jnp.result_type(float)).itemsize,
    }


def method_option(method: Method) -> str:
    """Return the option of a method, A to D. Its gradients do not tell dual ones, which primal-dual takes itself."""
    return getattr(method, "option", None) or method.gradients.option


def problem_name(problem: Problem) -> str:
    """Return the name of a problem in settings, such as least-squares; for others the name of the class.

    >>> problem_name(LeastSquares.random(nodes=3, dim=2))
    'least-squares'
    """
    kind = type(getattr(problem, "here", problem))  # of a problem that ranks share
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower() if kind in NAMED else kind.__name__


def _facts(network: Network, method: Method) -> dict[str, Any]:
    import jax

    once = network.owner < network.neighbor
    drawn = network.edges <= MOST_EDGES
    return {
        "version": __version__,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, JAX {jax.__version__} on {jax.devices()[0].device_kind}",
        "links": network.links,
        "edges": [rows[once].tolist() for rows in (network.owner, network.neighbor, network.weight)] if drawn else None,
        **({"names": list(network.names)} if network.names and network.nodes <= MOST_NAMES else {}),
        "chosen_with": method.chosen_with._asdict(),
    }


def _knows_constants(problem: Problem, network: Network, method: Method) -> bool:
    """Return whether L, μ and the spectrum of the network are known, or found in no time, without x*."""
    if hasattr(problem, "here") or not problem.local_constants or method_option(method) == "C":
        return False  # held by several ranks, estimated at x*, or with noise at x*
    spectrum = network.nodes <= 300 or network.unit_spectrum is not None or "_spectrum" in vars(network)
    return spectrum and ("_data_curvature" in vars(problem) or problem.samples * problem.dim <= SMALL)
