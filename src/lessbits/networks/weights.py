"""From a list of edges to checked edges with weights: every mistake in a graph is found here, with a sentence."""

from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits._internal.memory import check_fits, free_memory
from lessbits.errors import InputError, check_name, is_whole, shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

WEIGHTINGS = ("metropolis", "unit", "max-degree", "given")

# A link takes 16 bytes and building it takes several times that, so that a complete graph of 100 000 nodes
# would need more than 100 GB: better said before the machine starts to swap.
MAXIMAL_LINKS = 100_000_000
MANY_LINKS = 1_000_000  # from here on, free memory is looked up
BYTES_PER_LINK = 60  # while a network is made
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-30, 1e30  # products of weights and vectors stay numbers, and so do quotients


def check_nodes(nodes: object) -> int:
    """Return `nodes` as an int if it is a whole number of at least two, else raise."""
    if not is_whole(nodes):
        raise InputError(f"the number of nodes is {shown(nodes)}, but it must be a whole number, at least 2")
    count = int(nodes)  # type: ignore[call-overload]
    if count < 2:
        raise InputError(
            f"the number of nodes is {shown(count)}, but it must be at least 2: a single node has nobody to talk to"
        )
    check_size(f"a network of {shown(count)} nodes", 2 * (count - 1))  # a connected one has at least as many
    return count


def check_size(name: str, links: float) -> None:
    """Raise if a graph would have more links than fit in the memory of an ordinary machine."""
    if links > MAXIMAL_LINKS:
        raise InputError(
            f"{name} would have {float(min(links, 1e300)):.3g} links, but at most {MAXIMAL_LINKS:.0e} are allowed: "
            "take fewer nodes or a sparser network"
        )
    if links > MANY_LINKS:
        check_fits(links * BYTES_PER_LINK, free_memory(), name, "take fewer nodes or a sparser network")


def count_components(nodes: int, edges: np.ndarray) -> int:
    """Count the connected components of a graph, isolated nodes included."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(edges), dtype=np.int8)
    adjacency = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    return int(connected_components(adjacency, directed=False, return_labels=False))


def check_enough(nodes: int, edges: int, name: str) -> None:
    """Raise if a large graph has too few edges to be connected: one line of a file may name node 2 000 000 000."""
    if nodes > MANY_LINKS and edges < nodes - 1:
        raise InputError(
            f"the network {name!r} of {nodes} nodes is disconnected: it has {edges} edges, but every node must be "
            f"reachable from every other, which takes {nodes - 1}; number the nodes from 0 on"
        )


def check_connected(nodes: int, edges: np.ndarray, name: str) -> None:
    """Raise if some node cannot be reached from another one."""
    components = count_components(nodes, edges)
    if components > 1:
        raise InputError(
            f"the network {name!r} of {nodes} nodes is disconnected: it falls into {components} components, "
            "but every node must be reachable from every other; add edges that join them"
        )


def as_edges(nodes: int, edges: "ArrayLike") -> np.ndarray:
    """Return the edges as an int64 array of shape [edges, 2] whose node numbers exist."""
    try:
        pairs = np.asarray(edges)
    except ValueError:
        raise InputError("the edges are ragged, but each must be a pair of node numbers (i, j)") from None
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"the edges have shape {pairs.shape}, but they must be pairs (i, j): shape (edges, 2)")
    if not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(f"the edges hold {pairs.dtype} values, but node numbers must be integers from 0")
    pairs = pairs.astype(np.int64)
    outside = np.flatnonzero(((pairs < 0) | (pairs >= nodes)).any(axis=1))
    if outside.size:
        raise InputError(
            f"edge {_show(pairs[outside[0]])} names a node that does not exist: nodes go from 0 to {nodes - 1}"
        )
    return pairs


def merge_edges(nodes: int, edges: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return each undirected edge once, as (low, high) in sorted order, with its weight.

    An edge may be given in both directions, with one weight. A loop, or the same direction twice, is a mistake.
    """
    first, second = edges[:, 0], edges[:, 1]
    loops = np.flatnonzero(first == second)
    if loops.size:
        raise InputError(f"node {first[loops[0]]} has an edge to itself: a network has no self loops, remove it")
    low, high = np.minimum(first, second), np.maximum(first, second)
    key = low * nodes + high
    # Within one edge the directions are sorted too, so that any repetition of a direction is adjacent.
    order = np.lexsort((first, key))
    same_edge = key[order][1:] == key[order][:-1]
    repeated = np.flatnonzero(same_edge & (first[order][1:] == first[order][:-1]))
    if repeated.size:
        raise InputError(f"edge {_show(edges[order[repeated[0]]])} is given twice: give each edge once")
    if weights is not None:
        difference = np.flatnonzero(same_edge & (weights[order][1:] != weights[order][:-1]))
        if difference.size:
            here, back = order[difference[0]], order[difference[0] + 1]
            raise InputError(
                f"the weights are asymmetric: edge {_show(edges[here])} has {weights[here]:g} and "
                f"{_show(edges[back])} has {weights[back]:g}; give both directions the same weight"
            )
    keep = order[np.concatenate(([True], ~same_edge))] if len(order) else order
    merged = np.stack((low[keep], high[keep]), axis=1)
    return merged, None if weights is None else weights[keep]


