"""The rule of `lessbits.neural.Gossip` for all nodes at once: in turn, one message to all, and links that fail."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import put
from lessbits._internal.randomness import Purpose, Step, draws
from lessbits.errors import InputError, check_number, shown
from lessbits.networks import Network
from lessbits.neural.arithmetic import Numbers, finish, weighted
from lessbits.neural.methods.base import Exchanged, Message, NeuralMethod, Room
from lessbits.training.intervals import Intervals
from lessbits.training.noise import noise_of
from lessbits.training.rule import Rule


class Kept(NamedTuple):
    """What nodes keep between exchanges."""

    own: jax.Array  # what neighbours know of a node: [nodes, size], or [rounds, nodes, size] with a memory per link
    others: jax.Array  # with one message to all: the weighted sum of the others' memories; else own minus theirs
    dual: jax.Array
    momentum: jax.Array


@dataclass(frozen=True)
class _WithRule(NeuralMethod):
    """What the three forms have in common."""

    rule: Rule = field(default_factory=Rule)

    speaks_in_turn = False  # with one neighbour at each exchange

    def __post_init__(self) -> None:
        """Check the rule; steps alone are the rule's."""
        if not isinstance(self.rule, Rule):
            raise InputError(f"the rule is {shown(self.rule)}, but it must be a lessbits.neural.Rule")
        super().__post_init__()
        if self.rule.tree:
            raise InputError("the rule has tree=True, but this simulates gossip: write lessbits.neural.TreeSums(…)")
        if self.speaks_in_turn and not self.rule.turns:
            raise InputError(
                "the rule has turns=False, but this simulates turns: write lessbits.neural.GossipBroadcast(…)"
            )
        if self.alone:
            raise InputError(f"alone is {self.alone}, but it belongs to the rule here: write rule=Rule(alone=…)")

    @cached_property
    def intervals(self) -> Intervals:
        """When nodes exchange; steps alone are the rule's."""
        return Intervals(self.every, self.rule.alone)

    def drift(self, state: Kept, step: int) -> tuple[jax.Array, float] | None:
        """Add the dual in equal parts."""
        return (state.dual, self.rule.numbers.dual / self.intervals.length(step)) if self.rule.dual else None

    def fitted(self, network: Network, quantizer: str) -> Self:
        """Choose the numbers of the rule that are open."""
        chosen = replace(self.rule, turns=self.speaks_in_turn).chosen(network, noise_of(quantizer))
        return replace(self, rule=replace(chosen, turns=self.rule.turns))

    def finish(self, state: Kept, old: jax.Array, x: jax.Array, pull: jax.Array, turn: int) -> tuple[jax.Array, Kept]:
        """Take the pull."""
        moved = finish(old, x, state.dual, state.momentum, pull, Numbers.of(self.rule, turn))
        return moved.x, state._replace(dual=moved.dual, momentum=moved.momentum)


def _works(room: Room, turn: int, number: int, failures: float) -> jax.Array:
    """Return which nodes hear their partner of a round, [nodes, 1]: links fail for both ends at once."""
    partner, nodes = room.partners[number], np.arange(room.nodes)
    link = put(np.minimum(nodes, partner) * room.nodes + np.maximum(nodes, partner), np.uint32)
    coins = draws(Step(room.seed, jnp.int32(turn)), link, Purpose.SILENCE).uniform(1, jnp.dtype(jnp.float32))
    return jnp.asarray(room.speaks[number])[:, None] & (coins >= jnp.float32(failures))


@dataclass(frozen=True)
class GossipInTurn(_WithRule):
    """Our method: a node speaks with one neighbour at a time, with a memory for each link.

    Without failures it is `lessbits.neural.Gossip` with `turns=True`, bit for bit.

    Attributes:
        rule: The numbers of the rule.
        failures: Probability that a link fails in an exchange. Then nothing moves on it; what was sent counts.
    """

    failures: float = 0.0

    speaks_in_turn = True

    def __post_init__(self) -> None:
        """Check the probability too."""
        super().__post_init__()
        check_number("failures", self.failures, 0, 1)

    def start(self, x: jax.Array, room: Room) -> Kept:
        """Both ends of a link know the start."""
        own = jnp.broadcast_to(x[None], (len(room.partners), *x.shape))
        return Kept(own, jnp.zeros_like(own), jnp.zeros_like(x), jnp.zeros_like(x))

    def exchange(self, state: Kept, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Send Q(x - h) to the neighbour whose turn it is; half of the disagreement is a node's."""
        number = turn % len(room.partners)
        partner, works = room.partners[number], _works(room, turn, number, self.failures)
        sent, payload = room.send(x, state.own[number], turn, partner)
        sent = jnp.where(works, sent, 0)
        own = state.own[number] + sent
        gap = (state.others[number] + sent) - sent[partner]
        pull = jnp.where(works, gap * jnp.float32(0.5), 0)
        state = state._replace(own=state.own.at[number].set(own), others=state.others.at[number].set(gap))
        x, state = self.finish(state, old, x, pull, turn)
        return Exchanged(x, state, (Message(payload, room.speaks[number]),))


@dataclass(frozen=True)
class GossipBroadcast(_WithRule):
    """The same rule with one message to all neighbours: `lessbits.neural.Gossip` with `turns=False`, bit for bit."""

    def start(self, x: jax.Array, room: Room) -> Kept:
        """All know the start."""
        return Kept(x, weighted(x, jnp.asarray(room.total)), jnp.zeros_like(x), jnp.zeros_like(x))

    def exchange(self, state: Kept, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Send Q(x - h) to all."""
        sent, payload = room.send(x, state.own, turn)
        own, others = state.own + sent, state.others
        for slot in range(room.neighbours.shape[1]):
            others = others + weighted(sent[room.neighbours[:, slot]], jnp.asarray(room.weights[:, slot]))
        pull = weighted(own, jnp.asarray(room.total)) - others
        x, state = self.finish(state._replace(own=own, others=others), old, x, pull, turn)
        return Exchanged(x, state, (Message(payload, room.degree),))


@dataclass(frozen=True)
class GossipEdges(GossipInTurn):
    """The edge form: all links at each exchange, with a memory for each, so that each may fail alone."""

    speaks_in_turn = False

    def exchange(self, state: Kept, old: jax.Array, x: jax.Array, turn: int, room: Room) -> Exchanged:
        """Send Q(x - h) on every link, each with its own memory."""
        pull, messages, owns, gaps = jnp.zeros_like(x), [], [], []
        for number, partner in enumerate(room.partners):
            works = _works(room, turn, number, self.failures)
            sent, payload = room.send(x, state.own[number], turn, partner)
            sent = jnp.where(works, sent, 0)
            owns.append(state.own[number] + sent)
            gaps.append((state.others[number] + sent) - sent[partner])
            pull = pull + jnp.where(works, weighted(gaps[-1], jnp.asarray(room.link_weights[number])), 0)
            messages.append(Message(payload, room.speaks[number]))
        state = state._replace(own=jnp.stack(owns), others=jnp.stack(gaps))
        x, state = self.finish(state, old, x, pull, turn)
        return Exchanged(x, state, tuple(messages))
