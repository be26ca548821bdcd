"""The part of a network that one process holds, as arrays that methods use inside the compiled loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.networks.network import Network
from lessbits.pytrees import pytree
from lessbits.summation import Sum, add_pairwise, add_slices, separate

WIDEST_UNROLLED = 16  # links a node up to which each link's gather is written out, and fused by XLA into one loop


class Slot(NamedTuple):
    """Some links, at most one of each node, or several of each node in turn."""

    links: jax.Array  # local numbers
    nodes: jax.Array | None  # rows of the nodes that own them; None: one link of every node, in order
    weight: jax.Array  # of the links, zero where a node has fewer and any link stands in

    def own(self, rows: jax.Array) -> jax.Array:
        """Return the rows of the nodes that own the links, without looking them up where these are all rows."""
        return rows if self.nodes is None else rows[self.nodes]


Term = Callable[[Slot], jax.Array]


@pytree
class DegreeGroup:
    """Nodes with about equally many links: more than half of `width`, a power of two, and at most `width`."""

    links: jax.Array  # int32 [width, nodes of the group], local link numbers; where a node has fewer, any link
    weight: jax.Array  # [width, nodes of the group], zero where a node has fewer
    nodes: jax.Array | None  # int32 [nodes of the group], their rows; None: all nodes

    def slots(self) -> list[Slot]:
        """Return one for each place in the width, or, of wide groups, one with all links."""
        width, members = self.links.shape
        if width <= WIDEST_UNROLLED:
            return [Slot(self.links[place], self.nodes, self.weight[place]) for place in range(width)]
        nodes = jnp.arange(members, dtype=jnp.int32) if self.nodes is None else self.nodes
        return [Slot(self.links.reshape(-1), jnp.tile(nodes, width), self.weight.reshape(-1))]


def _weighted(slot: Slot, term: Term) -> jax.Array:
    """Return w_l·term(l), rounded before it is added to anything."""
    return separate(slot.weight[:, None] * term(slot))


def _unweighted(slot: Slot, term: Term) -> jax.Array:
    """Return term(l), zero where a node has fewer links."""
    return jnp.where(slot.weight[:, None] > 0, term(slot), 0)


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

    def weighted_sum(self, term: Term) -> jax.Array:
        """Return Σ_l w_l·term(l) over each node's links l, [nodes here, dim].

        `term` maps a slot of links to rows. The order of addition depends on a node's number of links alone. No array of
        links × dim is made where nodes have few links, and none is padded to more than twice its size otherwise.
        """
        return self._sum(term, _weighted, lambda products: products)

    def sum(self, term: Term) -> jax.Array:
        """Return Σ_l term(l) over each node's links l, without weights."""
        return self._sum(term, _unweighted, lambda terms: terms)

    def exact_weighted_sum(self, term: Term) -> Sum:
        """Return the same with what rounding takes from the sum.

        If terms of a link and its reverse are opposite, then so are their products with the weight, and the sums of all
        nodes add up to zero in twice the digits.
        """
        return self._sum(term, _weighted, Sum.of)

    def _sum(
        self, term: Term, of: Callable[[Slot, Term], jax.Array], start: Callable[[jax.Array], Any]
    ) -> Any:
        sums = []
        for group in self.groups:
            terms = [of(slot, term) for slot in group.slots()]
            width, members = group.links.shape
            if len(terms) == width:
                sums.append(add_pairwise([start(each) for each in terms]))
            else:
                sums.append(add_slices(start(terms[0].reshape(width, members, -1))))
        if self.order is None:
            return sums[0]
        return jax.tree.map(lambda *parts: jnp.concatenate(parts)[self.order], *sums)

    def disagreement(self, vectors: Any) -> jax.Array:
        """Return Σ_j w_ij (v_i - v_j) for vectors of the whole network, [all nodes, dim]."""
        vectors = jnp.asarray(vectors)
        here = vectors[self.nodes]
        return self.weighted_sum(lambda slot: slot.own(here) - vectors[self.neighbor[slot.links]])


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
        rows = None if len(inside) == nodes else jnp.asarray(inside, jnp.int32)
        groups.append(DegreeGroup(jnp.asarray(links, jnp.int32), jnp.asarray(weights, jnp.result_type(float)), rows))
        members.append(inside)
    if len(groups) == 1:
        return tuple(groups), None
    return tuple(groups), jnp.asarray(np.argsort(np.concatenate(members)), jnp.int32)
