"""C-GT: gradient tracking with compressed differences of both vectors.

    x̂_i = h_i + Q(x_i - h_i),   h_i⁺ = h_i + αQ(x_i - h_i)          one message, the same to all neighbours
    ŷ_i = d_i + Q(y_i - d_i),   d_i⁺ = d_i + αQ(y_i - d_i)          another
    x_i⁺ = x_i - γ Σ_j w_ij (x̂_i - x̂_j) - ηy_i
    y_i⁺ = y_i - γ Σ_j w_ij (ŷ_i - ŷ_j) + ∇f_i(x_i⁺) - ∇f_i(x_i),    y_i⁰ = ∇f_i(x_i⁰)

Liao, Li, Huang and Pu, "A compressed gradient tracking method for decentralized optimization with linear convergence"
(2022), Algorithm 1, with their α_x = α_y = α and d⁰ = 0. Unbiased quantizers take α = 1/(1+ω), contractions α = 1.
Their Theorem 1 has linear convergence for strongly convex smooth losses if γ and η are small enough. With exact
messages and γ = 1 it is DIGing (`gradient-tracking`). Both messages of a node draw the same random numbers.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import kept_share, spectral_gap, start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import Messages, one_for_all
from lessbits.methods.outbox import Outbox
from lessbits.methods.request import Suggestion
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor

LONGEST = 0.3  # gradient step, as a share of 1/L


class CompressedTrackingState(NamedTuple):
    """Iterate, tracker y, the newest gradient, the memories of x and of y, and option D's anchor."""

    x: jax.Array
    tracker: jax.Array
    gradient: jax.Array
    memory: Any
    tracker_memory: Any
    anchor: Anchor | None


@pytree
class CompressedTracking(Method):
    """C-GT: exact and linear with compressed messages, biased or not. It sends two per iteration, where LEAD sends one.

    Attributes:
        gamma: Step size γ of gossip.
        eta: Step size η of the gradient.
        alpha: Step size α of the memories.
        quantizer: The compressor Q of messages.
        gradients: The gradients to take: option and batch size.
    """

    gamma: float
    eta: float
    alpha: float
    quantizer: Compressor
    gradients: Gradients = static(default=Gradients())

    name = "c-gt"
    step_sizes = (
        StepSize("gamma", "γ", "step size of gossip"),
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memory", derived=True, kind="memory"),
    )
    compresses = True
    mixes = False  # γ damps any weights

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return small step sizes of the right order, or practical ones; α is 1/(1+ω), or 1 for contractions."""
        return tracking_step_sizes(request)

    @property
    def exchange(self) -> Messages:
        """The messages about one vector: the same to all neighbours."""
        return one_for_all(self.quantizer, self.alpha)

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer, for x and for y."""
        return (self.quantizer, self.quantizer)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> CompressedTrackingState:
        """Return the first state: any x⁰ and h⁰. As tracker and gradient are zero, the first `send` makes y⁰."""
        x = start_at(problem, local.nodes, start)
        zeros, exchange = jnp.zeros_like(x), self.exchange
        memories = exchange.init(local, start.h, x), exchange.init(local, None, x)
        return CompressedTrackingState(x, zeros, zeros, *memories, self.gradients.init(problem, x))

    def send(
        self, step: Step, state: CompressedTrackingState, problem: Problem, local: LocalNetwork
    ) -> tuple[CompressedTrackingState, Outbox, jax.Array]:
        """Add the change of the gradient to the tracker, and compress the differences of x and y to their memories."""
        gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
        tracker = state.tracker + (gradient - state.gradient)
        of_x = self.exchange.send(step, state.x, state.memory, local)
        of_tracker = self.exchange.send(step, tracker, state.tracker_memory, local)
        return state._replace(tracker=tracker, gradient=gradient, anchor=anchor), of_x + of_tracker, work

    def receive(
        self, step: Step, state: CompressedTrackingState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> CompressedTrackingState:
        """Mix both vectors, and take a step along the tracker."""
        of_x, memory = self.exchange.receive(outbox[:1], inbox[:1], state.memory, local)
        of_tracker, tracker_memory = self.exchange.receive(outbox[1:], inbox[1:], state.tracker_memory, local)
        return state._replace(
            x=state.x - self.gamma * of_x - self.eta * state.tracker,
            tracker=state.tracker - self.gamma * of_tracker,
            memory=memory,
            tracker_memory=tracker_memory,
        )

    def suspect(self, problem: Problem) -> str:
        """Return η if it is above 2/L, else γ."""
        return "eta" if self.gradients.too_large(float(self.eta), problem) else "gamma"


def tracking_step_sizes(request: MethodRequest) -> dict[str, Suggestion]:
    """Return γ = δ(1 - σ) and η = γ(1 - σ)²/L (practical: δ and γ(1 - σ)/(2L)), and α = 1/(1+ω), or 1 for contractions.

    δ is the share that the compressor keeps, and σ the second largest modulus of the eigenvalues of I - W. Theorems of
    compressed tracking have these orders, with constants below 1 that they do not name. η is 0.3/L at most: with 1/L
    runs diverge on complete networks, where 1 - σ is 1.
    """
    kept, alpha = kept_share(request, typical=request.practical)
    gap = max(spectral_gap(request.network), 1e-6)
    gamma = request.given.get("gamma", kept if request.practical else kept * gap)
    slow = gap / 2 if request.practical else gap**2
    return {"gamma": gamma, "eta": lambda: min(gamma * slow, LONGEST) / request.smoothness, "alpha": alpha}
