"""NIDS: gradient differences are mixed too, so the step size does not depend on the network.

    v  = 2x - x⁻ - η(∇F(x) - ∇F(x⁻))
    x⁺ = v - ½Wv

where x⁻ is the previous iterate, and v⁰ = x⁰ - η∇F(x⁰). Li, Shi and Yan, "A decentralized proximal-gradient method with
network independent step-sizes and separated convergence rates" (2019). Their first step x¹ = x⁰ - η∇F(x⁰) is not mixed:
our x⁰ is their x¹. LEAD is the compressed form.
"""

from typing import NamedTuple

import jax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import disagreements, share
from lessbits.methods.outbox import Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem


class NidsState(NamedTuple):
    """Iterate (v between `send` and `receive`), x⁻ - η∇F(x⁻), and option D's anchor."""

    x: jax.Array
    descended: jax.Array
    anchor: Anchor | None


@pytree
class Nids(Method):
    """NIDS: exact and linear, with η up to 2/L on every network.

    Attributes:
        eta: Step size η of the gradient.
        gradients: The gradients to take: option and batch size.
    """

    eta: float
    gradients: Gradients = static(default=Gradients())

    name = "nids"
    runs_with = ("silence", "churn", "loss")
    step_sizes = (StepSize("eta", "η", "step size of the gradient"),)

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return η = 1/L."""
        return {"eta": 1 / request.smoothness}

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> NidsState:
        """Return the first state, at any x⁰. With x⁻ - η∇F(x⁻) = x⁰, v⁰ is x⁰ - η∇F(x⁰)."""
        x = start_at(problem, local.nodes, start)
        return NidsState(x, x, self.gradients.init(problem, x))

    def send(
        self, step: Step, state: NidsState, problem: Problem, local: LocalNetwork
    ) -> tuple[NidsState, Outbox, jax.Array]:
        """Compute v, and send it."""
        gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
        descended = state.x - self.eta * gradient
        v = state.x + (descended - state.descended)
        return NidsState(v, descended, anchor), share(v), work

    def receive(self, step: Step, state: NidsState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> NidsState:
        """Mix with ½(I + M)."""
        (disagreement,) = disagreements(outbox, inbox, local)
        return state._replace(x=state.x - 0.5 * disagreement)
