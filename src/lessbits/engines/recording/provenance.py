"""Provenance of a run: version, command, machine, network and proven rate."""

import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from typing import Any

from lessbits.methods.base import Method
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.version import __version__

MOST_EDGES = 2000  # larger networks are not stored for drawing


def provenance(problem: Problem, network: Network, method: Method) -> dict[str, Any]:
    """Return what a report says about a run besides its settings, as values that JSON can represent."""
    import jax

    once = network.owner < network.neighbor
    edges = [network.owner[once].tolist(), network.neighbor[once].tolist(), network.weight[once].tolist()]
    return {
        "version": __version__,
        "command": shlex.join([os.path.basename(sys.argv[0]) or "python", *sys.argv[1:]]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, JAX {jax.__version__} on {jax.devices()[0].device_kind}",
        "links": network.links,
        "edges": edges if network.edges <= MOST_EDGES else None,
        "rate": method.proven_rate(problem, network),
    }
