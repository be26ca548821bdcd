"""DORE: DIANA with messages compressed in both directions, and error feedback at the server; the hub of a star.

    each worker i    q_i = Q(∇f_i(x) - h_i),   h_i⁺ = h_i + αq_i               up to the hub, compressed
    the hub          ĝ = h + (1/n) Σ_i q_i,    h⁺ = h + α(1/n) Σ_i q_i
                     p = -ηĝ + εe,   r = Q(p),   e⁺ = p - r                    down to all: r, compressed
    all              x⁺ = x + γr

Liu, Li, Tang and Yan, "A double residual compression algorithm for efficient distributed learning" (2020), Algorithm 1,
without a regularizer that needs a proximal step, from h_i⁰ = e⁰ = 0. Their γ, η and β are our η, ε and γ, and their x̂
is our x. With ε = 0 and γ = 1 it is Artemis (Philippenko and Dieuleveut, 2020) with memories at the workers: then
x⁺ = x - Q(ηĝ), and E‖Q(ηĝ)‖² ≤ (1+ω)E‖ηĝ‖², so that DIANA's proof holds with a step size that is 1+ω times smaller:
E Ψ ≤ max{1 - ημ, 1 - α/2}^t Ψ⁰ for α ≤ 1/(1+ω) and η ≤ 1/(L(1+ω)(1 + 6ω/n)), where
Ψ = ‖x - x*‖² + (4ω(1+ω)/(αn)) η² (1/n) Σ_i ‖h_i - ∇f_i(x*)‖². These step sizes are taken as the proven ones.

The hub compresses its message when it takes its step, and sends it in the next iteration.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Step
from lessbits.methods.base import MethodRequest, Start, StepSize
from lessbits.methods.outbox import Outbox
from lessbits.methods.request import Suggestion
from lessbits.methods.server import (
    ServerMethod,
    compressed,
    goes_up,
    is_hub,
    mean_at_hub,
    start_at_hub,
    told_by_hub,
    up_and_down,
)
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer


class DoreState(NamedTuple):
    """Iterate; gradients, and memories h_i; at the hub also h, p and e."""

    x: jax.Array
    gradient: jax.Array
    worker_memory: jax.Array
    server_memory: jax.Array
    planned: jax.Array
    error: jax.Array


@pytree
class Dore(ServerMethod):
    """DORE: converges linearly, through a server, with compressed messages up and down.

    Attributes:
        eta: Step size η of the gradient.
        alpha: Step size α of the memory.
        gamma: Step size γ of the iterate, their β.
        epsilon: Share ε of the hub's error that it sends again, their η.
        quantizer: The unbiased compressor Q of messages.
    """

    eta: float
    alpha: float
    gamma: float
    epsilon: float
    quantizer: Quantizer

    name = "dore"
    step_sizes = (
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memory", derived=True, kind="memory"),
        StepSize("gamma", "γ", "step size of the iterate", derived=True, kind="probability"),
        StepSize("epsilon", "ε", "share of the hub's error that is sent again", True, derived=True, kind="probability"),
    )
    compresses = True
    unbiased = True
    likely_quantizers = ("subtractive:16", "subtractive:6")
    note = "is the best that we know for a star, besides sums up a tree."

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return the proven step sizes with ε = 0 (practical: η = 1/(L(1+ω)(1 + ω/n)) of Gaussian vectors, ε = 0.1)."""
        omega = request.typical_omega if request.practical else request.omega
        slower = (1 + omega) * (1 + (1 if request.practical else 6) * omega / request.problem.nodes)
        return {
            "eta": lambda: 1 / (request.smoothness * slower),
            "alpha": 1 / (1 + request.omega),
            "gamma": 1.0,
            # A search for the fewest bits tunes what is above zero.
            "epsilon": 0.1 if request.practical and not request.quantizer.lossless else 0.0,
        }

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Return True: no other method on a star comes near, but sums up a tree."""
        return True

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer, up and down."""
        return (self.quantizer, self.quantizer)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> DoreState:
        """Return the first state. All nodes start at the hub's x⁰, or at zero, and know it beforehand; h⁰ = e⁰ = 0."""
        x = start_at_hub(problem, local, start)
        zeros = jnp.zeros_like(x)
        return DoreState(x, zeros, zeros, zeros, zeros, zeros)

    def send(
        self, step: Step, state: DoreState, problem: Problem, local: LocalNetwork
    ) -> tuple[DoreState, Outbox, jax.Array]:
        """Send. Even iterations: the leaves send their gradients' differences to the memory. Odd: the hub sends r."""

        def take(state: DoreState) -> tuple[DoreState, jax.Array]:
            return state._replace(gradient=problem.gradient(state.x)), problem.counts

        state, work = lax.cond(goes_up(step), take, lambda state: (state, jnp.zeros_like(problem.counts)), state)
        up = compressed(step, self.quantizer, state.gradient - state.worker_memory, local)
        down = compressed(step, self.quantizer, state.planned, local)
        return state, up_and_down(step, local, (up,), down), work

    def receive(self, step: Step, state: DoreState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> DoreState:
        """Update. Even iterations: memories move, and the hub plans its step. Odd ones: all move by what it sent."""
        going_up, hub = goes_up(step), is_hub(local)[:, None]
        mine, sent = (self.quantizer.decode(message.payload) for message in outbox)
        mean = mean_at_hub(mine, self.quantizer, inbox[0], local)
        planned = self.epsilon * state.error - self.eta * (state.server_memory + mean)
        told = told_by_hub(sent, self.quantizer, inbox[1], local)
        return state._replace(
            x=jnp.where(going_up, state.x, state.x + self.gamma * told),
            worker_memory=jnp.where(going_up, state.worker_memory + self.alpha * mine, state.worker_memory),
            server_memory=jnp.where(going_up & hub, state.server_memory + self.alpha * mean, state.server_memory),
            planned=jnp.where(going_up & hub, planned, state.planned),
            error=jnp.where(~going_up & hub, state.planned - told, state.error),
        )
