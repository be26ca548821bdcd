"""Gradient tracking: a second vector y, mixed like x, tracks the average gradient.

DIGing (`gradient-tracking`; Nedić, Olshevsky and Shi, 2017; Qu and Li, 2018), with one exchange of two vectors:

    x⁺ = Mx - ηy
    y⁺ = My + ∇F(x⁺) - ∇F(x),    y⁰ = ∇F(x⁰)

ATC, adapt then combine (`gradient-tracking-atc`; Xu et al., 2015; Di Lorenzo and Scutari, 2016), which allows larger
steps but needs two exchanges, of one vector each, per gradient:

    x⁺ = M(x - ηy)
    y⁺ = M(y + ∇F(x⁺) - ∇F(x))

M = I - W. The average of y always equals the average of the gradients.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import spectral_gap, start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import disagreements, share
from lessbits.methods.outbox import Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor
from lessbits.quantizers.exact import Exact


class TrackingState(NamedTuple):
    """Iterate, tracker y (My after `receive`), the newest gradient, and option D's anchor."""

    x: jax.Array
    tracker: jax.Array
    gradient: jax.Array
    anchor: Anchor | None


@pytree
class GradientTracking(Method):
    """DIGing: exact and linear. The proven η shrinks with the square of the spectral gap.

    Attributes:
        eta: Step size η of the gradient.
        gradients: The gradients to take: option and batch size.
    """

    eta: float
    gradients: Gradients = static(default=Gradients())

    name = "gradient-tracking"
    runs_with = ("silence", "churn", "loss")
    step_sizes = (StepSize("eta", "η", "step size of the gradient"),)

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return η = (1 - σ)²/(3L) (practical: (1 - σ)/L), σ being the second largest modulus of M's eigenvalues.

        Theorems allow less by a constant factor. With equal quadratic losses it is stable up to (2 - λ_max)²/(2L).
        """
        gap = max(spectral_gap(request.network), 1e-6)
        return {"eta": (gap if request.practical else gap**2 / 3) / request.smoothness}

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """Exact messages, for x and for y."""
        return (Exact(), Exact())

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> TrackingState:
        """Return the first state, at any x⁰. As tracker and gradient are zero, the first `send` makes y⁰ = ∇F(x⁰)."""
        x = start_at(problem, local.nodes, start)
        return TrackingState(x, jnp.zeros_like(x), jnp.zeros_like(x), self.gradients.init(problem, x))

    def send(
        self, step: Step, state: TrackingState, problem: Problem, local: LocalNetwork
    ) -> tuple[TrackingState, Outbox, jax.Array]:
        """Add the change of the gradient to the tracker, and send x and y."""
        gradient, anchor, work = self.take(step, state.x, state.anchor, problem, local)
        tracker = state.tracker + (gradient - state.gradient)
        return TrackingState(state.x, tracker, gradient, anchor), share(state.x, tracker), work

    def take(
        self, step: Step, x: jax.Array, anchor: Anchor | None, problem: Problem, local: LocalNetwork
    ) -> tuple[jax.Array, Anchor | None, jax.Array]:
        """Return the gradients, the new anchor, and the number of sample gradients taken per node."""
        return self.gradients.take(step, x, anchor, problem, local)

    def receive(
        self, step: Step, state: TrackingState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> TrackingState:
        """Mix both vectors, and take a step along the tracker."""
        of_x, of_tracker = disagreements(outbox, inbox, local)
        x = state.x - of_x - self.eta * state.tracker
        return state._replace(x=x, tracker=state.tracker - of_tracker)


@pytree
class AtcTracking(Method):
    """Adapt then combine: two exchanges per gradient. Even iterations update x, odd ones y.

    Attributes:
        eta: Step size η of the gradient.
        gradients: The gradients to take: option and batch size.
    """

    eta: float
    gradients: Gradients = static(default=Gradients())

    name = "gradient-tracking-atc"
    step_sizes = (StepSize("eta", "η", "step size of the gradient"),)

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return the step size of DIGing."""
        return GradientTracking.suggest(request)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> TrackingState:
        """Return the first state: any x⁰, and y⁰ = ∇F(x⁰), a full gradient that the first iteration pays for."""
        x = start_at(problem, local.nodes, start)
        gradient = problem.gradient(x)
        return TrackingState(x, gradient, gradient, self.gradients.init(problem, x))

    def send(
        self, step: Step, state: TrackingState, problem: Problem, local: LocalNetwork
    ) -> tuple[TrackingState, Outbox, jax.Array]:
        """Even iterations send x - ηy. Odd ones take the gradient at the new x, and send y plus its change."""

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
        """Mix the vector that was sent."""
        (disagreement,) = disagreements(outbox, inbox, local)
        moves_x = step.iteration % 2 == 0
        return state._replace(
            x=jnp.where(moves_x, state.x - disagreement, state.x),
            tracker=jnp.where(moves_x, state.tracker, state.tracker - disagreement),
        )

    def passes(self, problem: Problem) -> float:
        """Return the share of samples per iteration: one gradient every other iteration."""
        return self.gradients.passes(problem) / 2
