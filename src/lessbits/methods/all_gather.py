"""Every node's compressed gradient goes to all nodes, on shortest ways: the method with the fewest exchanges.

    all nodes       g_i = ∇f_i(x) - μx                                 at a point x that all nodes share
                    q_i = C(g_i - m_i);  m_i ← m_i + q_i               coded once, and passed on unchanged
    exchange t      q_j of every node j at distance t arrives          on one of the shortest ways
    all nodes       ĝ = Σ_j m_j/n + μx                                 after as many exchanges as the diameter
                    x ← x - H ĝ                                        the same quasi-Newton step at every node

`tree` sums on the way to a root and sends the answer back, which takes twice as many exchanges: 100 in place of 50 on a
ring of 100 nodes, 20 in place of 10 on a torus of 10 x 10. Here nothing is summed on the way, so that a link carries
n(n - 1)/2e vectors in a round on average, where e is the number of edges, and a link of the tree one. Where an exchange
takes longer than its bits do, this is faster.

Only differences to what all nodes know are sent, as elsewhere here. All nodes know the network, and so the ways. The
term (μ/2)‖x‖² of every loss is known to all nodes, and is not sent. Sums are rounded in another order at each node, so
that points may differ in their last digits; the part μx of a step is each node's own, and keeps them together.
"""

from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.axes import Axis
from lessbits._internal.elimination import solve
from lessbits._internal.pytrees import choose_rows, put, pytree, static, take_rows
from lessbits._internal.randomness import Step, message_draws
from lessbits._internal.summation import Sum, add_slices
from lessbits.methods.base import MethodRequest, Start
from lessbits.methods.common import start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.outbox import Message, Outbox
from lessbits.methods.quasi_newton import Secants, next_point
from lessbits.methods.shared_point import PAIRS, SharedPoint
from lessbits.networks.flooding import NOTHING, OWN, shortest_routes
from lessbits.networks.local import LocalNetwork, Slot
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Payload


class AllGatherState(NamedTuple):
    """The shared point, what has been told, and payloads that are to be passed on."""

    x: jax.Array
    told: Sum  # m_i
    total: Sum  # Σ_j m_j, with twice the digits: nodes add in another order, and rounding would add up over rounds
    fresh: Payload  # q_i
    held: Annotated[Payload, Axis.LINK]  # what came in the last exchange, [links, slots, …]
    secants: Secants | None
    anchor: Anchor | None
    metric: jax.Array | None = None  # of every node's first step, as factors of a matrix; None for η


