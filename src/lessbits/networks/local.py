"""The part of a network that one process holds, as arrays that methods use inside the compiled loop."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.networks.network import Network
from lessbits.pytrees import pytree
from lessbits.summation import Sum, add_pairwise, add_slices, separate

WIDEST_UNROLLED = 16  # links a node up to which each link's gather is written out, and fused by XLA into one loop


@pytree
class DegreeGroup:
    """Nodes with about equally many links: more than half of `width`, a power of two, and at most `width`."""

    links: jax.Array  # int32 [width, nodes of the group], local link numbers; where a node has fewer, any link
    weight: jax.Array  # [width, nodes of the group], zero where a node has fewer

    def weighted(self, slot: int | slice, term: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """Return w_l·term(l) for one slot or several, rounded before it is added to anything."""
        return separate(self.weight[slot].reshape(-1)[:, None] * term(self.links[slot].reshape(-1)))

    def unweighted(self, slot: int | slice, term: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """Return term(l) for one slot or several, zero where a node has fewer links."""
        return jnp.where(self.weight[slot].reshape(-1)[:, None] > 0, term(self.links[slot].reshape(-1)), 0)


@pytree
class LocalNetwork:
    """Nodes held here and their outgoing links; rows are local numbers, `nodes` and `links` hold the global ones."""

    nodes: jax.Array  # int32 [nodes here]
    links: jax.Array  # int32 [links here], in order of their owner
    owner: jax.Array  # int32 [links here], row of the node that sends
    neighbor: jax.Array  # int32 [links here], global number of the node that receives
    weight: jax.Array  # [links here]
    groups: tuple[DegreeGroup, ...]
    order: jax.Array | None  # where each node's sum stands after the groups; None: in order already

    @classmethod
    def of(cls, network: Network, nodes: np.ndarray | None = None) -> "LocalNetwork":
        """Take the given nodes (all by default) of a network."""
        held = np.arange(network.nodes) if nodes is None else np.asarray(nodes)
        row = np.full(network.nodes, -1)
        row[held] = np.arange(len(held))
        links = np.flatnonzero(row[network.owner] >= 0)
        links = links[np.argsort(row[network.owner[links]], kind="stable")]
        owner = row[network.owner[links]]
        groups, order = _degree_groups(owner, network.weight[links], len(held))
        return cls(
            nodes=jnp.asarray(held, jnp.int32),
            links=jnp.asarray(links, jnp.int32),
            owner=jnp.asarray(owner, jnp.int32),
            neighbor=jnp.asarray(network.neighbor[links], jnp.int32),
            weight=jnp.asarray(network.weight[links], jnp.result_type(float)),
            groups=groups,
            order=order,
        )

    def weighted_sum(self, term: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """Return Σ_l w_l·term(l) over each node's links l, [nodes here, dim].

        `term` maps link numbers to rows. The order of addition depends on a node's number of links alone. No array of
        links × dim is made where nodes have few links, and none is padded to more than twice its size otherwise.
        """
        return self._sum(term, DegreeGroup.weighted, lambda products: products)

    def sum(self, term: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """Return Σ_l term(l) over each node's links l, without weights."""
        return self._sum(term, DegreeGroup.unweighted, lambda terms: terms)

    def exact_weighted_sum(self, term: Callable[[jax.Array], jax.Array]) -> Sum:
        """Return the same with what rounding takes from the sum.

        If terms of a link and its reverse are opposite, then so are their products with the weight, and the sums of all
        nodes add up to zero in twice the digits.
        """
        return self._sum(term, DegreeGroup.weighted, Sum.of)

    def _sum(
        self,
        term: Callable[[jax.Array], jax.Array],
        of: Callable[[DegreeGroup, int | slice, Callable[[jax.Array], jax.Array]], jax.Array],
        start: Callable[[jax.Array], Any],
    ) -> Any:
        sums = []
        for group in self.groups:
            width, members = group.links.shape
            if width <= WIDEST_UNROLLED:
                sums.append(add_pairwise([start(of(group, slot, term)) for slot in range(width)]))
            else:
                stacked = of(group, slice(None), term)
                sums.append(add_slices(start(stacked.reshape(width, members, -1))))
        if self.order is None:
            return sums[0]
        return jax.tree.map(lambda *parts: jnp.concatenate(parts)[self.order], *sums)

    def disagreement(self, vectors: Any) -> jax.Array:
        """Return Σ_j w_ij (v_i - v_j) for vectors of the whole network, [all nodes, dim]."""
        vectors = jnp.asarray(vectors)
        here = vectors[self.nodes]
        return self.weighted_sum(lambda links: here[self.owner[links]] - vectors[self.neighbor[links]])


def _degree_groups(
    owner: np.ndarray, weight: np.ndarray, nodes: int
) -> tuple[tuple[DegreeGroup, ...], jax.Array | None]:
    degree = np.bincount(owner, minlength=nodes)
    first_link = np.concatenate([[0], np.cumsum(degree)[:-1]])
    width = 2 ** np.ceil(np.log2(np.maximum(degree, 1))).astype(int)
    groups, members = [], []
    for size in np.unique(width):
        inside = np.flatnonzero(width == size)
        slots = np.arange(size)[:, None]
        present = slots < degree[inside]
        links = np.where(present, first_link[inside] + slots, first_link[inside])
        weights = np.where(present, weight[links], 0.0)
        groups.append(DegreeGroup(jnp.asarray(links, jnp.int32), jnp.asarray(weights, jnp.result_type(float))))
        members.append(inside)
    if len(groups) == 1:
        return tuple(groups), None
    return tuple(groups), jnp.asarray(np.argsort(np.concatenate(members)), jnp.int32)
