"""LEAD with acceleration, for ill-conditioned losses: gradients are taken ahead of the iterate.

    g_i  = x_i + β(a_i - x_i)
    y_i  = x_i - η(∇f_i(g_i) + μ(x_i - g_i) - z_i)
    ŷ_i  = h_i + Q(y_i - h_i),   h_i⁺ = h_i + αQ(y_i - h_i)        one message, the same to all neighbours
    z_i⁺ = z_i - θ Σ_j w_ij (ŷ_i - ŷ_j)
    x_i⁺ = y_i + η(z_i⁺ - z_i)
    a_i⁺ = g_i + 2τ/(2-τ) (x_i⁺ - x_i)                             with τ = 1 - β

With exact messages this is APAPC of Kovalev, Salim and Richtárik, "Optimal and practical algorithms for smooth and
strongly convex decentralized optimization" (2020), whose η is our η/(1-ημ). It needs √(κρ) + ρ iterations where
Algorithm 1 needs κ + ρκ. Unlike SSDA it needs no dual gradients. Messages are compressed as in the paper. Without
momentum (β = 0) it is LEAD. With options C and D the gradient at g is stochastic.
"""

import math
from typing import Any, NamedTuple

import jax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits._internal.summation import no_digits_lost, subtract
from lessbits.errors import InputError
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import ill_conditioned, start_at, start_dual
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.messages import Messages, one_for_all
from lessbits.methods.outbox import Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer
from lessbits.theory.theorems import TheoryInputs, corrected_step_sizes

NOISE = 4.0  # practical: θ is divided by 1 + NOISE·ω


class AcceleratedState(NamedTuple):
    """Iterate x, extrapolated point a, dual variable z, memory, and option D's anchor."""

    x: jax.Array
    ahead: jax.Array
    z: jax.Array
    memory: Any
    anchor: Anchor | None
    lost: jax.Array | None  # rounding error of z, kept in float32 runs


@pytree
class Accelerated(Method):
    """Gossip for ill-conditioned losses: accelerated in κ, with compressed differences.

    Attributes:
        theta: Step size θ of the dual variable.
        eta: Step size η of the gradient.
        alpha: Step size α of the memory.
        momentum: Momentum β, below 1.
        quantizer: The unbiased compressor Q of messages.
        convexity: The strong convexity μ of the losses.
        gradients: The gradients to take: option and batch size.
    """

    theta: float
    eta: float
    alpha: float
    momentum: float
    quantizer: Quantizer
    convexity: float
    gradients: Gradients = static(default=Gradients())

    name = "accelerated"
    step_sizes = (
        StepSize("theta", "θ", "step size of the dual variable"),
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memory", kind="memory"),
        StepSize("momentum", "β", "momentum", from_zero=True, kind="momentum"),
    )
    compresses = True
    unbiased = True
    mixes = False  # θ damps any weights
    raised = True

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return the step sizes of APAPC's Theorem 1, or practical ones with gradient steps four times as long.

        Nothing is proven about momentum with compression noise. In that case the proven step sizes are those of LEAD,
        without momentum.
        """
        if request.problem.convexity <= 0:
            raise InputError(f"{cls.name} needs strongly convex losses, but μ = 0 here: add regularization above 0")
        omega = request.omega
        if not request.practical and omega > 0:
            facts = request.network.lambda_max, request.network.lambda_min, request.network.max_weight, omega
            proven = corrected_step_sizes(TheoryInputs(request.smoothness, request.problem.convexity, *facts))
            return {**proven._asdict(), "momentum": 0.0}
        smoothness, convexity = request.smoothness, request.problem.convexity
        felt = request.typical_convexity if request.practical else convexity
        tau = min(1.0, math.sqrt(request.network.rho * felt / smoothness) / 2)
        given = request.given if request.practical else {}
        if "momentum" in given:
            tau = 1 - given["momentum"]
        longer = {"B": 4.0, "C": 1.0, "D": 4 / 3}[request.gradients.option] if request.practical else 1.0
        noise = request.typical_omega if omega > 0 else 0.0
        eta = longer / (4 * tau * smoothness)
        if given.get("eta", 1 / convexity) < 1 / convexity:
            eta = given["eta"] / (1 - given["eta"] * convexity)
        return {
            "theta": 1 / (eta * request.network.lambda_max * (1 + NOISE * noise)),
            "eta": eta / (1 + eta * convexity),
            "alpha": 1 / (1 + 2 * noise),
            "momentum": 1 - tau,
        }

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return the strong convexity μ."""
        return {"convexity": request.problem.convexity}

    @property
    def exchange(self) -> Messages:
        """The messages: one compressed difference to all neighbours."""
        return one_for_all(self.quantizer, self.alpha)

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of the one message per iteration."""
        return (self.quantizer,)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> AcceleratedState:
        """Return the first state: any x⁰ and h⁰, a z⁰ that sums to zero, and a⁰ = x⁰."""
        x = start_at(problem, local.nodes, start)
        z = start_dual(x, local.nodes, start)
        memory, anchor = self.exchange.init(local, start.h, x), self.gradients.init(problem, x)
        return AcceleratedState(x, x, z, memory, anchor, no_digits_lost(z))

    @property
    def pull(self) -> Any:
        """The factor 2τ/(2-τ) in the update of a."""
        tau = 1 - self.momentum
        return 2 * tau / (2 - tau)

    def send(
        self, step: Step, state: AcceleratedState, problem: Problem, local: LocalNetwork
    ) -> tuple[AcceleratedState, Outbox, jax.Array]:
        """Take the gradient at g, and send the compressed y."""
        x, z = state.x, state.z
        point = x + self.momentum * (state.ahead - x)
        gradient, anchor, work = self.gradients.take(step, point, state.anchor, problem, local)
        y = x - self.eta * (gradient + self.convexity * (x - point) - z)
        outbox = self.exchange.send(step, y, state.memory, local)
        # `receive` adds the term of x⁺.
        return state._replace(x=y, ahead=point - self.pull * x, anchor=anchor), outbox, work

    def receive(
        self, step: Step, state: AcceleratedState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> AcceleratedState:
        """Take the dual step, and compute x⁺ = y + η(z⁺ - z) and a⁺."""
        disagreement, memory = self.exchange.receive(outbox, inbox, state.memory, local)
        x = state.x - self.eta * self.theta * disagreement
        z, lost = subtract(state.z, state.lost, self.theta * disagreement)
        return state._replace(x=x, ahead=state.ahead + self.pull * x, z=z, lost=lost, memory=memory)

    def suspect(self, problem: Problem) -> str:
        """Return θ. Longer gradient steps need more momentum, and are chosen together with it."""
        return "theta"

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Return whether the problem is ill-conditioned, so that acceleration helps."""
        return ill_conditioned(problem) and problem.convexity > 0
