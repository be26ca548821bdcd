"""Sums up a spanning tree, and broadcasts down it: the method with the fewest bits that we know.

    all nodes       g_i = ∇f_i(x) - μx                                 at a point x that all nodes share
    up the tree     s_i = g_i + Σ over the children c of m_c
                    m_i ← m_i + C(s_i - m_i)                           the parent's copy of s_i, in compressed steps
    the root        ĝ = s_root/n + μx                                  approximate gradient of the mean loss
                    x' = x - H ĝ                                       a quasi-Newton step; H comes from earlier rounds
    down the tree   x ← x + C(x' - x)                                  the root's message, forwarded unchanged

Gossip averages by repetition: a ring of 100 nodes needs some 150 exchanges, each about as long as the last. A sum up a
tree uses each link once. As in the paper's method, only differences to what the receiver already knows are sent, so the
compression errors vanish with them. A round uses n - 1 of the edges, and takes 2h exchanges, where h is the height of
the tree. With vectors in C chunks, one message each, a node sends a chunk on as soon as it has it, and then the next:
all levels of the tree work at once. A round then takes 2(h + C - 1) exchanges, of messages that are C times shorter.

All nodes know the network, and so the tree. The term (μ/2)‖x‖² of every loss is known to all nodes, and is not sent.
"""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.axes import Axis, OnOneProcess
from lessbits._internal.elimination import solve
from lessbits._internal.pytrees import choose_rows, pytree, static
from lessbits._internal.randomness import Step, message_draws
from lessbits.methods.base import MethodRequest, Start
from lessbits.methods.chunks import add_to_chunk, chunk_length, fewest_chunks, take_chunk
from lessbits.methods.common import start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.outbox import Message, Outbox
from lessbits.methods.quasi_newton import Secants, next_point
from lessbits.methods.request import check_chunks
from lessbits.methods.shared_point import PAIRS, SharedPoint
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.networks.tree import SpanningTree, spanning_tree
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor


class TreeState(NamedTuple):
    """The shared point, each node's gradient there, and the sums sent so far; at the root also the next point."""

    x: jax.Array
    own: jax.Array  # g_i
    reported: jax.Array  # m_i
    collected: jax.Array  # Σ m_c over the children
    goal: jax.Array  # x'
    passing: Any  # a payload of the root, to be forwarded down
    secants: Annotated[Secants | None, Axis.ONE_PROCESS]  # one row in the process that holds the root, none elsewhere
    anchor: Anchor | None
    metric: OnOneProcess | None = None  # of the root's first step, as factors of a matrix; None for η
    across: jax.Array | None = None  # with two roots: the other's sum


