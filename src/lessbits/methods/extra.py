"""EXTRA: decentralized gradient descent with a sum that corrects its bias.

    x⁺ = x - Wx - η∇F(x) + z
    z⁺ = z - ½Wx

Shi, Ling, Wu and Yin, "EXTRA: an exact first-order algorithm for decentralized consensus optimization" (2015). They
write x^{k+2} = (I + M)x^{k+1} - ½(I + M)x^k - η(∇F(x^{k+1}) - ∇F(x^k)) with M = I - W; summing over k gives the lines
above, with z^k = -½W Σ_{t<k} x^t. Σ_i z_i stays zero.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import disagreements, share
from lessbits.methods.outbox import Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem


class ExtraState(NamedTuple):
    """Iterate, correction z, the gradient that `send` passes to `receive`, and option D's anchor."""

    x: jax.Array
    z: jax.Array
    gradient: jax.Array
    anchor: Anchor | None


@pytree
class Extra(Method):
    """EXTRA: exact and linear. η must shrink with 1 - λ_max/2; NIDS does not have this limit.

    Attributes:
        eta: Step size η of the gradient.
        gradients: The gradients to take: option and batch size.
    """

    eta: float
    gradients: Gradients = static(default=Gradients())

    name = "extra"
    runs_with = ("silence", "churn", "loss")
    step_sizes = (StepSize("eta", "η", "step size of the gradient"),)

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return η = (1 - λ_max/2)/L. The method is stable up to twice that."""
        return {"eta": (1 - request.network.lambda_max / 2) / request.smoothness}

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> ExtraState:
        """Return the first state: any x⁰, and a z⁰ that sums to zero."""
        x = start_at(problem, local.nodes, start)
        z = jnp.zeros_like(x) if start.z is None else self.eta * jnp.asarray(start.z, x.dtype)[local.nodes]
        return ExtraState(x, z, jnp.zeros_like(x), self.gradients.init(problem, x))

    def send(
        self, step: Step, state: ExtraState, problem: Problem, local: LocalNetwork
    ) -> tuple[ExtraState, Outbox, jax.Array]:
        """Take the gradient, and send x."""
        gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
        return state._replace(gradient=gradient, anchor=anchor), share(state.x), work

    def receive(self, step: Step, state: ExtraState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> ExtraState:
        """Mix, step and correct."""
        (disagreement,) = disagreements(outbox, inbox, local)
        x = state.x - disagreement - self.eta * state.gradient + state.z
        return state._replace(x=x, z=state.z - 0.5 * disagreement)
