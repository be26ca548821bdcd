"""QDGD: decentralized gradient descent on quantized iterates, damped so that the noise averages out.

    x_i⁺ = x_i - ε_k ( Σ_j w_ij (x_i - Q(x_j)) + α_k ∇f_i(x_i) )

Reisizadeh, Mokhtari, Hassani and Pedarsani, "An exact quantized decentralized gradient descent algorithm" (2019).
The iterates themselves are quantized, not differences, so the noise does not vanish: ε must be small, and the method is
slow. Its theory fixes ε ~ T^(-3δ/2) and α ~ T^(-δ/2) for a run of T iterations and δ below 1/2. With `decay` both
shrink during the run: ε_k = ε / (1 + decay·k)^(3/4) and α_k = α / (1 + decay·k)^(1/4). Its bound on the error falls as
1/√k at best.
"""

from typing import NamedTuple

import jax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step, message_draws
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import decayed, start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.outbox import Message, Outbox
from lessbits.methods.request import Suggestion
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer


class QdgdState(NamedTuple):
    """Iterate, the gradient that `send` passes to `receive`, and option D's anchor."""

    x: jax.Array
    gradient: jax.Array
    anchor: Anchor | None


@pytree
class Qdgd(Method):
    """QDGD: quantizes iterates, not differences. It needs no memory, and converges very slowly.

    Attributes:
        epsilon: Step size ε of the whole update.
        alpha: Weight α of the gradient.
        quantizer: The unbiased compressor Q of messages.
        decay: Rate at which ε and α shrink.
        gradients: The gradients to take: option and batch size.
    """

    epsilon: float
    alpha: float
    quantizer: Quantizer
    decay: float = 0.0
    gradients: Gradients = static(default=Gradients())

    name = "qdgd"
    runs_with = ("silence", "churn", "loss")
    step_sizes = (
        StepSize("epsilon", "ε", "step size of the whole update"),
        StepSize("alpha", "α", "weight of the gradient"),
        StepSize("decay", "", "shrinks ε and α by the powers of its paper", from_zero=True, default=0.01),
    )
    compresses = True
    unbiased = True  # a biased one would move the limit
    mixes = False  # ε damps any weights

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return ε = 1/((1+ω)² λ_max) and α = 1/L, both with decay."""
        return {
            "epsilon": lambda: 1 / ((1 + request.omega) ** 2 * request.network.lambda_max),
            "alpha": lambda: 1 / request.smoothness,
        }

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of the one message per iteration."""
        return (self.quantizer,)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> QdgdState:
        """Return the first state, at any x⁰."""
        x = start_at(problem, local.nodes, start)
        return QdgdState(x, jax.numpy.zeros_like(x), self.gradients.init(problem, x))

    def send(
        self, step: Step, state: QdgdState, problem: Problem, local: LocalNetwork
    ) -> tuple[QdgdState, Outbox, jax.Array]:
        """Take the gradient, and send Q(x_i) to every neighbour."""
        gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
        draw = message_draws(step, local.nodes, per_link=False)
        payload = self.quantizer.quantize(state.x, self.quantizer.measure(state.x), draw)
        return QdgdState(state.x, gradient, anchor), (Message(payload, per_link=False),), work

    def receive(self, step: Step, state: QdgdState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> QdgdState:
        """Update x. A node uses its own iterate exactly, and its neighbours' with noise."""
        decode = self.quantizer.decode
        pull = local.weighted_sum(lambda slot: slot.own(state.x) - decode(inbox[0].take(slot.links)))
        epsilon = decayed(self.epsilon, self.decay, step.iteration, 0.75)
        alpha = decayed(self.alpha, self.decay, step.iteration, 0.25)
        return state._replace(x=state.x - epsilon * (pull + alpha * state.gradient))
