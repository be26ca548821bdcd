"""Choco-SGD and Choco-Gossip: gossip on public copies x̂, which all neighbours know, moved by compressed differences.

    x_i' = x_i - η_k ∇f_i(x_i)                     η_k = η / (1 + decay·k);  Choco-Gossip: η = 0
    x̂_i⁺ = x̂_i + α Q(x_i' - x̂_i)                  what is sent
    x_i⁺ = x_i' - γ Σ_j w_ij (x̂_i⁺ - x̂_j⁺)

Koloskova, Stich and Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication"
(2019). It accepts biased contractions, such as top-k, with α = 1, and unbiased quantizers scaled by α = 1/(1+ω). With
exact messages and γ = 1 it is D-SGD. As gossip it converges linearly to the average. On other losses it has the bias of
D-SGD, unless η decreases.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.errors import InputError
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import decayed, kept_share, spectral_gap, start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import Messages, one_for_all
from lessbits.methods.outbox import Outbox
from lessbits.methods.request import Suggestion
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor


class ChocoState(NamedTuple):
    """Iterate, memory (x̂ and its disagreement), and option D's anchor."""

    x: jax.Array
    memory: Any
    anchor: Anchor | None


@pytree
class Choco(Method):
    """Choco: the strongest compressed competitor in the paper. It accepts biased compressors too.

    Attributes:
        gamma: Step size γ of gossip.
        eta: Step size η of the gradient; 0 for Choco-Gossip.
        alpha: Scale α of a compressed difference.
        quantizer: The compressor Q of messages.
        decay: Rate at which gradient steps shrink, as 1/(1 + decay·k).
        gradients: The gradients to take: option and batch size.
    """

    gamma: float
    eta: float
    alpha: float
    quantizer: Compressor
    decay: float = 0.0
    gradients: Gradients = static(default=Gradients())

    name = "choco"
    runs_with = ("silence", "churn", "loss")
    step_sizes = (
        StepSize("gamma", "γ", "step size of gossip"),
        StepSize("eta", "η", "step size of the gradient", from_zero=True),
        StepSize("alpha", "α", "scale of a compressed difference", derived=True, kind="memory"),
        StepSize("decay", "", "shrinks steps as 1/(1 + decay·k)", from_zero=True, default=0.0),
    )
    compresses = True
    mixes = False  # γ damps any weights

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return γ of their Theorem 2 (practical: δ, the share that the compressor keeps), and η = 1/L (consensus: 0).

        η does not decrease by default. Give `decay`, about ημ/10, to remove the bias.
        """
        kept, alpha = kept_share(request)
        return {
            "gamma": kept if request.practical else lambda: _proven_gamma(request.network, kept),
            "eta": 0.0 if request.problem.averages else lambda: 1 / request.smoothness,
            "alpha": alpha,
        }

    @property
    def exchange(self) -> Messages:
        """The messages: the same vector to all neighbours."""
        return one_for_all(self.quantizer, self.alpha)

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of the one message per iteration."""
        return (self.quantizer,)

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError for a scale of exact messages, which have none."""
        super().check(problem, network)
        if self.quantizer.lossless and self.alpha != 1:
            raise InputError(f"alpha is {self.alpha:g}, but exact messages need no scale: leave it out")

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> ChocoState:
        """Return the first state: any x⁰, and x̂⁰ = h⁰."""
        x = start_at(problem, local.nodes, start)
        return ChocoState(x, self.exchange.init(local, start.h, x), self.gradients.init(problem, x))

    def send(
        self, step: Step, state: ChocoState, problem: Problem, local: LocalNetwork
    ) -> tuple[ChocoState, Outbox, jax.Array]:
        """Take a gradient step, and compress the difference to the public copy."""
        gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
        x = state.x - decayed(self.eta, self.decay, step.iteration) * gradient
        work = jnp.where(self.eta > 0, work, 0)  # gossip alone needs no gradient
        return state._replace(x=x, anchor=anchor), self.exchange.send(step, x, state.memory, local), work

    def receive(self, step: Step, state: ChocoState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> ChocoState:
        """Take a gossip step on the new public copies."""
        disagreement, memory = self.exchange.receive(outbox, inbox, state.memory, local)
        if not self.quantizer.lossless:
            disagreement = memory.g  # of x̂⁺, which moved by α times what was sent
        return state._replace(x=state.x - self.gamma * disagreement, memory=memory)

    def suspect(self, problem: Problem) -> str:
        """Return η if it is above 2/L, else γ."""
        return "eta" if self.gradients.too_large(float(self.eta), problem) else "gamma"

    @classmethod
    def quantizers_to_try(cls, dim: int) -> list[str]:
        """Return the quantizers to try, biased ones too."""
        biased = ["grid:1", "grid:2", "grid:5", f"top-{max(1, dim // 20)}", f"top-{max(1, dim // 5)}"]
        return super().quantizers_to_try(dim) + biased


def _proven_gamma(network: Network, kept: float) -> float:
    """Return γ of their Theorem 2, for a compressor that keeps this share."""
    gap, largest = spectral_gap(network), network.lambda_max
    if gap <= 0:
        raise InputError(
            f"the theory of choco needs λ_max(W) below 2, but it is {largest:.4g}: take metropolis weights, or give "
            "gamma"
        )
    return gap**2 * kept / (16 * gap + gap**2 + 4 * largest**2 + 2 * gap * largest**2 - 8 * gap * kept)
