"""Names of nodes: those of a graph must be those of the sites, in any order."""

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lessbits.errors import InputError

if TYPE_CHECKING:
    import networkx


def order_nodes(graph: "networkx.Graph", names: Sequence[object]) -> "networkx.Graph":
    """Return the graph with its nodes in the order of `names`, which must be the names of its nodes.

    Names are compared as text, so that site 3 of a table is node "3" of a graph. They are never matched by position.

    Args:
        graph: A networkx graph.
        names: The names of the sites, in the order of the problem's nodes, such as `samples.site_names`.

    >>> import networkx
    >>> list(order_nodes(networkx.Graph([("Bern", "Basel"), ("Bern", "Chur")]), ["Basel", "Bern", "Chur"]))
    ['Basel', 'Bern', 'Chur']
    """
    nodes = {str(node): node for node in graph.nodes}
    sites = [str(name) for name in names]
    check_same_names(list(nodes), sites)
    ordered = graph.__class__()
    ordered.add_nodes_from((nodes[site], graph.nodes[nodes[site]]) for site in sites)
    ordered.add_edges_from(graph.edges(data=True))
    return ordered


def check_same_names(nodes: Sequence[str], sites: Sequence[str]) -> None:
    """Raise InputError if the names of nodes and sites differ, with the first that has no partner."""
    alone = [site for site in sites if site not in set(nodes)]
    extra = [node for node in nodes if node not in set(sites)]
    if not (alone or extra):
        return
    words = [f"site {alone[0]!r} is no node"] if alone else []
    if extra:
        words.append(f"node {extra[0]!r} is no site")
    more = len(alone) + len(extra) - len(words)
    if more:
        words.append(f"and {more} more")
    raise InputError(
        f"the names of the graph's nodes are not those of the sites ({', '.join(words)}): give both the same names, "
        "for example with networkx.relabel_nodes"
    )


def number_nodes(ids: Sequence[str], names: Sequence[object], source: str) -> dict[str, int]:
    """Return the number of each node in an edge list, whose nodes are names of sites.

    Args:
        ids: How the edge list calls the nodes.
        names: The names of the sites, in the order of the problem's nodes.
        source: The edge list, for messages.
    """
    number = {str(name): index for index, name in enumerate(names)}
    unknown = [node for node in ids if node not in number]
    if unknown:
        nearest = difflib.get_close_matches(unknown[0], number, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        raise InputError(
            f"{source} has a node {unknown[0]!r}, but no site has that name: {hint}use the names of the sites, such as "
            f"{next(iter(number))!r}"
        )
    missing = [name for name in number if name not in set(ids)]
    if missing:
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(f"{source} has no edge of the site {missing[0]!r}{more}: add one, for each site is a node")
    return number
