"""Gossip whose nodes minimise their own losses between two exchanges: few exchanges where losses are ill-conditioned.

    u_i  = x_i + β(x_i - x_i'),   v_i = z_i + β(z_i - z_i')         ahead of the last point x_i and its predecessor x_i'
    y_i  ≈ argmin_y f_i(y) - ⟨v_i, y⟩ + ‖y - u_i‖²/(2η)             K steps of L-BFGS, from where the last ones ended
    ŷ_i  = h_i + Q(y_i - h_i),   h_i⁺ = h_i + αQ(y_i - h_i)        one message, the same to all neighbours
    z_i⁺ = v_i - θ Σ_j w_ij (ŷ_i - ŷ_j)
    x_i⁺ = y_i + η(z_i⁺ - v_i)

With an implicit gradient step, η is limited by no curvature, and long steps need no momentum. With exact messages,
exact minimisers and β = 0 this is the primal-dual method of Chambolle and Pock, "A first-order primal-dual algorithm
for convex problems with applications to imaging" (2011), which converges for ηθλ_max ≤ 1. Its fixed points are
solutions whatever K is. LEAD takes an explicit gradient step in place of the minimiser. Nothing is proven about β, few
local steps, or messages that are compressed; the noise of `fading` does not depend on what is sent.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits._internal.summation import no_digits_lost, subtract
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import ill_conditioned, start_at, start_dual
from lessbits.methods.gradients import Gradients
from lessbits.methods.messages import Messages, one_for_all
from lessbits.methods.outbox import Outbox
from lessbits.methods.quasi_newton import Secants, next_point
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Quantizer

STEPS = 8  # K
PAIRS = 10  # of steps and gradient changes that a node stores
NOISE = 4.0  # θ is divided by 1 + NOISE·ω, as in `accelerated`
MOMENTUM = 0.3  # practical β, if the noise does not grow with what is sent
ROUNDING = 1e-12  # an ω of numbers that are rounded to float32
FAR = 1e30  # no gradient is a sign of a wrong curvature merely because the problem has moved


class ProximalState(NamedTuple):
    """Iterate x, dual variable z, how far both moved, the local problem that was solved last, and the memory."""

    x: jax.Array
    z: jax.Array
    moved: jax.Array  # x - x'
    pushed: jax.Array  # z - z'
    y: jax.Array
    pull: jax.Array  # v + u/η of the local problem that y solves
    secants: Secants
    memory: Any
    lost: jax.Array | None  # rounding error of z, kept in float32 runs


@pytree
class Proximal(Method):
    """Gossip with local minimisation: several gradients for each exchange, and few exchanges.

    Attributes:
        theta: Step size θ of the dual variable.
        eta: Step size η of the local problem.
        alpha: Step size α of the memory.
        momentum: Momentum β, below 1.
        quantizer: The unbiased compressor Q of messages.
        smoothness: The smoothness L of the losses.
        gradients: The gradients to take: full ones.
        steps: The number K of gradients that a node takes for each exchange.
    """

    theta: float
    eta: float
    alpha: float
    momentum: float
    quantizer: Quantizer
    smoothness: float
    gradients: Gradients = static(default=Gradients())
    steps: int = static(default=STEPS)

    name = "proximal"
    step_sizes = (
        StepSize("theta", "θ", "step size of the dual variable"),
        StepSize("eta", "η", "step size of the local problem"),
        StepSize("alpha", "α", "step size of the memory", kind="memory"),
        StepSize("momentum", "β", "momentum", from_zero=True, kind="momentum"),
    )
    options = ("B",)
    compresses = True
    unbiased = True
    mixes = False  # θ damps any weights
    raised = True
    fades = True
    note = f"takes {STEPS} gradients for each exchange."

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return ηθ = 1/λ_max, less for noise, with η = 1/√(ρμL): then no mode of a quadratic loss is far slower.

        A mode of curvature c shrinks by 1 - ηc where it is flat, and by 1 - 1/(ηρc) where it is steep.
        """
        convexity = request.typical_convexity if request.practical else request.problem.convexity
        steepest = request.smoothness
        eta = 1 / math.sqrt(request.network.rho * max(convexity, steepest * 1e-8) * steepest)
        eta = request.given.get("eta", eta)
        noise = (request.typical_omega if request.practical else request.omega) if request.omega > 0 else 0.0
        return {
            "theta": 1 / (eta * request.network.lambda_max * (1 + NOISE * noise)),
            "eta": eta,
            "alpha": 1 / (1 + 2 * noise),
            "momentum": MOMENTUM if request.practical and noise <= ROUNDING else 0.0,
        }

    @classmethod
    def undecided(cls, request: MethodRequest) -> set[str]:
        """Return the step sizes left to choose. With scales β stays 0: noise would grow with what is sent."""
        return super().undecided(request) - ({"momentum"} if request.omega > ROUNDING else set())

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return the smoothness L, for the first local step."""
        return {"smoothness": request.smoothness}

    @property
    def exchange(self) -> Messages:
        """The messages: one compressed difference to all neighbours."""
        return one_for_all(self.quantizer, self.alpha)

    @property
    def compressors(self) -> tuple[Quantizer, ...]:
        """The quantizer of the one message per iteration."""
        return (self.quantizer,)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> ProximalState:
        """Return the first state: any x⁰ and h⁰, and a z⁰ that sums to zero."""
        x = start_at(problem, local.nodes, start)
        z, none = start_dual(x, local.nodes, start), jnp.zeros_like(x)
        memory = self.exchange.init(local, start.h, x)
        return ProximalState(x, z, none, none, x, none, Secants.none(x, PAIRS), memory, no_digits_lost(z))

    def send(
        self, step: Step, state: ProximalState, problem: Problem, local: LocalNetwork
    ) -> tuple[ProximalState, Outbox, jax.Array]:
        """Minimise, and send the compressed y."""
        ahead = state.z + self.momentum * state.pushed
        pull = ahead + (state.x + self.momentum * state.moved) / self.eta
        # The curvature that was learnt still holds: only the linear term of the local problem has changed.
        known = state.secants
        known = known._replace(
            gradient=known.gradient - (pull - state.pull),
            smallest=jnp.where(step.iteration > 0, FAR, known.smallest).astype(known.smallest.dtype),
        )
        first = 1 / (self.smoothness + 1 / self.eta)

        def descend(_: int, now: tuple[jax.Array, Secants]) -> tuple[jax.Array, Secants]:
            y, known = now
            return next_point(y, problem.gradient(y) + y / self.eta - pull, known, first)

        y, known = lax.fori_loop(0, self.steps, descend, (state.y, known))
        outbox = self.exchange.send(step, y, state.memory, local)
        return state._replace(y=y, pull=pull, secants=known), outbox, self.steps * problem.counts

    def receive(
        self, step: Step, state: ProximalState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> ProximalState:
        """Take the dual step, and compute x⁺."""
        disagreement, memory = self.exchange.receive(outbox, inbox, state.memory, local)
        x = state.y - self.eta * self.theta * disagreement
        pushed = self.momentum * state.pushed - self.theta * disagreement
        z, lost = subtract(state.z, state.lost, -pushed)
        return state._replace(x=x, z=z, moved=x - state.x, pushed=pushed, memory=memory, lost=lost)

    def passes(self, problem: Problem) -> float:
        """Return K: each gradient uses all samples."""
        return float(self.steps)

    def suspect(self, problem: Problem) -> str:
        """Return θ: η is limited by no curvature."""
        return "theta"

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Return whether the problem is ill-conditioned, so that local minimisation helps."""
        return ill_conditioned(problem)