@pytree
class Tree(SharedPoint):
    """Sums over a spanning tree: one compressed vector per link and direction for each step of the root.

    Attributes:
        eta: Step size η of the gradient, for the first step and after a failed one.
        quantizer: The compressor of messages.
        parent: The parent of each node in the tree.
        depth: The depth of each node in the tree.
        height: The height of the tree.
        convexity: The strong convexity μ of the losses, at least 0.
        gradients: The gradients to take: option and batch size.
        pairs: How many pairs of steps and gradient changes the root stores; 0 for plain gradient steps.
        roots: Whether this process holds a root, 1 or 0.
        chunks: The number C of messages that a vector is cut into.
        top: The depth of the root: 0, or 1 if there are two.
    """

    eta: float
    quantizer: Compressor
    parent: jax.Array
    depth: jax.Array
    height: int
    convexity: float
    gradients: Gradients = static(default=Gradients())
    pairs: int = static(default=PAIRS)
    roots: int = static(default=1)
    chunks: int = static(default=1)
    top: int = static(default=0)

    name = "tree"
    takes_chunks = True
    note = "uses only the links of a spanning tree, up and down: it saves bits; gossip may need fewer exchanges."

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return the tree, μ, and the numbers of pairs and chunks."""
        tree = cls.tree_of(request.network)
        return {
            "top": int(tree.depth.min()),
            "parent": jnp.asarray(tree.parent, jnp.int32),
            "depth": jnp.asarray(tree.depth, jnp.int32),
            "height": tree.height,
            "convexity": max(0.0, request.problem.convexity),
            "pairs": cls.pairs_for(request.gradients),
            "chunks": fewest_chunks(request.problem.dim, check_chunks(cls, request.chunks, request.problem.dim)),
        }

    @staticmethod
    def tree_of(network: Network) -> SpanningTree:
        """Return the tree."""
        return spanning_tree(network)

    def message_lengths(self, dim: int) -> tuple[int, ...]:
        """The coordinates of a chunk."""
        return (chunk_length(dim, self.chunks),)

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError for a number of chunks that does not fit, too."""
        super().check(problem, network)
        check_chunks(type(self), self.chunks, problem.dim)

    def for_nodes(self, nodes: np.ndarray) -> "Tree":
        """Return the method that knows whether this process holds the root, which stores the steps."""
        return replace(self, roots=int((np.asarray(self.depth)[nodes] == self.top).any()))

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> TreeState:
        """Return the first state. All nodes start at the x⁰ given for the root, or at zero, and know it beforehand."""
        root_of_each = jnp.broadcast_to(jnp.argmin(self.depth), local.nodes.shape)
        x = jnp.zeros_like(problem.start()) if start.x is None else start_at(problem, root_of_each, start)
        zeros = jnp.zeros_like(x)
        draw = message_draws(Step(jnp.zeros(2, jnp.uint32), jnp.int32(0)), local.nodes, per_link=False)
        chunk = take_chunk(zeros, self.chunks, jnp.zeros_like(local.nodes))
        payload = self.quantizer.quantize(chunk, self.quantizer.measure(chunk), draw)
        secants = Secants.none(x[: self.roots], self.pairs) if self.pairs else None
        across = zeros if self.top else None
        return TreeState(x, zeros, zeros, zeros, x, payload, secants, self.gradients.init(problem, x), across=across)

    def send(
        self, step: Step, state: TreeState, problem: Problem, local: LocalNetwork
    ) -> tuple[TreeState, Outbox, jax.Array]:
        """Take gradients at the start of a round. Then nodes send chunk after chunk, first up the tree, then down."""
        phase, depth = self.phase(step), self.depth[local.nodes]

        def take(state: TreeState) -> tuple[TreeState, jax.Array]:
            gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
            return state._replace(own=gradient - self.convexity * state.x, anchor=anchor), work

        state, work = lax.cond(phase == 0, take, lambda state: (state, jnp.zeros_like(problem.counts)), state)
        up = phase < self.sweep
        difference = jnp.where(up, state.own + state.collected - state.reported, state.goal - state.x)
        difference = take_chunk(difference, self.chunks, self.turn(phase, depth)[0])
        # Two roots send the same down, so they draw the same numbers.
        one = jnp.argmin(self.depth).astype(local.nodes.dtype)
        drawing = jnp.where(depth == self.top, one, local.nodes) if self.top else local.nodes
        draw = message_draws(step, drawing, per_link=False)
        fresh = self.quantizer.quantize(difference, self.quantizer.measure(difference), draw)
        payload = choose_rows(~up & (depth > self.top), state.passing, fresh)
        (to_parent, to_child), twins = self.directions(local), self.between_roots(local)
        sends, hears = (self.turn(phase, self.depth[ends])[1] for ends in (local.nodes[local.owner], local.neighbor))
        active = jnp.where(up, to_parent, to_child & ~twins) & sends
        awaited = jnp.where(up, to_child, to_parent & ~twins) & hears
        return state, (Message(payload, per_link=False, active=active, awaited=awaited),), work

    def receive(self, step: Step, state: TreeState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> TreeState:
        """Add the received messages to the sums (up) or to x (down). After the last sum the root takes its step."""
        phase, depth = self.phase(step), self.depth[local.nodes]
        up = phase < self.sweep
        mine = self.quantizer.decode(outbox[0].payload)
        theirs, came = inbox[0], inbox[0].active
        assert came is not None

        def heard_on(links: jax.Array) -> jax.Array:
            return local.sum(
                lambda slot: jnp.where(links[slot.links][:, None], self.quantizer.decode(theirs.take(slot.links)), 0)
            )

        twins = self.between_roots(local)
        arrived = heard_on(came & ~twins)
        sent, sends = self.turn(phase, depth)
        heard, _ = self.turn(phase, jnp.where(up, depth + 1, depth - 1))  # from children, or from the parent
        root_sends = ~up & sends & (depth == self.top)  # the root moves like the other nodes
        moved = jnp.where(root_sends[:, None], mine, jnp.where(up, 0, arrived))
        to_parent, _ = self.directions(local)
        link_to_parent = (
            jnp.zeros_like(local.nodes)
            .at[local.owner]
            .max(jnp.where(to_parent, lax.iota(jnp.int32, to_parent.shape[0]), 0))
        )
        told = jnp.zeros_like(depth, bool).at[local.owner].max(to_parent & came)
        reported = jnp.where((up & sends)[:, None], mine, 0)
        state = state._replace(
            x=add_to_chunk(state.x, self.chunks, jnp.where(root_sends, sent, heard), moved),
            reported=add_to_chunk(state.reported, self.chunks, sent, reported),
            collected=add_to_chunk(state.collected, self.chunks, heard, jnp.where(up, arrived, 0)),
            passing=choose_rows(~up & told, theirs.take(link_to_parent), state.passing),
        )
        if state.across is not None:
            from_twin = jnp.where(up, heard_on(came & twins), 0)
            state = state._replace(across=add_to_chunk(state.across, self.chunks, sent, from_twin))
        return lax.cond(phase == self.sweep - 1, lambda state: self.advance(state, local), lambda state: state, state)

    def advance(self, state: TreeState, local: LocalNetwork) -> TreeState:
        """Take the root's step, in the process that holds the root."""
        if not self.roots:
            return state
        root = jnp.argmin(self.depth[local.nodes])[None]  # two roots would find the same bits
        # Of two roots each takes what both know.
        known = state.own + state.collected if state.across is None else state.reported + state.across
        x, total = state.x[root], known[root]
        gradient = total / self.depth.shape[0] + self.convexity * x
        goal, secants = x - self.eta * gradient, None
        if state.secants is not None:
            metric = None if state.metric is None else partial(solve, state.metric)
            goal, secants = next_point(x, gradient, state.secants, self.eta, metric)
        if state.across is not None:
            goal = jnp.where((self.depth[local.nodes] == self.top)[:, None], goal, state.goal)
            return state._replace(goal=goal, secants=secants)
        return state._replace(goal=state.goal.at[root].set(goal), secants=secants)

    @property
    def sweep(self) -> int:
        """The exchanges of all chunks up the tree, or down."""
        return self.height + self.chunks - 1

    def phase(self, step: Step) -> jax.Array:
        """Return the position of an iteration in its round: first the exchanges of a sweep up, then of one down."""
        return step.iteration % (2 * jnp.asarray(self.sweep, step.iteration.dtype) - self.top)

    def turn(self, phase: jax.Array, depth: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return which chunk nodes of this depth send, and whether they send one now."""
        number = jnp.where(phase < self.sweep, phase - (self.height - depth), phase - self.sweep - depth + self.top)
        return jnp.clip(number, 0, self.chunks - 1), (number >= 0) & (number < self.chunks)

    def directions(self, local: LocalNetwork) -> tuple[jax.Array, jax.Array]:
        """Return which links lead to the parent of their owner, and which to a child."""
        owner = local.nodes[local.owner]
        return self.parent[owner] == local.neighbor, self.parent[local.neighbor] == owner

    def between_roots(self, local: LocalNetwork) -> jax.Array:
        """Return which links join two roots: these tell each other their sums, and nothing on the way down."""
        to_parent, to_child = self.directions(local)
        return to_parent & to_child

    @property
    def round_length(self) -> int:
        """The iterations of a round: up the tree, and down again."""
        return 2 * int(np.asarray(self.sweep)) - self.top

    def choices(self) -> list[str]:
        """Return the option, and the number of chunks if there are several."""
        return [*super().choices(), *([f"{self.chunks} chunks"] if self.chunks > 1 else [])]

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Return True: sums over a tree are always tried."""
        return True
