"""A network: a connected graph with link weights, and what the theory needs to know of its Laplacian."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lessbits._internal.wording import counted
from lessbits.errors import InputError, shown
from lessbits.networks.spectrum import laplacian_spectrum
from lessbits.networks.weights import (
    as_edges,
    check_connected,
    check_enough,
    check_nodes,
    check_size,
    edge_weights,
    edges_of_matrix,
    given_weights,
    merge_edges,
)

if TYPE_CHECKING:
    import networkx
    from numpy.typing import ArrayLike
    from scipy.sparse import csr_array

LOSSES = ("loss", "packet_loss", "drop", "drop_probability", "failure_probability")  # attributes of edges
PSEUDO_INVERSE_NODES = 5000  # beyond, a dense inverse takes more than 200 MB and minutes


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A connected undirected graph with positive link weights; its Laplacian is the paper's W.

    Every edge is two links, one for each direction, sorted by (owner, neighbor): `owner` sends on the link, to
    `neighbor`, with weight w_ij = w_ji > 0. Make one with `make_network` or a `from_` method: these check.

    >>> triangle = Network.from_edges(3, [(0, 1), (1, 2), (0, 2)], weights="unit")
    >>> print(f"{triangle.lambda_min:.3g} {triangle.lambda_max:.3g}")
    3 3
    """

    name: str
    nodes: int
    owner: np.ndarray
    neighbor: np.ndarray
    weight: np.ndarray
    weighting: str
    unit_spectrum: tuple[float, float] | None = field(default=None)
    """(λ_min⁺, λ_max) of the same graph with unit weights, where a closed form gives them."""
    names: tuple[str, ...] | None = field(default=None)
    """The name of each node, if the network was made from a graph whose nodes have names."""

    @classmethod
    def from_edges(
        cls,
        nodes: int,
        edges: "ArrayLike",
        weights: "str | ArrayLike" = "metropolis",
        *,
        name: str = "edges",
        unit_spectrum: tuple[float, float] | None = None,
    ) -> Self:
        """Make a network from pairs (i, j); `weights` is a rule's name or one weight for each pair."""
        nodes = check_nodes(nodes)
        pairs = as_edges(nodes, edges)
        check_size(f"the network {name!r}", 2 * len(pairs))
        check_enough(nodes, len(pairs), name)
        if isinstance(weights, str):
            pairs, _ = merge_edges(nodes, pairs, None)
            weighting, values = weights, edge_weights(weights, nodes, pairs)
        else:
            weighting = "given"
            pairs, merged = merge_edges(nodes, pairs, given_weights(pairs, weights))
            assert merged is not None
            values = merged
        if unit_spectrum is None:  # graphs with a closed form are connected
            check_connected(nodes, pairs, name)
        owner, neighbor = np.concatenate((pairs, pairs[:, ::-1])).T
        order = np.argsort(owner * nodes + neighbor)
        arrays = (owner[order].astype(np.int32), neighbor[order].astype(np.int32), np.tile(values, 2)[order])
        for array in arrays:
            array.setflags(write=False)
        return cls(name, nodes, *arrays, weighting, unit_spectrum)

    @classmethod
    def from_networkx(cls, graph: "networkx.Graph", weights: str = "metropolis", *, name: str = "networkx") -> Self:
        """Make a network from a networkx graph; its nodes are numbered in the graph's own order.

        `weights="given"` takes each edge's attribute `weight`.
        """
        if not hasattr(graph, "is_directed"):
            raise InputError(f"the graph is {shown(graph)}, but it must be a networkx graph: see lessbits.make_network")
        if graph.is_directed():
            raise InputError("the networkx graph is directed, but links go both ways: call graph.to_undirected() first")
        lossy = [(*edge[:2], name) for edge in graph.edges(data=True) for name in LOSSES if edge[2].get(name)]
        if lossy:
            raise InputError(
                f"edge {lossy[0][:2]} has the attribute {lossy[0][2]!r}, but a network does not say what goes "
                "wrong on its links: leave the attribute out, and give the run lessbits.Faults"
            )
        number = {node: index for index, node in enumerate(graph.nodes)}
        names = None if list(number) == list(range(len(number))) else tuple(str(node) for node in number)
        edges = [(number[first], number[second]) for first, second in graph.edges()]
        if weights != "given":
            return replace(cls.from_edges(len(number), edges, weights, name=name), names=names)
        values = [attributes.get("weight") for _, _, attributes in graph.edges(data=True)]
        if None in values:
            missing = edges[values.index(None)]
            raise InputError(f"weights='given', but edge {missing} has no attribute 'weight': set one on every edge")
        return replace(cls.from_edges(len(number), edges, values, name=name), names=names)

    @classmethod
    def from_matrix(cls, matrix: Any, *, name: str = "matrix") -> Self:
        """Make a network from a matrix of weights w_ij (zero diagonal), or from a Laplacian; dense or scipy sparse."""
        nodes, edges, weights = edges_of_matrix(matrix)
        return cls.from_edges(nodes, edges, weights, name=name)

    def with_weights(self, weights: "str | ArrayLike") -> Self:
        """Return the same graph with other weights: a rule's name, or one for each edge i < j in sorted order."""
        once = self.owner < self.neighbor
        edges = np.stack((self.owner[once], self.neighbor[once]), axis=1)
        other = type(self).from_edges(self.nodes, edges, weights, name=self.name, unit_spectrum=self.unit_spectrum)
        return replace(other, names=self.names)

    # ------------------------------------------------------------------ the graph

    @property
    def links(self) -> int:
        """The number of directed links, two for each edge."""
        return len(self.owner)

    @property
    def edges(self) -> int:
        """The number of undirected edges."""
        return self.links // 2

    @property
    def is_star(self) -> bool:
        """Whether one node, of at least three, is linked to all others, and these to nobody else."""
        return self.nodes >= 3 and self.edges == self.nodes - 1 == self.maximal_degree

    @cached_property
    def reverse(self) -> np.ndarray:
        """For each link i→j the index of the link j→i, int32 [links]."""
        # Links are sorted by (owner, neighbor). Sorted by (neighbor, owner) instead, the k-th link is the reverse of
        # link k; a stable sort by neighbor alone does that.
        return np.argsort(self.neighbor, kind="stable").astype(np.int32)

    @cached_property
    def degree(self) -> np.ndarray:
        """The number of neighbours of each node, int [nodes]."""
        return np.bincount(self.owner, minlength=self.nodes)

    @property
    def maximal_degree(self) -> int:
        """The largest number of neighbours of any node."""
        return int(self.degree.max())

    # ------------------------------------------------------------------ its Laplacian

    @cached_property
    def weighted_degree(self) -> np.ndarray:
        """The sum of the weights of each node's links, float64 [nodes]: the diagonal of the Laplacian."""
        return np.bincount(self.owner, weights=self.weight, minlength=self.nodes)

    @cached_property
    def max_weight(self) -> float:
        """The largest link weight, max w_ij."""
        return float(self.weight.max())

    @cached_property
    def _spectrum(self) -> tuple[float, float]:
        """Both eigenvalues at once, because computing one does most of the work for the other."""
        equal = self.max_weight - float(self.weight.min()) <= 1e-15 * self.max_weight
        if self.unit_spectrum is not None and equal:
            smallest, largest = self.unit_spectrum
            return smallest * self.max_weight, largest * self.max_weight
        return laplacian_spectrum(self.laplacian())

    @property
    def lambda_min(self) -> float:
        """The smallest non-zero eigenvalue of the Laplacian, λ_min⁺(W)."""
        return self._spectrum[0]

    @property
    def lambda_max(self) -> float:
        """The largest eigenvalue of the Laplacian, λ_max(W)."""
        return self._spectrum[1]

    @property
    def rho(self) -> float:
        """The condition number of the network, ρ = λ_max / λ_min⁺."""
        return self.lambda_max / self.lambda_min

    @property
    def rho_inf(self) -> float:
        """The largest normalized weight, ρ_∞ = max w_ij / λ_min⁺; never above ρ."""
        return self.max_weight / self.lambda_min

    def laplacian(self) -> "csr_array":
        """Return W: the weighted degrees on the diagonal, −w_ij for each link, float64."""
        from scipy.sparse import csr_array, diags_array

        row_starts = np.concatenate(([0], np.cumsum(self.degree)))
        weights = csr_array((self.weight, self.neighbor, row_starts), shape=(self.nodes, self.nodes))
        return csr_array(diags_array(self.weighted_degree) - weights)

    def pseudo_inverse(self) -> np.ndarray:
        """Return W†, dense; for networks of at most 5000 nodes."""
        if self.nodes > PSEUDO_INVERSE_NODES:
            raise InputError(
                f"the dense pseudo-inverse of a network of {self.nodes} nodes does not fit: at most "
                f"{PSEUDO_INVERSE_NODES} are allowed, solve with laplacian() instead"
            )
        # With c = the average diagonal, W + c·11ᵀ/n is regular, has W's eigenvectors, and c where W has the zero.
        shift = float(self.weighted_degree.mean())
        inverse = np.linalg.inv(self.laplacian().toarray() + shift / self.nodes)
        return (inverse + inverse.T) / 2 - 1 / (shift * self.nodes)

    @cached_property
    def leverage(self) -> np.ndarray:
        """The weight of each link times the resistance between its ends, at most 1, float64 [links].

        The weights are conductances. All edges of a tree have 1, and the edges of any network add up to n - 1.
        """
        inverse = self.pseudo_inverse()
        own = np.diag(inverse)
        return self.weight * (own[self.owner] + own[self.neighbor] - 2 * inverse[self.owner, self.neighbor])

    def __repr__(self) -> str:
        """One line: name, size, weights."""
        return f"Network({self.name!r}, {self.in_words()})"

    def describe(self) -> str:
        """Return the name, the size and the weights, for reports."""
        return f"{self.name}, {self.in_words()}"

    def in_words(self) -> str:
        """Return size and weights."""
        return (
            f"{self.nodes} nodes, {counted(self.edges, 'edge')}, degree at most {self.maximal_degree}, "
            f"{self.weighting} weights up to {self.max_weight:.6g}"
        )
