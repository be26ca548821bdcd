"""Algorithm 1 with a dual variable and two memories per edge, so that links may be silent and nodes come and go.

    node i               x_i⁺ = x_i - η(∇f_i(x_i) - z_i),  z_i = Σ_j y_ij
    edge {i, j}          q_ij = Q(x_i⁺ - h_ij), and q_ji back
                         δ    = θ w_ij ((h_ij + q_ij) - (h_ji + q_ji))
                         y_ij⁺ = y_ij - δ,  h_ij⁺ = h_ij + αq_ij,  h_ji⁺ = h_ji + αq_ji
    if γ > 0             x_i⁺ ← x_i⁺ + γη(z_i⁺ - z_i)

Both ends of an edge hold copies of its two memories, and compute y_ij and y_ji = -y_ij from the same two payloads. The
duals of whatever edges exist then sum to zero, exactly. So an edge that is silent changes nothing, a node that leaves
takes its edges' duals with it, and one that joins starts its edges at zero; nobody else has to know. On a fixed network
γ = 0 is Algorithm 1 with edge messages, and γ = 1 its corrected form (docs/edges.md).

For bit for bit opposite duals, both ends must do the same operations in the same order, and no product may be fused
into a sum: `separate` prevents it.
"""

from dataclasses import replace
from typing import Annotated, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.axes import Axis, PerLink
from lessbits._internal.pytrees import choose_rows, on_cpu, pytree, static
from lessbits._internal.randomness import Purpose, Step, draws, message_draws
from lessbits._internal.summation import separate
from lessbits.errors import InputError, check_name
from lessbits.faults import Faults
from lessbits.methods.base import Method, Start
from lessbits.methods.common import start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.outbox import Message, Outbox
from lessbits.methods.prediction import predict_edge_sizes, speaking_of, theory_inputs
from lessbits.methods.request import MethodRequest, StepSize, check_local_steps
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Payload, Quantizer
from lessbits.theory import EdgeProof, proven_edge_sizes

SKIPS = ("regular", "random")


class Waiting(NamedTuple):
    """The message that each link has sent in its round, whose answer has not arrived yet."""

    payload: Payload
    sent: jax.Array  # whether there is one


class EdgeMemories(NamedTuple):
    """The two memories of an edge, as this end holds them."""

    mine: jax.Array  # h_ij, of what this end sends
    theirs: jax.Array  # h_ji


class EdgeDualState(NamedTuple):
    """Iterate x and dual variable z of each node, dual y and memories of each edge end, and option D's anchor."""

    x: jax.Array
    z: jax.Array  # Σ_j y_ij
    y: PerLink
    memory: Annotated[EdgeMemories | None, Axis.LINK]  # None if messages are exact
    round: PerLink  # how many rounds this end has applied, int32
    waiting: Annotated[Waiting | None, Axis.LINK]  # None if no message is late
    anchor: Anchor | None


