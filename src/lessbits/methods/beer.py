"""BEER and MoTEF: gradient tracking on public copies, moved by compressed differences, for losses of any shape.

    x_i⁺ = x_i - γ Σ_j w_ij (h_i - h_j) - ηv_i
    h_i⁺ = h_i + C(x_i⁺ - h_i)                                          one message, the same to all neighbours
    m_i⁺ = ∇f_i(x_i⁺)                                                   MoTEF: (1 - λ)m_i + λ∇f_i(x_i⁺)
    v_i⁺ = v_i - γ Σ_j w_ij (g_i - g_j) + m_i⁺ - m_i
    g_i⁺ = g_i + C(v_i⁺ - g_i)                                          another

from v_i⁰ = m_i⁰ = ∇f_i(x_i⁰) and g_i⁰ = 0. Zhao, Li, Li, Richtárik and Chi, "BEER: fast O(1/T) rate for decentralized
nonconvex optimization with communication compression" (2022), Algorithm 1. Islamov, Gao and Stich, "Near optimal
decentralized optimization with compression and momentum tracking" (2024), Algorithm 1, whose λ is 1 - β here; with
β = 0 it is BEER. C is a contraction such as top-k, or an unbiased quantizer scaled by α = 1/(1+ω).

For smooth losses, convex or not, the mean of ‖∇f(x̄)‖² over T iterations is O(1/T) with full gradients, and convergence
is linear where the Polyak-Łojasiewicz inequality holds, as for strongly convex losses. With batches, MoTEF's momentum
averages their noise. The first gradient is a full one, which the first iteration pays for. Both messages of a node draw
the same random numbers.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.c_gt import tracking_step_sizes
from lessbits.methods.common import start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import Messages, one_for_all
from lessbits.methods.outbox import Outbox
from lessbits.methods.request import Suggestion
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor


class BeerState(NamedTuple):
    """Iterate x, tracker v, averaged gradient m; memories h and g, and their disagreements; and option D's anchor."""

    x: jax.Array
    tracker: jax.Array
    gradient: jax.Array
    memory: Any
    tracker_memory: Any
    disagreement: jax.Array
    tracker_disagreement: jax.Array
    anchor: Anchor | None


@pytree
class Beer(Method):
    """BEER: finds stationary points of any smooth losses, with biased compressors too. Linear if strongly convex.

    Attributes:
        gamma: Step size γ of gossip.
        eta: Step size η of the gradient.
        alpha: Scale α of a compressed difference.
        quantizer: The compressor C of messages.
        gradients: The gradients to take: option and batch size.
    """

    gamma: float
    eta: float
    alpha: float
    quantizer: Compressor
    gradients: Gradients = static(default=Gradients())

    name = "beer"
    step_sizes: ClassVar[tuple[StepSize, ...]] = (
        StepSize("gamma", "γ", "step size of gossip"),
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "scale of a compressed difference", derived=True, kind="memory"),
    )
    compresses = True
    mixes = False  # γ damps any weights

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return small step sizes of the theorem's order, or practical ones; α is 1/(1+ω), or 1 for contractions."""
        return tracking_step_sizes(request)

    @property
    def exchange(self) -> Messages:
        """The messages about one vector: the same to all neighbours."""
        return one_for_all(self.quantizer, self.alpha)

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The compressor, for x and for v."""
        return (self.quantizer, self.quantizer)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> BeerState:
        """Return the first state: any x⁰ and h⁰, v⁰ = m⁰ = ∇F(x⁰), and g⁰ = 0."""
        x = start_at(problem, local.nodes, start)
        gradient, exchange = problem.gradient(x), self.exchange
        memory, tracker_memory = exchange.init(local, start.h, x), exchange.init(local, None, x)
        zeros = jnp.zeros_like(x)
        known = zeros if self.quantizer.lossless else memory.g
        anchor = self.gradients.init(problem, x)
        return BeerState(x, gradient, gradient, memory, tracker_memory, known, zeros, anchor)

    def averaged(self, average: jax.Array, gradient: jax.Array) -> jax.Array:
        """Return m⁺."""
        return gradient

    def send(
        self, step: Step, state: BeerState, problem: Problem, local: LocalNetwork
    ) -> tuple[BeerState, Outbox, jax.Array]:
        """Step along the tracker, track the gradient at x⁺, and compress the differences of both to their memories."""
        x = state.x - self.gamma * state.disagreement - self.eta * state.tracker
        gradient, anchor, work = self.gradients.take(step, x, state.anchor, problem, local)
        if self.gradients.option != "D":  # whose anchor has the first gradient
            work = work + problem.counts * (step.iteration == 0).astype(problem.counts.dtype)
        average = self.averaged(state.gradient, gradient)
        tracker = state.tracker - self.gamma * state.tracker_disagreement + (average - state.gradient)
        of_x = self.exchange.send(step, x, state.memory, local)
        of_tracker = self.exchange.send(step, tracker, state.tracker_memory, local)
        return state._replace(x=x, tracker=tracker, gradient=average, anchor=anchor), of_x + of_tracker, work

    def receive(self, step: Step, state: BeerState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> BeerState:
        """Move the memories, whose disagreements the next iteration uses."""
        of_x, memory = self.exchange.receive(outbox[:1], inbox[:1], state.memory, local)
        of_tracker, tracker_memory = self.exchange.receive(outbox[1:], inbox[1:], state.tracker_memory, local)
        if not self.quantizer.lossless:  # the memories moved by α times what was sent
            of_x, of_tracker = memory.g, tracker_memory.g
        return state._replace(
            memory=memory, tracker_memory=tracker_memory, disagreement=of_x, tracker_disagreement=of_tracker
        )

    def suspect(self, problem: Problem) -> str:
        """Return η if it is above 2/L, else γ."""
        return "eta" if self.gradients.too_large(float(self.eta), problem) else "gamma"


@pytree
class Motef(Beer):
    """MoTEF: BEER with averaged gradients, for stochastic ones.

    Attributes:
        gamma: Step size γ of gossip.
        eta: Step size η of the gradient.
        alpha: Scale α of a compressed difference.
        quantizer: The compressor C of messages.
        gradients: The gradients to take: option and batch size.
        momentum: Momentum β = 1 - λ, below 1.
    """

    momentum: float = 0.0

    name = "motef"
    step_sizes = (*Beer.step_sizes, StepSize("momentum", "β", "momentum", from_zero=True, kind="momentum"))

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return the step sizes of BEER, and β = 0.9 for batches, 0.5 for gradients without noise."""
        return {**tracking_step_sizes(request), "momentum": 0.9 if request.gradients.option == "C" else 0.5}

    def averaged(self, average: jax.Array, gradient: jax.Array) -> jax.Array:
        """Return m⁺ = βm + (1 - β)∇F(x⁺)."""
        return self.momentum * average + (1 - self.momentum) * gradient
