"""LEAD: NIDS with compressed differences.

    y_i  = x_i - η(∇f_i(x_i) - z_i)
    ŷ_i  = h_i + Q(y_i - h_i),   h_i⁺ = h_i + αQ(y_i - h_i)        one message, the same to all neighbours
    z_i⁺ = z_i - γ/(2η) Σ_j w_ij (ŷ_i - ŷ_j)
    x_i⁺ = x_i - η(∇f_i(x_i) - z_i⁺)

Liu, Li, Wang, Tang and Yan, "Linear convergent decentralized optimization with compression" (2020); their D is our -z,
in the sign of the paper's Algorithm 1. The last line corrects the iterate with the *new* dual variable, which
Algorithm 1 does not: on consensus at η = 1/L the two agree but for when x is looked at, elsewhere they differ, although
the paper's footnote says otherwise. With exact messages and γ = 1 it is NIDS. Their first step is not mixed: our x⁰ is
their x¹.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lessbits.errors import InputError
from lessbits.methods.base import Outbox, Start
from lessbits.methods.baseline import Baseline, start_at
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import Messages, one_for_all
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.pytrees import pytree, static
from lessbits.quantizers.base import Compressor, Quantizer
from lessbits.randomness import Step


class LeadState(NamedTuple):
    """Iterate (between `send` and `receive` y), dual variable, memory, and option D's anchor."""

    x: jax.Array
    z: jax.Array
    memory: Any
    anchor: Anchor | None


@pytree
class Lead(Baseline):
    """Exact, linear and compressed: often the fewest bits."""

    gamma: float
    eta: float
    alpha: float
    quantizer: Quantizer
    gradients: Gradients = static(default=Gradients())

    name = "lead"
    step_size_names = ("gamma", "eta", "alpha")
    compresses = True
    mixes = False  # γ damps any weights

    @classmethod
    def suggest(
        cls, problem: Problem, network: Network, compressor: Compressor, gradients: Gradients, practical: bool
    ) -> dict[str, float]:
        """Those of their Theorem 1, or the practical η = 1/L, γ = α = 1/(1+ω) for λ_max at most 2."""
        smoothness = gradients.smoothness(problem)
        omega = compressor.omega(problem.dim) if isinstance(compressor, Quantizer) else 0.0
        largest = network.lambda_max
        if practical or omega == 0:
            gamma = min(1.0, 2 / largest) / (1 + omega)
            return {"gamma": gamma, "eta": 1 / smoothness, "alpha": 1 / (1 + omega)}
        if problem.convexity <= 0:
            raise InputError(
                "the theory of lead needs strong convexity, but μ = 0 here: give gamma, eta and alpha, or take "
                "practical step sizes"
            )
        eta = 2 / (problem.convexity + smoothness)
        bend = problem.convexity * eta * (2 - problem.convexity * eta)
        gamma = 0.5 * min(2 / ((3 * omega + 1) * largest), 2 * bend / ((2 - bend) * omega * largest))
        reach = omega * largest * gamma
        alpha = (reach + 2) / (4 * (1 + omega)) * min((2 - largest * gamma) / (4 - largest * gamma), bend)
        return {"gamma": gamma, "eta": eta, "alpha": alpha}

    @property
    def exchange(self) -> Messages:
        """The same vector to all neighbours."""
        return one_for_all(self.quantizer, self.alpha)

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """One compressed difference."""
        return (self.quantizer,)

    def check(self, problem: Problem, network: Network) -> None:
        """Biased quantizers are outside its theory."""
        super().check(problem, network)
        self.check_unbiased(self.quantizer)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> LeadState:
        """Any x⁰ and h⁰, and a z⁰ that sums to zero."""
        x = start_at(problem, local.nodes, start)
        z = jnp.zeros_like(x) if start.z is None else jnp.asarray(start.z, x.dtype)[local.nodes]
        return LeadState(x, z, self.exchange.init(local, start.h, x), self.gradients.init(problem, x))

    def send(
        self, step: Step, state: LeadState, problem: Problem, local: LocalNetwork
    ) -> tuple[LeadState, Outbox, jax.Array]:
        """Find y, and compress its difference to the memory."""
        gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
        y = state.x - self.eta * (gradient - state.z)
        return state._replace(x=y, anchor=anchor), self.exchange.send(step, y, state.memory, local), work

    def receive(self, step: Step, state: LeadState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> LeadState:
        """The dual step; and x⁺ = y + η(z⁺ - z)."""
        disagreement, memory = self.exchange.receive(outbox, inbox, state.memory, local)
        z = state.z - self.gamma / (2 * self.eta) * disagreement
        return state._replace(x=state.x - 0.5 * self.gamma * disagreement, z=z, memory=memory)

    def suspect(self, problem: Problem) -> str:
        """The gradient step, or else the dual step."""
        return "eta" if self.gradients.too_large(float(self.eta), problem) else "gamma"
