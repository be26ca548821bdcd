"""Networks: graphs with link weights, and their spectra."""

import os
import sys
from collections.abc import Mapping, Sequence, Set, Sized
from pathlib import Path
from typing import Any

from lessbits.errors import InputError, check_name, check_path, check_seed, shown
from lessbits.networks import graphs
from lessbits.networks.files import read_network, refuse_other_weights
from lessbits.networks.names import order_nodes
from lessbits.networks.network import Network
from lessbits.networks.weights import WEIGHTINGS, check_nodes

__all__ = ["NETWORK_NAMES", "WEIGHTINGS", "Network", "make_network"]

# How a spec is written, for messages and help; the part before the colon is the graph's name.
_FORMS = {
    "ring": "ring",
    "path": "path",
    "star": "star",
    "complete": "complete",
    "torus": "torus or torus:ROWSxCOLUMNS",
    "hypercube": "hypercube",
    "random-regular": "random-regular:DEGREE",
    "erdos-renyi": "erdos-renyi:P",
    "watts-strogatz": "watts-strogatz:K:P",
    "geometric": "geometric:RADIUS",
    "barbell": "barbell",
}
NETWORK_NAMES = tuple(_FORMS)

_FIXED = {
    "ring": graphs.ring,
    "path": graphs.path,
    "star": graphs.star,
    "complete": graphs.complete,
    "hypercube": graphs.hypercube,
    "barbell": graphs.barbell,
}


def make_network(
    spec: Any,
    nodes: int | None = None,
    weights: str = "metropolis",
    seed: int = 0,
    names: Sequence[object] | None = None,
) -> Network:
    """Make a network from a name, a file, a networkx graph or a matrix; a `Network` is returned as it is.

    Names: `ring`, `path`, `star` (node 0 is the hub), `complete`, `torus` or `torus:10x10`, `hypercube`,
    `random-regular:DEGREE` (4), `erdos-renyi:P` (2 ln n / n), `watts-strogatz:K:P` (4:0.1),
    `geometric:RADIUS` (√(2 ln n / n)), `barbell`.
    Files: an edge list (`i j` or `i j weight` a line), or a matrix of weights or Laplacian in `.npy`, `.csv`, `.mtx`.
    `weights` is `metropolis`, `unit`, `max-degree` or `given` (what the graph or file says; a matrix, and a file with
    weights, always keep their own). `nodes` may be left out where the spec says it; else the two must agree. `seed` is
    for the random graphs alone. `names` are the names of the sites, in the order of the problem's nodes
    (`samples.site_names`): a networkx graph must have the same names, in any order, and an edge list may use them.

    >>> make_network("torus:4x4")
    Network('torus:4x4', 16 nodes, 32 edges, degree at most 4, metropolis weights up to 0.2)
    >>> import numpy as np
    >>> make_network(np.array([[0, 0.5], [0.5, 0]])).lambda_max
    1.0
    """
    network = network_from(spec, nodes, weights, seed, names)
    if names is not None and network.nodes != len(names):
        raise InputError(
            f"the network {network.name!r} has {network.nodes} nodes, but there are {len(names)} sites, and each is a "
            f"node ({', '.join(map(str, names[:3]))}{', …' * (len(names) > 3)}): make the two agree"
        )
    if nodes is not None and network.nodes != nodes:
        raise InputError(
            f"the network {network.name!r} has {network.nodes} nodes, but {nodes} were asked for: make the two agree, "
            "or leave out the number of nodes"
        )
    return network


