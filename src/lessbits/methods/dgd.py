"""Decentralized gradient descent, and D-SGD: step along the own gradient, then average with the neighbours.

    x_i⁺ = Σ_j m_ij (x_j - η_k ∇f_j(x_j)),    M = I - W,    η_k = η / (1 + decay·k)

Nedić and Ozdaglar, "Distributed subgradient methods for multi-agent optimization" (2009); with stochastic gradients
(option C) it is D-SGD as in Koloskova et al., "A unified theory of decentralized SGD" (2020), whose order, step first
and average then, is taken here: it allows η up to 2/L on every network, and is what Choco compresses.

With a fixed η it stops at a bias, the solution of (M⁻¹ - I)x + η∇F(x) = 0, of size O(η); with `decay` it converges, but
sublinearly.
"""

from typing import NamedTuple

import jax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.methods.base import Method, MethodRequest, Outbox, Start, StepSize
from lessbits.methods.common import decayed, start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import disagreements, share
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem


class DgdState(NamedTuple):
    """Iterate, and option D's anchor."""

    x: jax.Array
    anchor: Anchor | None


@pytree
class Dgd(Method):
    """Simple, and biased: a sound start, and the parent of Choco."""

    eta: float
    decay: float = 0.0
    gradients: Gradients = static(default=Gradients())

    name = "dgd"
    step_sizes = (
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("decay", "", "shrinks steps as 1/(1 + decay·k)", from_zero=True, derived=True),
    )

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """η = 1/L, not decreasing."""
        return {"eta": 1 / request.smoothness, "decay": 0.0}

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> DgdState:
        """Any x⁰."""
        x = start_at(problem, local.nodes, start)
        return DgdState(x, self.gradients.init(problem, x))

    def send(
        self, step: Step, state: DgdState, problem: Problem, local: LocalNetwork
    ) -> tuple[DgdState, Outbox, jax.Array]:
        """Step along the gradient."""
        gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
        x = state.x - decayed(self.eta, self.decay, step.iteration) * gradient
        return DgdState(x, anchor), share(x), work

    def receive(self, step: Step, state: DgdState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> DgdState:
        """Average: x - Wx."""
        (disagreement,) = disagreements(outbox, inbox, local)
        return state._replace(x=state.x - disagreement)