def given_weights(edges: np.ndarray, weights: "ArrayLike") -> np.ndarray:
    """Return the user's weights as float64, one for each edge, all finite and above zero."""
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("the weights are not numbers: give one finite number above 0 for each edge") from None
    if values.shape != (len(edges),):
        raise InputError(f"the weights have shape {values.shape}, but {len(edges)} edges need one weight each")
    bad = np.flatnonzero(~((values >= SMALLEST_WEIGHT) & (values <= LARGEST_WEIGHT)))
    if bad.size:
        raise InputError(
            f"the weight of edge {_show(edges[bad[0]])} is {values[bad[0]]:g}, "
            f"but weights must be finite and above 0, from {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}; leave out an "
            "edge that is not there"
        )
    return values


def edge_weights(weighting: str, nodes: int, edges: np.ndarray) -> np.ndarray:
    """Return w_ij for each (merged) edge.

    `metropolis` is 1/(1 + max(deg_i, deg_j)), `max-degree` 1/(1 + the largest degree of all), `unit` is 1.
    """
    check_name("weights", weighting, WEIGHTINGS)
    if weighting == "given":
        raise InputError("weights='given' needs weights: this network has none, choose metropolis, unit or max-degree")
    if weighting == "unit":
        return np.ones(len(edges))
    degree = np.bincount(edges.ravel(), minlength=nodes)
    if weighting == "max-degree":
        return np.full(len(edges), 1.0 / (1 + degree.max()))
    return 1.0 / (1 + np.maximum(degree[edges[:, 0]], degree[edges[:, 1]]))


def edges_of_matrix(matrix: Any) -> tuple[int, np.ndarray, np.ndarray]:
    """Return nodes, edges and weights of a symmetric matrix of weights (zero diagonal) or of a Laplacian."""
    from scipy.sparse import triu

    square = _as_square(matrix)
    scale = float(abs(square).max()) if square.nnz else 0.0
    # Sums that make a Laplacian differ in their last digits between the two triangles: that much is no asymmetry.
    difference = abs(square - square.T).tocoo()
    if difference.nnz and difference.data.max() > 1e-12 * scale:
        row, column = (int(index[difference.data.argmax()]) for index in difference.coords)
        raise InputError(
            f"the matrix is asymmetric: entry ({row}, {column}) is {square[row, column]:g} and entry "
            f"({column}, {row}) is {square[column, row]:g}; weights must be the same in both directions"
        )
    upper = triu((square + square.T) / 2, k=1).tocoo()
    diagonal = square.diagonal()
    if (upper.data > 0).any() and (upper.data < 0).any():
        worst = upper.data.argmin()
        raise InputError(
            f"the matrix mixes signs: entry ({upper.coords[0][worst]}, {upper.coords[1][worst]}) is "
            f"{upper.data[worst]:g} while others are above 0; weights must be above 0 (in a Laplacian all are below)"
        )
    if (upper.data < 0).any():
        sums = np.asarray(square.sum(axis=1))
        worst = int(abs(sums).argmax())
        if abs(sums[worst]) > 1e-9 * scale:
            raise InputError(
                f"the matrix has negative entries, as a Laplacian has, but its row {worst} sums to {sums[worst]:g} "
                "instead of 0: give a Laplacian, or weights above 0"
            )
    elif diagonal.any():
        raise InputError(
            f"node {diagonal.nonzero()[0][0]} has a weight to itself: a matrix of weights has a zero diagonal "
            "(for a mixing matrix M give the Laplacian I - M)"
        )
    return square.shape[0], np.stack(upper.coords, axis=1).astype(np.int64), abs(upper.data)


def _as_square(matrix: Any) -> Any:
    """Return a dense or sparse matrix as a float64 `csr_array`, square and finite."""
    from scipy.sparse import csr_array, issparse

    try:
        entries = matrix if issparse(matrix) or isinstance(matrix, np.ma.MaskedArray) else np.asarray(matrix)
    except ValueError:
        raise InputError("the matrix is ragged, but a weight matrix has as many columns as rows") from None
    if entries.ndim != 2 or entries.shape[0] != entries.shape[1]:
        raise InputError(f"the matrix has shape {entries.shape}, but a weight matrix is square: one row for each node")
    if entries.dtype.kind not in "buif":
        raise InputError(f"the matrix holds {entries.dtype} entries, but weights must be real numbers")
    if np.ma.is_masked(entries):
        raise InputError("the matrix has masked entries: fill them in, with 0 where there is no link")
    square = csr_array(entries, dtype=np.float64)
    square.sum_duplicates()
    square.eliminate_zeros()
    bad = square.data[~(np.abs(square.data) <= LARGEST_WEIGHT)]
    if bad.size:
        raise InputError(
            f"the matrix has an entry {bad[0]:g}, but weights must be finite numbers up to {LARGEST_WEIGHT:g}"
        )
    return square


def _show(edge: np.ndarray) -> str:
    """Write an edge for a message."""
    return f"({edge[0]}, {edge[1]})"
