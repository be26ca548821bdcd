"""Decentralized gradient descent, and D-SGD: each node takes a gradient step, then averages with its neighbours.

    x_i⁺ = Σ_j m_ij (x_j - η_k ∇f_j(x_j)),    M = I - W,    η_k = η / (1 + decay·k)

Nedić and Ozdaglar, "Distributed subgradient methods for multi-agent optimization" (2009); with stochastic gradients
(option C) it is D-SGD as in Koloskova et al., "A unified theory of decentralized SGD" (2020). As there, nodes first
take the step, then average. This order allows η up to 2/L on every network, and is the one that Choco compresses.

With a fixed η it converges to the solution of (M⁻¹ - I)x + η∇F(x) = 0, which has a bias of size O(η). With `decay` it
converges to the solution, but sublinearly.
"""

from typing import NamedTuple

import jax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import decayed, start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import disagreements, share
from lessbits.methods.outbox import Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem


class DgdState(NamedTuple):
    """Iterate, and option D's anchor."""

    x: jax.Array
    anchor: Anchor | None


@pytree
class Dgd(Method):
    """Decentralized gradient descent: simple, but biased at a fixed step size. Choco is its compressed form.

    Attributes:
        eta: Step size η of the gradient.
        decay: Rate at which steps shrink, as 1/(1 + decay·k).
        gradients: The gradients to take: option and batch size.
    """

    eta: float
    decay: float = 0.0
    gradients: Gradients = static(default=Gradients())

    name = "dgd"
    runs_with = ("silence", "churn", "loss")
    step_sizes = (
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("decay", "", "shrinks steps as 1/(1 + decay·k)", from_zero=True, default=0.0),
    )

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return η = 1/L, without decay."""
        return {"eta": 1 / request.smoothness}

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> DgdState:
        """Return the first state, at any x⁰."""
        x = start_at(problem, local.nodes, start)
        return DgdState(x, self.gradients.init(problem, x))

    def send(
        self, step: Step, state: DgdState, problem: Problem, local: LocalNetwork
    ) -> tuple[DgdState, Outbox, jax.Array]:
        """Take a gradient step, and send the result."""
        gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
        x = state.x - decayed(self.eta, self.decay, step.iteration) * gradient
        return DgdState(x, anchor), share(x), work

    def receive(self, step: Step, state: DgdState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> DgdState:
        """Average: x - Wx."""
        (disagreement,) = disagreements(outbox, inbox, local)
        return state._replace(x=state.x - disagreement)