@pytree
class EdgeDual(Method):
    """Algorithm 1 with duals that belong to edges: linear while links fail, nodes come and go, and messages are late.

    Attributes:
        theta: Step size θ of the dual variables.
        eta: Step size η of the gradient.
        alpha: Step size α of the memories.
        gamma: Gain γ of the correction: 0 for none, 1 as in LEAD, more where messages are late.
        quantizer: The compressor Q of messages. Contractions such as top-k are taken too, but no theory covers them.
        gradients: The gradients to take: option and batch size.
        local_steps: Gradient steps between two exchanges. More of them send fewer bits where gradients are the
            bottleneck, and need a smaller θ.
        skips: When exchanges are left out: "regular" for one in `local_steps` iterations, or "random" for each with
            probability 1/`local_steps`, by a coin that all nodes draw alike, as in ProxSkip.
        late: Whether messages may be late. Then each end keeps the message whose answer it awaits.
    """

    theta: float
    eta: float
    alpha: float
    gamma: float
    quantizer: Compressor
    gradients: Gradients = static(default=Gradients())
    local_steps: int = static(default=1)
    skips: str = static(default="regular")
    late: bool = static(default=False)

    name = "edge-dual"
    step_sizes = (
        StepSize("theta", "θ", "step size of the dual variables"),
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memories", derived=True, kind="memory"),
        StepSize("gamma", "γ", "gain of the correction", from_zero=True),
    )
    compresses = True
    mixes = False  # θ damps any weights
    takes_local_steps = True
    runs_with = ("silence", "churn", "delay", "loss")

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return step sizes with a proof, or practical ones, for links that speak as often as the faults allow."""
        if not isinstance(request.quantizer, Quantizer):
            raise InputError(
                f"edge-dual has no step sizes for {request.quantizer.name}, which is biased: give theta, eta, alpha "
                "and gamma, or choose one such as dit-4"
            )
        if request.practical:
            return {**predict_edge_sizes(request)._asdict(), **request.given}
        proven = _proof(request, "regular")
        if proven is None:
            raise InputError(
                "step sizes are proven only for links that are silent independently in each iteration, with a gradient "
                "step of every node in each, not for late messages, bursts, schedules, local steps, and nodes that are "
                "slow or take part at random: take practical ones, or give them all"
            )
        return {**proven.sizes._asdict(), **request.given}

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of the one message per link."""
        return (self.quantizer,)

    def with_delays(self) -> Self:
        """Return the method for a network whose messages may be late."""
        return replace(self, late=True)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> EdgeDualState:
        """Return the first state. Dual variables and memories start at zero, so that any edge can start by itself."""
        if start.z is not None or start.h is not None:
            raise InputError("edge-dual has duals and memories of edges, which start at zero: leave z and h out")
        x = start_at(problem, local.nodes, start)
        zeros = jnp.zeros((local.links.shape[0], x.shape[1]), x.dtype)
        memory = None if self.quantizer.lossless else EdgeMemories(zeros, zeros)
        state = EdgeDualState(
            x, jnp.zeros_like(x), zeros, memory, jnp.zeros_like(local.links), None, self.gradients.init(problem, x)
        )
        if not self.late:
            return state
        nothing = jnp.zeros(local.links.shape, bool)
        first = self._messages(Step(jnp.zeros(2, jnp.uint32), jnp.int32(0)), state, local)
        return state._replace(waiting=Waiting(jax.tree.map(jnp.zeros_like, first), nothing))

    def send(
        self, step: Step, state: EdgeDualState, problem: Problem, local: LocalNetwork
    ) -> tuple[EdgeDualState, Outbox, jax.Array]:
        """Take the primal step, and quantize its result for every edge. An edge that waits for an answer is silent."""
        gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
        state = state._replace(x=state.x - self.eta * (gradient - state.z), anchor=anchor)
        active, payload = self._speaking(step, local), self._messages(step, state, local)
        if state.waiting is not None:
            active = ~state.waiting.sent if active is None else active & ~state.waiting.sent
            payload = choose_rows(active, payload, state.waiting.payload)
            state = state._replace(waiting=Waiting(payload, state.waiting.sent | active))
        awaited = active if state.waiting is None else None
        return state, (Message(payload, per_link=True, active=active, awaited=awaited, round=state.round),), work

    def _speaking(self, step: Step, local: LocalNetwork) -> jax.Array | None:
        """Return the links that speak in this iteration; None for all."""
        if self.local_steps == 1:
            return local.up
        turn = step.iteration % self.local_steps == 0
        if self.skips == "random":
            coin = draws(step, jnp.zeros(1, jnp.int32), Purpose.EXCHANGE).integers(1, jnp.uint32(self.local_steps))
            turn = coin[0, 0] == 0
        return jnp.broadcast_to(turn, local.links.shape) if local.up is None else local.up & turn

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError for invalid choices of local steps."""
        super().check(problem, network)
        check_local_steps(type(self), self.local_steps)
        check_name("skips", self.skips, SKIPS)

    def _messages(self, step: Step, state: EdgeDualState, local: LocalNetwork) -> Payload:
        """Return Q(x_i - h_ij) for every link. Random numbers belong to the edge's own round."""
        x = state.x[local.owner]
        difference = x if state.memory is None else x - state.memory.mine
        draw = message_draws(step._replace(iteration=state.round), local.links, per_link=True)
        return self.quantizer.quantize(difference, self.quantizer.measure(difference), draw)

    def receive(
        self, step: Step, state: EdgeDualState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> EdgeDualState:
        """Finish the round of every edge on which a message has arrived."""
        (sent,), (received,) = outbox, inbox
        everywhere = jnp.arange(local.links.shape[0])
        arrived = received.active
        waiting = state.waiting
        if waiting is not None:
            assert arrived is not None
            arrived = arrived & waiting.sent
            # Not the payload that `send` put into the state, which a compiler might compute once more.
            waiting = Waiting(sent.payload, waiting.sent & ~arrived)
        mine = self.quantizer.decode(sent.payload)
        theirs = self.quantizer.decode(received.take(everywhere))
        memory = state.memory
        if memory is None:
            apart = separate(mine) - separate(theirs)
        else:
            memory = EdgeMemories(
                memory.mine + separate(self.alpha * mine), memory.theirs + separate(self.alpha * theirs)
            )
            # h + q, but from the new memories: then the old ones have one reader each, and are overwritten in place.
            rest = 1 - self.alpha
            apart = (memory.mine + separate(rest * mine)) - (memory.theirs + separate(rest * theirs))
        # Both ends must round alike: this order of operations, and no other.
        y = state.y - separate((self.theta * local.weight)[:, None] * apart)
        rounds = state.round + 1
        if arrived is not None:
            y, memory, rounds = choose_rows(arrived, (y, memory, rounds), (state.y, state.memory, state.round))
        z = local.sum(lambda slot: y[slot.links])
        return state._replace(x=self._corrected(state, z), z=z, y=y, memory=memory, round=rounds, waiting=waiting)

    def _corrected(self, state: EdgeDualState, z: jax.Array) -> jax.Array:
        """Return x + γη(z⁺ - z). Where γ is zero, a CPU leaves it out; on a GPU a condition would take longer."""

        def corrected(x: jax.Array) -> jax.Array:
            return x + separate(self.gamma * self.eta * (z - state.z))

        return lax.cond(self.gamma > 0, corrected, lambda x: x, state.x) if on_cpu() else corrected(state.x)

    def reset(
        self, state: EdgeDualState, fresh: EdgeDualState, nodes: jax.Array, links: jax.Array, local: LocalNetwork
    ) -> EdgeDualState:
        """Start nodes and links anew. A link that forgets its dual takes it from the sum of its node."""
        state = super().reset(state, fresh, nodes, links, local)
        return state._replace(z=local.sum(lambda slot: state.y[slot.links]))

    def proven_rate(self, problem: Problem, network: Network, faults: Faults | None = None) -> float | None:
        """Return the rate of the proof if the step sizes are its own, for links that are silent as the faults say."""
        if not isinstance(self.quantizer, Quantizer) or (faults is not None and faults.events):
            return None
        request = MethodRequest(problem, network, self.quantizer, self.gradients, faults=faults)
        try:
            proven = _proof(replace(request, local_steps=self.local_steps), self.skips)
        except InputError:  # not strongly convex
            return None
        mine = [float(getattr(self, name)) for name in self.step_size_names]
        return proven.rate if proven is not None and np.allclose(mine, proven.sizes, rtol=1e-6) else None

    def suspect(self, problem: Problem) -> str:
        """Return η above 2/L, where gradient descent diverges; else θ."""
        return "eta" if self.gradients.too_large(float(self.eta), problem) else "theta"


def _proof(request: MethodRequest, skips: str) -> EdgeProof | None:
    """Return step sizes with a proof; None where nothing is proven."""
    faults = Faults() if request.faults is None else request.faults
    if faults.late or faults.fail or faults.graphs or faults.slow or faults.part < 1:
        return None
    if request.local_steps > 1 and skips != "random":  # links that are silent in turn, not at random
        return None
    inputs = theory_inputs(replace(request, messages="edge"), noise=False)
    return proven_edge_sizes(inputs, speaking_of(request), request.gradients.option)
