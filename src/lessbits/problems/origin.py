"""What the nodes and the labels of a problem were called, kept as long as the problem is.

Problems are frozen, and names are no part of what is compiled. So the names stand beside them, as solutions do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lessbits.errors import InputError

if TYPE_CHECKING:
    from lessbits.networks import Network
    from lessbits.problems.base import Problem

NO_METHOD = object()


class Origin(NamedTuple):
    """Names in the data that a problem was made of."""

    labels: np.ndarray | None = None  # the label of each class, sorted; of two, the first is -1
    classes: tuple[str, ...] | None = None  # what the labels 0, 1, … are called, if they were text
    columns: tuple[str, ...] | None = None  # the names of the features
    sites: tuple[str, ...] = ()  # the name of each node


_origins: WeakKeyDictionary[Problem, Origin] = WeakKeyDictionary()


def origin_of(problem: Problem) -> Origin:
    """Return the names in the data that the problem was made of; an empty `Origin` if they are not known."""
    return _origins.get(problem, Origin())


def remember_origin(problem: Problem, origin: Origin) -> None:
    """Keep the names for this problem."""
    _origins[problem] = origin


def check_kinds(problem: Any, network: Any, method: Any = NO_METHOD) -> None:
    """Raise InputError if these are no Problem, no Network or no Method: two arguments may have been swapped."""
    from lessbits.networks import Network
    from lessbits.problems.base import Problem

    if not isinstance(problem, Problem):
        raise InputError(
            f"the problem is a {type(problem).__name__}, but it must be a Problem: make one with lessbits.make_problem"
        )
    if not isinstance(network, Network):
        raise InputError(
            f"the network is a {type(network).__name__}, but it must be a Network: make one with lessbits.make_network"
        )
    if method is not NO_METHOD and (isinstance(method, type) or not hasattr(method, "step_size_names")):
        raise InputError(
            f"the method is a {type(method).__name__}, but it must be a Method: make one with lessbits.make_method"
        )


def check_sites(problem: Problem, network: Network) -> None:
    """Raise InputError if problem and network have other nodes: another number, other names, or another order."""
    if problem.nodes != network.nodes:
        raise InputError(f"the problem has {problem.nodes} nodes and the network {network.nodes}: they must agree")
    sites, names = origin_of(problem).sites, network.names
    if not sites or names is None or names == sites:
        return
    if sorted(names) == sorted(sites):
        raise InputError(
            "the nodes of the network are the sites of the problem, but in another order: make the network with "
            "make_network(graph, names=samples.site_names)"
        )
    unknown = sorted(set(names) - set(sites)) or sorted(set(sites) - set(names))
    raise InputError(
        f"the network's nodes are not the sites of the problem (such as {unknown[0]!r}): give both the same names"
    )
