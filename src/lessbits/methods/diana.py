"""DIANA: a parameter server receives compressed gradient differences; here the hub of a star is the server.

    each worker i    q_i = Q(∇f_i(x) - h_i),   h_i⁺ = h_i + αq_i               up to the hub, compressed
    the hub          ĝ = h + (1/n) Σ_i q_i,    h⁺ = h + α(1/n) Σ_i q_i
                     x⁺ = x - ηĝ                                               down to all: ηĝ, as float32

Mishchenko, Gorbunov, Takáč and Richtárik, "Distributed learning with compressed gradient differences" (2019). The hub
holds data too and is a worker itself; its own q_i is not sent. Up and down take one exchange each: the leaves send in
even iterations, the hub in odd ones. Messages down are not compressed, only rounded (`server.py`), which is why the
paper calls it centralized.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits._internal.summation import separate
from lessbits.methods.base import MethodRequest, Start, StepSize
from lessbits.methods.gradients import Anchor, Gradients
from lessbits.methods.outbox import Outbox
from lessbits.methods.request import Suggestion
from lessbits.methods.server import (
    ServerMethod,
    as_payload,
    compressed,
    goes_up,
    is_hub,
    mean_at_hub,
    rounded,
    start_at_hub,
    told_by_hub,
    up_and_down,
)
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer


class DianaState(NamedTuple):
    """Iterate; the hub's last step; memories h_i, and h at the hub; the gradient of `send`; option D's anchor."""

    x: jax.Array
    moved: jax.Array
    worker_memory: jax.Array
    server_memory: jax.Array
    gradient: jax.Array
    anchor: Anchor | None


@pytree
class Diana(ServerMethod):
    """DIANA: converges linearly with full gradients. With option C it stops at an error floor.

    Attributes:
        eta: Step size η of the gradient.
        alpha: Step size α of the memory.
        quantizer: The unbiased compressor Q of messages.
        gradients: The gradients to take: option and batch size.
    """

    eta: float
    alpha: float
    quantizer: Quantizer
    gradients: Gradients = static(default=Gradients())

    name = "diana"
    step_sizes = (
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memory", derived=True, kind="memory"),
    )
    options: ClassVar[tuple[str, ...]] = ("B", "C")
    compresses = True
    unbiased = True

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return η = 1/(L(1 + 6ω/n)) (practical: 1/(L(1 + ω/n))) and α = 1/(1+ω)."""
        noise = (1 if request.practical else 6) * request.omega / request.problem.nodes
        return {"eta": lambda: 1 / (request.smoothness * (1 + noise)), "alpha": 1 / (1 + request.omega)}

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of differences up, and rounded steps down."""
        return (self.quantizer, self.downlink)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> DianaState:
        """Return the first state. All nodes start at the hub's x⁰, or at zero, and know it beforehand; h⁰ = 0."""
        x = start_at_hub(problem, local, start)
        zeros = jnp.zeros_like(x)
        return DianaState(x, zeros, zeros, zeros, zeros, self.gradients.init(problem, x))

    def send(
        self, step: Step, state: DianaState, problem: Problem, local: LocalNetwork
    ) -> tuple[DianaState, Outbox, jax.Array]:
        """Send. Even iterations: the leaves send their gradients' differences to the memory. Odd: the hub, its step."""

        def take(state: DianaState) -> tuple[DianaState, jax.Array]:
            gradient, anchor, work = self.gradients.take(step, state.x, state.anchor, problem, local)
            return state._replace(gradient=gradient, anchor=anchor), work

        state, work = lax.cond(goes_up(step), take, lambda state: (state, jnp.zeros_like(problem.counts)), state)
        difference = state.gradient - state.worker_memory
        ups = (compressed(step, self.quantizer, difference, local),)
        return state, up_and_down(step, local, ups, as_payload(self.downlink, state.moved)), work

    def receive(self, step: Step, state: DianaState, outbox: Outbox, inbox: Outbox, local: LocalNetwork) -> DianaState:
        """Update. Even iterations: memories move, and the hub takes its step. Odd: the leaves follow it."""
        going_up, hub = goes_up(step), is_hub(local)[:, None]
        mine = self.quantizer.decode(outbox[0].payload)
        mean = mean_at_hub(mine, self.quantizer, inbox[0], local)
        taken = rounded(self.downlink, separate(-self.eta * self.estimate(state.server_memory, mean)))
        moved = jnp.where(going_up, taken, told_by_hub(state.moved, self.downlink, inbox[1], local))
        return state._replace(
            x=jnp.where(going_up == hub, state.x + moved, state.x),
            moved=moved,
            worker_memory=jnp.where(going_up, state.worker_memory + self.alpha * mine, state.worker_memory),
            server_memory=jnp.where(going_up & hub, state.server_memory + self.alpha * mean, state.server_memory),
        )

    def estimate(self, memory: jax.Array, mean: jax.Array) -> jax.Array:
        """Return ĝ, the hub's estimate of the gradient."""
        return memory + mean
