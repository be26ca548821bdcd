"""SSDA: Nesterov's accelerated gradient method on the dual problem.

    x_i = ∇f_i*(z_i)
    y⁺  = z - θWx
    z⁺  = y⁺ + β(y⁺ - y)

Scaman, Bach, Bubeck, Lee and Massoulié, "Optimal algorithms for smooth and strongly convex distributed optimization in
networks" (2017), with θ = μ/λ_max and β = (√(κρ) - 1)/(√(κρ) + 1). It is option A of Algorithm 1 with exact messages
and momentum. It needs √(κρ) iterations where option A needs κρ, and one dual gradient in each.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.errors import InputError
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.common import start_at
from lessbits.methods.gradients import Gradients
from lessbits.methods.messages import disagreements, share
from lessbits.methods.outbox import Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem


class SsdaState(NamedTuple):
    """Iterate x, the point z where dual gradients are taken, and the dual iterate y."""

    x: jax.Array
    z: jax.Array
    y: jax.Array


class DualMethod(Method):
    """Base of SSDA and MSDA, which take dual gradients."""

    options = ("A",)
    mixes = False  # θ damps any weights
    momentum: float

    @classmethod
    def check_gradients(cls, problem: Problem, gradients: Gradients) -> None:
        """Raise InputError for options other than A, which is the one with dual gradients."""
        if gradients.option not in cls.options:
            raise InputError(f"{cls.name} takes dual gradients, option A, alone: leave option out")

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError unless losses are strongly convex."""
        super().check(problem, network)
        if problem.convexity <= 0:
            raise InputError(f"{self.name} needs strongly convex losses, but μ = 0 here: add regularization above 0")

    def prepare(self, problem: Problem) -> Problem:
        """Return the problem with dual gradients precomputed."""
        return problem.with_dual()


@pytree
class Ssda(DualMethod):
    """SSDA: accelerated in κ and in the network, with exact messages.

    Attributes:
        theta: Step size θ of the dual variable.
        momentum: Momentum β, below 1.
        gradients: Always option A: dual gradients.
    """

    theta: float
    momentum: float
    gradients: Gradients = static(default=Gradients("A"))

    name = "ssda"
    step_sizes = (
        StepSize("theta", "θ", "step size of the dual variable"),
        StepSize("momentum", "β", "momentum", from_zero=True, kind="momentum"),
    )

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return the proven step sizes."""
        root = math.sqrt(request.problem.condition_number * request.network.rho)
        return {"theta": request.problem.convexity / request.network.lambda_max, "momentum": (root - 1) / (root + 1)}

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> SsdaState:
        """Return the first state. z⁰ sums to zero; the search for the first dual gradient starts at x⁰."""
        x = start_at(problem, local.nodes, start)
        z = jnp.zeros_like(x) if start.z is None else jnp.asarray(start.z, x.dtype)[local.nodes]
        return SsdaState(x, z, z)

    def send(
        self, step: Step, state: SsdaState, problem: Problem, local: LocalNetwork
    ) -> tuple[SsdaState, Outbox, jax.Array]:
        """Compute the dual gradient, and send it."""
        x = problem.dual_gradient(state.z, guess=state.x)
        return state._replace(x=x), share(x), problem.counts

    def receive(self, step: Step, state: SsdaState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> SsdaState:
        """Take the accelerated dual step."""
        (disagreement,) = disagreements(outbox, inbox, local)
        y = state.z - self.theta * disagreement
        return state._replace(z=y + self.momentum * (y - state.y), y=y)
