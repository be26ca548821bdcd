"""OPAPC: the accelerated method with several exchanges for each gradient, combined by a Chebyshev polynomial.

    g_i  = x_i + β(a_i - x_i)                                          with τ = 1 - β
    y_i  = x_i - η(∇f_i(g_i) + μ(x_i - g_i) - z_i)
    z⁺   = z - θP_K(W)y                                                K exchanges, see `chebyshev.py`
    x_i⁺ = y_i + η(z_i⁺ - z_i)
    a_i⁺ = g_i + 2τ/(2-τ) (x_i⁺ - x_i)

Kovalev, Salim and Richtárik, "Optimal and practical algorithms for smooth and strongly convex decentralized
optimization" (2020), Algorithm 2, whose η is our η/(1-ημ) and whose y is our -z. With τ = min{1, ½√(χ/κ)}, η = 1/(4τL)
and θ = 1/(ηλ), where χ and λ are the condition number and the largest eigenvalue of P_K(W), Theorem 2 has √κ gradients
and √(κρ) exchanges, which no method with exact messages can better. An iteration is one exchange. With K = 1 it is
`accelerated` with exact messages.

P_K(W)y = y - v^K/a_K is computed as -e^K/a_K with e^k = v^k - a_k y, which has the recursion of v^k from e⁰ = 0. It
adds up disagreements alone, so that the sum of z stays zero up to rounding.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits._internal.summation import no_digits_lost, subtract
from lessbits.errors import InputError
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.chebyshev import Polynomial
from lessbits.methods.common import start_at, start_dual
from lessbits.methods.messages import ExactMessages
from lessbits.methods.outbox import Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor
from lessbits.quantizers.exact import Exact


class OpapcState(NamedTuple):
    """Iterate x, extrapolated point a, dual variable z, y, g, and the gossip's v^k, v^{k-1}, e^k and e^{k-1}."""

    x: jax.Array
    ahead: jax.Array
    z: jax.Array
    half: jax.Array
    point: jax.Array
    newest: jax.Array
    before: jax.Array
    moved: jax.Array
    moved_before: jax.Array
    lost: jax.Array | None  # rounding error of z, kept in float32 runs


@pytree
class Opapc(Method):
    """OPAPC: optimal in gradients and in exchanges among methods with exact messages.

    Attributes:
        theta: Step size θ of the dual variable.
        eta: Step size η of the gradient.
        momentum: Momentum β, below 1.
        convexity: The strong convexity μ of the losses.
        eigengap: The network's γ = λ_min⁺/λ_max.
        lambda_max: The largest eigenvalue of the network's Laplacian.
        rounds: The exchanges K per gradient.
        quantizer: `exact` or `float32`, which rounds what is sent.
    """

    theta: float
    eta: float
    momentum: float
    convexity: float
    eigengap: float
    lambda_max: float
    rounds: int = static(default=1)
    quantizer: Compressor = Exact()

    name = "opapc"
    step_sizes = (
        StepSize("theta", "θ", "step size of the dual variable"),
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("momentum", "β", "momentum", from_zero=True, kind="momentum"),
    )
    options = ("B",)
    mixes = False  # θ damps any weights
    takes_float32 = True

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return the step sizes of Theorem 2 (practical: gradient steps four times as long)."""
        smoothness, convexity = request.smoothness, request.problem.convexity
        if convexity <= 0:
            raise InputError(f"{cls.name} needs strongly convex losses, but μ = 0 here: add regularization above 0")
        ripple = Polynomial.of(request.network).ripple
        tau = min(1.0, math.sqrt((1 + ripple) / (1 - ripple) * convexity / smoothness) / 2)
        eta = (4 if request.practical else 1) / (4 * tau * smoothness)
        return {
            "theta": 1 / (eta * (1 + ripple)),
            "eta": eta / (1 + eta * convexity),
            "momentum": 1 - tau,
        }

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return μ, K and the parameters of the polynomial."""
        return {"convexity": request.problem.convexity, **Polynomial.of(request.network)._asdict()}

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """Vectors as they are, or rounded."""
        return (self.quantizer,)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> OpapcState:
        """Return the first state: any x⁰, a z⁰ that sums to zero, and a⁰ = x⁰."""
        x = start_at(problem, local.nodes, start)
        z, zeros = start_dual(x, local.nodes, start), jnp.zeros_like(x)
        return OpapcState(x, x, z, x, x, x, x, zeros, zeros, no_digits_lost(z))

    def send(
        self, step: Step, state: OpapcState, problem: Problem, local: LocalNetwork
    ) -> tuple[OpapcState, Outbox, jax.Array]:
        """Take the gradient at g before the first exchange of a round; send v^k in each."""

        def take(state: OpapcState) -> tuple[OpapcState, jax.Array]:
            x = state.x
            point = x + self.momentum * (state.ahead - x)
            half = x - self.eta * (problem.gradient(point) + self.convexity * (x - point) - state.z)
            return state._replace(half=half, point=point, newest=half, moved=jnp.zeros_like(x)), problem.counts

        first = step.iteration % self.rounds == 0
        state, work = lax.cond(first, take, lambda state: (state, jnp.zeros_like(problem.counts)), state)
        return state, ExactMessages(self.quantizer).send(step, state.newest, (), local), work

    def receive(self, step: Step, state: OpapcState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> OpapcState:
        """Compute v^{k+1}; after the last exchange of a round, take the dual step, and compute x⁺ and a⁺."""
        disagreement, _ = ExactMessages(self.quantizer).receive(outbox, inbox, (), local)
        polynomial, phase = Polynomial(self.eigengap, self.lambda_max, self.rounds), step.iteration % self.rounds
        newest = polynomial.next(phase, state.newest, state.before, disagreement)
        moved = polynomial.next(phase, state.moved, state.moved_before, disagreement)
        correction = -self.theta / polynomial.growth * moved
        z, lost = subtract(state.z, state.lost, correction)
        x = state.half - self.eta * correction
        tau = 1 - self.momentum
        ahead = state.point + 2 * tau / (2 - tau) * (x - state.x)
        last = phase == self.rounds - 1
        return state._replace(
            x=jnp.where(last, x, state.x),
            ahead=jnp.where(last, ahead, state.ahead),
            z=jnp.where(last, z, state.z),
            newest=newest,
            before=state.newest,
            moved=moved,
            moved_before=state.moved,
            lost=jax.tree.map(lambda new, old: jnp.where(last, new, old), lost, state.lost),
        )

    def passes(self, problem: Problem) -> float:
        """Return the share of samples per iteration: one gradient per K iterations."""
        return 1 / self.rounds

    def suspect(self, problem: Problem) -> str:
        """Return θ. Longer gradient steps need more momentum, and are chosen together with it."""
        return "theta"
