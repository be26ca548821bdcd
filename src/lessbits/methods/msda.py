"""MSDA: SSDA with several exchanges for each dual gradient, combined by a Chebyshev polynomial.

    x_i = ∇f_i*(z_i)                                                   once per K exchanges
    v⁰ = x,   v¹ = c₂(v⁰ - c₃Wv⁰),   v^{k+1} = 2c₂(v^k - c₃Wv^k) - v^{k-1}      K exchanges
    y⁺ = z - θ(x - v^K/a_K),   a_K = T_K(c₂)
    z⁺ = y⁺ + β(y⁺ - y)

Scaman, Bach, Bubeck, Lee and Massoulié (2017): with γ = λ_min⁺/λ_max, c₂ = (1+γ)/(1-γ), c₃ = 2/((1+γ)λ_max) and
K = ⌊1/√γ⌋ the polynomial makes the network look almost complete, so that √κ dual gradients and √(κρ) exchanges suffice.
An iteration is one exchange.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.methods.base import MethodRequest, Start, StepSize
from lessbits.methods.chebyshev import Polynomial
from lessbits.methods.common import start_at
from lessbits.methods.gradients import Gradients
from lessbits.methods.messages import disagreements, share
from lessbits.methods.outbox import Outbox
from lessbits.methods.ssda import DualMethod
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem


class MsdaState(NamedTuple):
    """Iterate x, the point z where dual gradients are taken, the dual iterate y, and the gossip's v^k and v^{k-1}."""

    x: jax.Array
    z: jax.Array
    y: jax.Array
    newest: jax.Array
    before: jax.Array


@pytree
class Msda(DualMethod):
    """MSDA: accelerated, with few dual gradients and more exchanges. Use it if dual gradients are expensive.

    Attributes:
        theta: Step size θ of the dual variable.
        momentum: Momentum β, below 1.
        eigengap: The network's γ = λ_min⁺/λ_max.
        lambda_max: The largest eigenvalue of the network's Laplacian.
        rounds: The exchanges K per dual gradient.
        gradients: Always option A: dual gradients.
    """

    theta: float
    momentum: float
    eigengap: float
    lambda_max: float
    rounds: int = static(default=1)
    gradients: Gradients = static(default=Gradients("A"))

    name = "msda"
    step_sizes = (
        StepSize("theta", "θ", "step size of the dual variable"),
        StepSize("momentum", "β", "momentum", from_zero=True, kind="momentum"),
    )

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return K and the parameters of the polynomial, which follow from the network."""
        return Polynomial.of(request.network)._asdict()

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return the proven step sizes: those of SSDA for the polynomial's eigenvalues, 1 ± 1/a_K."""
        ripple = Polynomial.of(request.network).ripple
        root = math.sqrt(request.problem.condition_number * (1 + ripple) / (1 - ripple))
        return {"theta": request.problem.convexity / (1 + ripple), "momentum": (root - 1) / (root + 1)}

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> MsdaState:
        """Return the first state. z⁰ sums to zero; the search for the first dual gradient starts at x⁰."""
        x = start_at(problem, local.nodes, start)
        z = jnp.zeros_like(x) if start.z is None else jnp.asarray(start.z, x.dtype)[local.nodes]
        return MsdaState(x, z, z, x, x)

    def send(
        self, step: Step, state: MsdaState, problem: Problem, local: LocalNetwork
    ) -> tuple[MsdaState, Outbox, jax.Array]:
        """Compute the dual gradient before the first exchange of a round; send v^k in each."""

        def take(state: MsdaState) -> tuple[MsdaState, jax.Array]:
            x = problem.dual_gradient(state.z, guess=state.x)
            return state._replace(x=x, newest=x), problem.counts

        first = step.iteration % self.rounds == 0
        state, work = lax.cond(first, take, lambda state: (state, jnp.zeros_like(problem.counts)), state)
        return state, share(state.newest), work

    def receive(self, step: Step, state: MsdaState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> MsdaState:
        """Compute v^{k+1}; after the last exchange of a round, take the accelerated dual step."""
        (disagreement,) = disagreements(outbox, inbox, local)
        polynomial, phase = Polynomial(self.eigengap, self.lambda_max, self.rounds), step.iteration % self.rounds
        newest = polynomial.next(phase, state.newest, state.before, disagreement)
        y = state.z - self.theta * (state.x - newest / polynomial.growth)
        last = phase == self.rounds - 1
        return MsdaState(
            x=state.x,
            z=jnp.where(last, y + self.momentum * (y - state.y), state.z),
            y=jnp.where(last, y, state.y),
            newest=newest,
            before=state.newest,
        )

    def passes(self, problem: Problem) -> float:
        """Return the share of samples per iteration: one dual gradient per K iterations."""
        return 1 / self.rounds
