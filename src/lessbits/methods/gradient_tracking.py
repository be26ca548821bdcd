"""Gradient tracking: a second vector y, mixed like x, follows the average gradient.

DIGing (`gradient-tracking`; Nedić, Olshevsky and Shi, 2017; Qu and Li, 2018), one exchange of two vectors:

    x⁺ = Mx - ηy
    y⁺ = My + ∇F(x⁺) - ∇F(x),    y⁰ = ∇F(x⁰)

ATC, adapt then combine (`gradient-tracking-atc`; Xu et al., 2015; Di Lorenzo and Scutari, 2016), which allows larger
steps but needs two exchanges, of one vector each, for a gradient:

    x⁺ = M(x - ηy)
    y⁺ = M(y + ∇F(x⁺) - ∇F(x))

M = I - W. The average of y is the average of the gradients at every moment.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.methods.base import Method, MethodRequest, Outbox, Start, StepSize
from lessbits.methods.common import spectral_gap, start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import disagreements, share
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor
from lessbits.quantizers.exact import Exact


class TrackingState(NamedTuple):
    """Iterate, tracker (after `receive` My), the newest gradient, and option D's anchor."""

    x: jax.Array
    tracker: jax.Array
    gradient: jax.Array
    anchor: Anchor | None


@pytree
class GradientTracking(Method):
    """DIGing: exact and linear; η shrinks with the square of the spectral gap."""

    eta: float
    gradients: Gradients = static(default=Gradients())

    name = "gradient-tracking"
    step_sizes = (StepSize("eta", "η", "step size of the gradient"),)

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """η = (1 - σ)²/(3L), with σ the second largest modulus of M's eigenvalues (practical: (1 - σ)/L).

        Theorems allow less by a constant factor; with equal quadratic losses it is stable up to (2 - λ_max)²/(2L).
        """
        gap = max(spectral_gap(request.network), 1e-6)
        return {"eta": (gap if request.practical else gap**2 / 3) / request.smoothness}

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """x and y as they are."""
        return (Exact(), Exact())

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> TrackingState:
        """Any x⁰. With a tracker and a gradient of zero the first `send` makes y⁰ = ∇F(x⁰)."""
        x = start_at(problem, local.nodes, start)
        return TrackingState(x, jnp.zeros_like(x), jnp.zeros_like(x), self.gradients.init(problem, x))

    def send(
        self, step: Step, state: TrackingState, problem: Problem, local: LocalNetwork
    ) -> tuple[TrackingState, Outbox, jax.Array]:
        """Move the tracker by the gradient's change, and send x and y."""
        gradient, anchor, work = self.take(step, state.x, state.anchor, problem, local)
        tracker = state.tracker + (gradient - state.gradient)
        return TrackingState(state.x, tracker, gradient, anchor), share(state.x, tracker), work

    def take(
        self, step: Step, x: jax.Array, anchor: Anchor | None, problem: Problem, local: LocalNetwork
    ) -> tuple[jax.Array, Anchor | None, jax.Array]:
        """Return gradients, anchor and work."""
        return self.gradients.take(step, x, anchor, problem, local)

    def receive(
        self, step: Step, state: TrackingState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> TrackingState:
        """Mix both, and step along the tracker."""
        of_x, of_tracker = disagreements(outbox, inbox, local)
        x = state.x - of_x - self.eta * state.tracker
        return state._replace(x=x, tracker=state.tracker - of_tracker)


@pytree
class AtcTracking(Method):
    """Adapt then combine: two exchanges for a gradient, in turn; even iterations move x, odd ones y."""

    eta: float
    gradients: Gradients = static(default=Gradients())

    name = "gradient-tracking-atc"
    step_sizes = (StepSize("eta", "η", "step size of the gradient"),)

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """As for DIGing."""
        return GradientTracking.suggest(request)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> TrackingState:
        """Any x⁰, and y⁰ = ∇F(x⁰): the whole gradient, whatever the option; the first iteration pays for it."""
        x = start_at(problem, local.nodes, start)
        gradient = problem.gradient(x)
        return TrackingState(x, gradient, gradient, self.gradients.init(problem, x))

    def send(
        self, step: Step, state: TrackingState, problem: Problem, local: LocalNetwork
    ) -> tuple[TrackingState, Outbox, jax.Array]:
        """Even: send x - ηy. Odd: take the gradient at the new x, and send y with its change."""

        def adapt_x(state: TrackingState) -> tuple[TrackingState, jax.Array]:
            return state._replace(x=state.x - self.eta * state.tracker), problem.counts * (step.iteration == 0).astype(
                problem.counts.dtype
            )

        def adapt_tracker(state: TrackingState) -> tuple[TrackingState, jax.Array]:
            gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
            tracker = state.tracker + (gradient - state.gradient)
            return TrackingState(state.x, tracker, gradient, anchor), work

        moves_x = step.iteration % 2 == 0
        state, work = lax.cond(moves_x, adapt_x, adapt_tracker, state)
        return state, share(jnp.where(moves_x, state.x, state.tracker)), work

    def receive(
        self, step: Step, state: TrackingState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> TrackingState:
        """Mix what was sent."""
        (disagreement,) = disagreements(outbox, inbox, local)
        moves_x = step.iteration % 2 == 0
        return state._replace(
            x=jnp.where(moves_x, state.x - disagreement, state.x),
            tracker=jnp.where(moves_x, state.tracker, state.tracker - disagreement),
        )

    def passes(self, problem: Problem) -> float:
        """A gradient every other iteration."""
        return self.gradients.passes(problem) / 2