def network_from(
    spec: Any,
    nodes: int | None = None,
    weights: str = "metropolis",
    seed: int = 0,
    names: Sequence[object] | None = None,
) -> Network:
    """Make a network as `make_network` does. Where the spec says how many nodes there are, `nodes` is not compared.

    For callers that know where their number of nodes comes from, and say so if the two do not agree.
    """
    check_name("weights", weights, WEIGHTINGS)
    seed = check_seed(seed)
    if nodes is not None:
        nodes = check_nodes(nodes)
    if names is not None:
        nodes = _check_names(names, nodes)
    if isinstance(spec, os.PathLike):
        network = read_network(check_path("the network", spec), weights, names)
    elif isinstance(spec, str):
        network = _from_text(spec, nodes, weights, seed, names)
    elif isinstance(spec, Network):
        network = spec
    elif _is_networkx(spec):
        network = Network.from_networkx(spec if names is None else order_nodes(spec, names), weights)
    elif _changes(spec):
        raise InputError(
            f"the network is a {type(spec).__name__}, as if it changed in time: give the network of "
            "all links, and say which of them speak when with lessbits.Faults(graphs=[…])"
        )
    elif hasattr(spec, "shape"):
        refuse_other_weights("the matrix", weights)
        network = Network.from_matrix(spec)
    else:
        raise InputError(
            f"a network cannot be made from a {type(spec).__name__}: give a name, a file, a networkx graph or a matrix"
        )
    return network


def _check_names(names: Any, nodes: int | None) -> int:
    """Return the number of nodes; raise unless these are the names of as many."""
    unordered = isinstance(names, str | bytes | Set | Mapping)
    if unordered or not isinstance(names, Sized) or getattr(names, "shape", (1,)) == ():
        raise InputError(f"names is {shown(names)}, but it must be a list with the name of each node")
    if len({str(name) for name in names}) < len(names):  # type: ignore[attr-defined]
        raise InputError(f"names is {shown(names)}, but two nodes must not have the same name: change one")
    if nodes is not None and len(names) != nodes:
        raise InputError(f"there are {len(names)} names, but {nodes} nodes: name each node")
    return check_nodes(len(names))


def _from_text(spec: str, nodes: int | None, weights: str, seed: int, names: Sequence[object] | None = None) -> Network:
    """Read a spec as NAME:PARAMETER:..., or else as the path of a file."""
    name, *parameters = spec.split(":")
    if name not in NETWORK_NAMES:
        path = Path(spec)
        if os.path.isfile(path):  # which is False for names that no file can have; pathlib raises
            return read_network(path, weights, names)
        if os.sep in spec or "/" in spec or Path(name).suffix:
            raise InputError(
                f"there is no network file {shown(spec)}: check the path, or name one of {', '.join(_FORMS)}"
            )
        check_name("network", name, NETWORK_NAMES)
    graph = _build(name, parameters, nodes, seed)
    return Network.from_edges(graph.nodes, graph.edges, weights, name=graph.name, unit_spectrum=graph.unit_spectrum)


def _build(name: str, parameters: list[str], nodes: int | None, seed: int) -> graphs.Graph:
    """Call the generator of a named graph with its parameters."""
    allowed = {"torus": 1, "random-regular": 1, "erdos-renyi": 1, "watts-strogatz": 2, "geometric": 1}.get(name, 0)
    if len(parameters) > allowed:
        given = ":".join([name, *parameters])
        raise InputError(f"network {given!r} has {len(parameters)} parameters, but it is written {_FORMS[name]}")
    if nodes is None and not (name == "torus" and parameters):
        raise InputError(f"network {name!r} does not say how many nodes it has: give the number of nodes, at least 2")
    if name == "torus":
        return graphs.torus(None, *parameters) if parameters else graphs.torus(nodes)
    assert nodes is not None
    if name == "random-regular":
        return graphs.random_regular(nodes, seed, *parameters)
    if name == "erdos-renyi":
        return graphs.erdos_renyi(nodes, seed, *parameters)
    if name == "watts-strogatz":
        return graphs.watts_strogatz(nodes, seed, *parameters)
    if name == "geometric":
        return graphs.geometric(nodes, seed, *parameters)
    return _FIXED[name](nodes)


def _changes(spec: object) -> bool:
    """Whether this stands for several networks, one after the other."""
    if isinstance(spec, list | tuple):
        return any(isinstance(one, str | Network) or hasattr(one, "shape") or _is_networkx(one) for one in spec)
    return callable(spec) or hasattr(spec, "__next__")


def _is_networkx(spec: object) -> bool:
    """Whether this is a networkx graph, without importing networkx: a caller who has one has imported it."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(spec, networkx.Graph)
