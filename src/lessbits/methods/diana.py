"""DIANA: a parameter server receives compressed gradient differences; here the hub of a star is the server.

    each worker i    q_i = Q(∇f_i(x) - h_i),   h_i⁺ = h_i + αq_i               up to the hub, compressed
    the hub          ĝ = h + (1/n) Σ_i q_i,    h⁺ = h + α(1/n) Σ_i q_i
                     x⁺ = x - ηĝ                                               down to all, uncompressed

Mishchenko, Gorbunov, Takáč and Richtárik, "Distributed learning with compressed gradient differences" (2019). The hub
holds data too and is a worker itself; its own q_i is not sent. Up and down take one exchange each: the leaves send in
even iterations, the hub in odd ones. Messages down are not compressed, which is why the paper calls it centralized.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step, message_draws
from lessbits.errors import InputError
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.outbox import Message, Outbox
from lessbits.methods.request import Suggestion
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer
from lessbits.quantizers.exact import Exact


class DianaState(NamedTuple):
    """Iterate; memories h_i, and h at the hub; the gradient that `send` passes on; and option D's anchor."""

    x: jax.Array
    worker_memory: jax.Array
    server_memory: jax.Array
    gradient: jax.Array
    anchor: Anchor | None


@pytree
class Diana(Method):
    """DIANA: converges linearly with full gradients. With option C it stops at an error floor.

    Attributes:
        eta: Step size η of the gradient.
        alpha: Step size α of the memory.
        quantizer: The unbiased compressor Q of messages.
        gradients: The gradients to take: option and batch size.
    """

    eta: float
    alpha: float
    quantizer: Quantizer
    gradients: Gradients = static(default=Gradients())

    name = "diana"
    step_sizes = (
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memory", derived=True, kind="memory"),
    )
    options: ClassVar[tuple[str, ...]] = ("B", "C")
    compresses = True
    unbiased = True
    takes_turns = True  # up, then down
    mixes = False  # a server adds, and does not mix

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return η = 1/(L(1 + 6ω/n)) (practical: 1/(L(1 + ω/n))) and α = 1/(1+ω)."""
        noise = (1 if request.practical else 6) * request.omega / request.problem.nodes
        return {"eta": lambda: 1 / (request.smoothness * (1 + noise)), "alpha": 1 / (1 + request.omega)}

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of differences up, and exact iterates down."""
        return (self.quantizer, Exact())

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError unless the network is a star."""
        super().check(problem, network)
        if network.nodes < 3 or network.edges != network.nodes - 1 or network.maximal_degree != network.nodes - 1:
            raise InputError(
                f"{self.name} needs a server that all others are linked to, but the network is {network.name} of "
                f"{network.nodes} nodes: take a star of at least 3"
            )

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> DianaState:
        """Return the first state. All nodes start at the hub's x⁰, or at zero, and know it beforehand; h⁰ = 0."""
        other = jnp.zeros_like(local.nodes).at[local.owner].max(local.neighbor)  # a leaf's only neighbour
        hub = jnp.where(is_hub(local), local.nodes, other)
        x = jnp.zeros_like(problem.start()) if start.x is None else start_at(problem, hub, start)
        zeros = jnp.zeros_like(x)
        return DianaState(x, zeros, zeros, zeros, self.gradients.init(problem, x))

    def send(
        self, step: Step, state: DianaState, problem: Problem, local: LocalNetwork
    ) -> tuple[DianaState, Outbox, jax.Array]:
        """Send. Even iterations: the leaves send their gradients' differences to the memory. Odd: the hub sends x."""
        going_up = step.iteration % 2 == 0

        def take(state: DianaState) -> tuple[DianaState, jax.Array]:
            gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
            return state._replace(gradient=gradient, anchor=anchor), work

        state, work = lax.cond(going_up, take, lambda state: (state, jnp.zeros_like(problem.counts)), state)
        difference = state.gradient - state.worker_memory
        draw = message_draws(step, local.nodes, per_link=False)
        payload = self.quantizer.quantize(difference, self.quantizer.measure(difference), draw)
        hub = is_hub(local)
        # Links of the hub receive from leaves, and links of leaves from the hub.
        from_leaf = hub[local.owner]
        up = Message(payload, per_link=False, active=~from_leaf & going_up, awaited=from_leaf & going_up)
        down = Message(state.x, per_link=False, active=from_leaf & ~going_up, awaited=~from_leaf & ~going_up)
        return state, (up, down), work

    def receive(self, step: Step, state: DianaState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> DianaState:
        """Update. Even iterations: memories move, and the hub takes its step. Odd: the leaves copy the hub's x."""
        going_up, hub = step.iteration % 2 == 0, is_hub(local)[:, None]
        mine = self.quantizer.decode(outbox[0].payload)
        from_leaves, from_hub = inbox
        total = mine + local.sum(lambda slot: self.quantizer.decode(from_leaves.take(slot.links)))
        mean = total / (1 + link_count(local)[:, None]).astype(total.dtype)
        stepped = jnp.where(hub, state.x - self.eta * (state.server_memory + mean), state.x)
        from_hub_x = jnp.where(
            hub, state.x, state.x.at[local.owner].set(from_hub.take(slice(None)))
        )  # a leaf has one link
        return state._replace(
            x=jnp.where(going_up, stepped, from_hub_x),
            worker_memory=jnp.where(going_up, state.worker_memory + self.alpha * mine, state.worker_memory),
            server_memory=jnp.where(going_up & hub, state.server_memory + self.alpha * mean, state.server_memory),
        )

    def passes(self, problem: Problem) -> float:
        """Return the share of samples per iteration: one gradient every other iteration."""
        return self.gradients.passes(problem) / 2


def link_count(local: LocalNetwork) -> jax.Array:
    """Return the number of links of each node."""
    return jnp.zeros(local.nodes.shape[0], jnp.int32).at[local.owner].add(1)


def is_hub(local: LocalNetwork) -> jax.Array:
    """Return whether each node is the hub of the star."""
    return link_count(local) > 1
