"""The part of a network that one process holds, as arrays that methods use inside the compiled loop."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.axes import Axis, PerLink, PerNode
from lessbits._internal.pytrees import on_cpu, put, pytree
from lessbits._internal.summation import Sum, add_pairwise, add_slices, separate
from lessbits.errors import check_held, check_kind
from lessbits.networks.network import Network

BLOCK = 8  # links per node whose gathers XLA fuses into one loop; more links take several rounds


class Slot(NamedTuple):
    """One link of each node of a group."""

    links: jax.Array  # local numbers
    nodes: jax.Array | None  # rows of the nodes that own them; None: all nodes, in order
    weight: jax.Array  # of the links; zero for padding, where `links` has an arbitrary link

    def own(self, rows: jax.Array) -> jax.Array:
        """Return the rows of the nodes that own the links; no lookup is needed if these are all rows."""
        return rows if self.nodes is None else rows[self.nodes]


Term = Callable[[Slot], jax.Array]


@pytree
class DegreeGroup:
    """Nodes with similar numbers of links: none has more than twice as many as another."""

    links: jax.Array  # int32 [blocks, places, nodes of the group], local numbers; an arbitrary link for padding
    weight: jax.Array  # [blocks, places, nodes of the group], zero for padding
    nodes: jax.Array | None  # int32 [nodes of the group], their rows; None: all nodes

    def slots(self, block: int | jax.Array) -> list[Slot]:
        """Return a slot for each place of a block."""
        links, weight = self.links[block], self.weight[block]
        return [Slot(links[place], self.nodes, weight[place]) for place in range(links.shape[0])]

    def all_slots(self) -> Slot:
        """Return one slot for all places of all blocks, concatenated."""
        nodes = jnp.arange(self.links.shape[-1]) if self.nodes is None else self.nodes
        places = self.links.shape[0] * self.links.shape[1]
        return Slot(self.links.reshape(-1), jnp.tile(nodes, places), self.weight.reshape(-1))

    def by_place(self, rows: jax.Array) -> jax.Array:
        """Split rows of all slots by place."""
        return rows.reshape(-1, self.links.shape[-1], *rows.shape[1:])


def _unweighted(slot: Slot, term: Term) -> jax.Array:
    """Return term(l), zero for padding."""
    return jnp.where(slot.weight[:, None] > 0, term(slot), 0)


@pytree
class LocalNetwork:
    """Nodes held here and their outgoing links; rows are local numbers, `nodes` and `links` hold the global ones."""

    nodes: PerNode  # int32 [nodes here]
    links: PerLink  # int32 [links here], in order of their owner
    owner: PerLink  # int32 [links here], row of the node that sends
    neighbor: PerLink  # int32 [links here], global number of the node that receives
    weight: PerLink  # [links here]
    groups: Annotated[tuple[DegreeGroup, ...], Axis.SHARED]
    order: Annotated[jax.Array | None, Axis.SHARED]  # position of each node's sum in those of the groups; None: as is
    up: Annotated[jax.Array | None, Axis.LINK] = None  # the links that speak in this iteration; None: all

    @classmethod
    def of(cls, network: Network, nodes: np.ndarray | None = None) -> "LocalNetwork":
        """Take the given nodes (all by default) of a network."""
        check_kind("the network", network, Network, "make one with lessbits.make_network")
        held = np.array(check_held(nodes, network.nodes, "nodes") or range(network.nodes))
        row = np.full(network.nodes, -1)
        row[held] = np.arange(len(held))
        links = np.flatnonzero(row[network.owner] >= 0)
        links = links[np.argsort(row[network.owner[links]], kind="stable")]
        owner = row[network.owner[links]]
        groups, order = _degree_groups(owner, network.weight[links], len(held))
        return cls(
            nodes=put(held, np.int32),
            links=put(links, np.int32),
            owner=put(owner, np.int32),
            neighbor=put(network.neighbor[links], np.int32),
            weight=put(network.weight[links], jnp.result_type(float)),
            groups=groups,
            order=order,
        )

    def weighted_sum(self, term: Term) -> jax.Array:
        """Return Σ_l w_l·term(l) over each node's links l that speak, [nodes here, dim].

        `term` maps a slot of links to rows. The order of addition depends on a node's number of links alone. No array
        of links × dim is made.
        """
        return self._sum(term, self._weighted, lambda products: products)

    def sum(self, term: Term) -> jax.Array:
        """Return Σ_l term(l) over each node's links l, silent ones too, without weights."""
        return self._sum(term, _unweighted, lambda terms: terms)

    def exact_weighted_sum(self, term: Term) -> Sum:
        """Return the weighted sum with its rounding error.

        If terms of a link and its reverse are opposite, then so are their products with the weight, and the sums of all
        nodes add up to zero with twice the digits.
        """
        return self._sum(term, self._weighted, Sum.of)

    def _weighted(self, slot: Slot, term: Term) -> jax.Array:
        """Return w_l·term(l), rounded before it is added; zero for links that are silent."""
        weight = slot.weight if self.up is None else jnp.where(self.up[slot.links], slot.weight, 0)
        return separate(weight[:, None] * term(slot))

    def _sum(self, term: Term, of: Callable[[Slot, Term], jax.Array], start: Callable[[jax.Array], Any]) -> Any:
        sums = []
        for group in self.groups:
            if group.links.shape[0] > 1 and not on_cpu():
                # On a GPU one gather and one sum. On a CPU this would store all terms.
                total = add_slices(jax.tree.map(group.by_place, start(of(group.all_slots(), term))))
                # The barrier keeps XLA from repeating the sum, term by term, in every operation that reads it.
                sums.append(lax.optimization_barrier(total))
                continue

            def block_sum(block: int | jax.Array, group: DegreeGroup = group) -> Any:
                return add_pairwise([start(of(slot, term)) for slot in group.slots(block)])

            def add_block(block: jax.Array, total: Any, block_sum: Callable[..., Any] = block_sum) -> Any:
                return total + block_sum(block)

            sums.append(lax.fori_loop(1, group.links.shape[0], add_block, block_sum(0)))
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
    """Group nodes by their number of links, rounded up to a power of two, so that there are few groups.

    The width of a group is the largest number of links of its nodes here. It may differ between processes, but sums do
    not: padding comes last and adds zeros.
    """
    degree = np.bincount(owner, minlength=nodes)
    first_link = np.concatenate([[0], np.cumsum(degree)[:-1]])
    kind = np.ceil(np.log2(np.maximum(degree, 1))).astype(int)
    groups, members = [], []
    for size in np.unique(kind):
        inside = np.flatnonzero(kind == size)
        most = max(1, int(degree[inside].max()))
        places, blocks = min(BLOCK, most), -(-most // BLOCK)
        slots = np.arange(blocks * places).reshape(blocks, places, 1)
        present = slots < degree[inside]
        links = np.where(present, first_link[inside] + slots, first_link[inside])
        weights = np.where(present, weight[links], 0.0)
        rows = None if len(inside) == nodes else put(inside, np.int32)
        groups.append(DegreeGroup(put(links, np.int32), put(weights, jnp.result_type(float)), rows))
        members.append(inside)
    if len(groups) == 1:
        return tuple(groups), None
    return tuple(groups), put(np.argsort(np.concatenate(members)), np.int32)