@pytree
class AllGather(SharedPoint):
    """All vectors to all nodes, on shortest ways: as few exchanges as the diameter for each step, at every node.

    Attributes:
        eta: Step size η of the gradient, for the first step and after a failed one.
        quantizer: The compressor of messages.
        place: Where a link's vectors come from, [exchanges, links, slots], as in `networks.flooding.Routes`.
        comes: Whether one comes back, [exchanges, links, slots].
        nodes: The number n of nodes.
        convexity: The strong convexity μ of the losses, at least 0.
        gradients: The gradients to take: option and batch size.
        pairs: How many pairs of steps and gradient changes every node stores; 0 for plain gradient steps.
        slots: How many vectors a link carries in an exchange, at most.
    """

    eta: float
    quantizer: Compressor
    place: jax.Array
    comes: jax.Array
    nodes: int
    convexity: float
    gradients: Gradients = static(default=Gradients())
    pairs: int = static(default=PAIRS)
    slots: int = static(default=1)

    name = "all-gather"
    note = "sends every vector to all nodes on shortest ways: it saves exchanges, for many more bits than a tree."

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return the routes, μ, and the number of pairs."""
        routes = shortest_routes(request.network)
        return {
            "place": put(routes.place, np.int32),
            "comes": put(routes.comes, bool),
            "slots": routes.place.shape[2],
            "nodes": request.network.nodes,
            "convexity": max(0.0, request.problem.convexity),
            "pairs": cls.pairs_for(request.gradients),
        }

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer, for each vector that a link may carry in an exchange."""
        return (self.quantizer,) * self.slots

    def busy_links(self, sent: np.ndarray) -> np.ndarray:
        """Return how many links would carry all messages, if each had as many as the one with the most at a time."""
        most = (np.asarray(self.place) != NOTHING).sum(axis=2).max(axis=1)  # of each exchange: the others wait for it
        return sent.sum(axis=1) / most.mean()

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> AllGatherState:
        """Return the first state. All nodes start at the x⁰ given for node 0, or at zero, and know it beforehand."""
        x = jnp.zeros_like(problem.start())
        if start.x is not None:
            x = start_at(problem, jnp.zeros_like(local.nodes), start)
        zeros, step = jnp.zeros_like(x), Step(jnp.zeros(2, jnp.uint32), jnp.int32(0))
        fresh = self.code(step, zeros, local)
        secants = Secants.none(x, self.pairs) if self.pairs else None
        held, anchor = self.nothing_held(fresh, local), self.gradients.init(problem, x)
        return AllGatherState(x, Sum.of(zeros), Sum.of(zeros), fresh, held, secants, anchor)

    def send(
        self, step: Step, state: AllGatherState, problem: Problem, local: LocalNetwork
    ) -> tuple[AllGatherState, Outbox, jax.Array]:
        """Take gradients and code them at the start of a round. Then pass on what came in the last exchange."""
        phase = self.phase(step)

        def take(state: AllGatherState) -> tuple[AllGatherState, jax.Array]:
            gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
            unsaid = gradient - self.convexity * state.x - (state.told.value + state.told.lost)
            fresh = self.code(step, unsaid, local)
            news = Sum.of(self.quantizer.decode(fresh))
            told, total = state.told + news, state.total + news
            return state._replace(told=told, total=total, fresh=fresh, anchor=anchor), work

        state, work = lax.cond(phase == 0, take, lambda state: (state, jnp.zeros_like(problem.counts)), state)
        return state, self.passed_on(phase, state.fresh, state.held, local), work

    def receive(
        self, step: Step, state: AllGatherState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> AllGatherState:
        """Add what came to the total. After the last exchange all nodes take the same step."""
        arrived, held = self.arrived(inbox, local)
        state = state._replace(total=state.total + Sum.of(arrived), held=held)
        last = self.phase(step) == self.round_length - 1
        return lax.cond(last, self._advance, lambda state: state, state)

    def _advance(self, state: AllGatherState) -> AllGatherState:
        gradient = (state.total.value + state.total.lost) / self.nodes + self.convexity * state.x
        if state.secants is None:
            return state._replace(x=state.x - self.eta * gradient)
        metric = None if state.metric is None else partial(solve, state.metric)
        x, secants = next_point(state.x, gradient, state.secants, self.eta, metric)
        return state._replace(x=x, secants=secants)

    def nothing_held(self, fresh: Payload, local: LocalNetwork) -> Payload:
        """Return payloads for all slots of all links, which are never sent."""
        of_links = take_rows(fresh, local.owner)
        return jax.tree.map(lambda rows: jnp.stack([rows] * self.slots, axis=1), of_links)

    def passed_on(self, phase: jax.Array, fresh: Payload, held: Payload, local: LocalNetwork) -> tuple[Message, ...]:
        """Return the messages of an exchange: a node's own payload, or one that came in the exchange before."""
        place, comes = self.place[phase][local.links], self.comes[phase][local.links]
        first = jnp.searchsorted(local.owner, lax.iota(local.owner.dtype, local.nodes.shape[0]))[local.owner]
        of_links = take_rows(fresh, local.owner)

        def message(slot: int) -> Message:
            at = jnp.maximum(place[:, slot], 0)
            link, came_in = first + at // self.slots, at % self.slots
            payload = choose_rows(place[:, slot] == OWN, of_links, jax.tree.map(lambda rows: rows[link, came_in], held))
            return Message(payload, per_link=True, active=place[:, slot] != NOTHING, awaited=comes[:, slot])

        return tuple(message(slot) for slot in range(self.slots))

    def arrived(self, inbox: Outbox, local: LocalNetwork) -> tuple[jax.Array, Payload]:
        """Return the sum of what came, and the payloads, to be passed on."""
        every = lax.iota(jnp.int32, local.links.shape[0])
        held = jax.tree.map(lambda *rows: jnp.stack(rows, axis=1), *(message.take(every) for message in inbox))
        came = jnp.stack([jnp.asarray(message.active) for message in inbox], axis=1)

        def of(slot: Slot) -> jax.Array:
            rows = jax.tree.map(lambda each: each[slot.links].reshape(-1, *each.shape[2:]), held)
            vectors = self.quantizer.decode(rows).reshape(*came[slot.links].shape, -1)
            return add_slices(jnp.moveaxis(jnp.where(came[slot.links][..., None], vectors, 0), 1, 0))

        return local.sum(of), held

    def code(self, step: Step, vectors: jax.Array, local: LocalNetwork) -> Payload:
        """Return the payload of each node's vector."""
        draw = message_draws(step, local.nodes, per_link=False)
        return self.quantizer.quantize(vectors, self.quantizer.measure(vectors), draw)

    def phase(self, step: Step) -> jax.Array:
        """Return the position of an iteration in its round."""
        return step.iteration % self.round_length

    @property
    def round_length(self) -> int:
        """The exchanges of a round: the diameter of the network."""
        return self.place.shape[0]
