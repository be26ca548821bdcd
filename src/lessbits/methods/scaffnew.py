"""Scaffnew: ProxSkip for averaging. Nodes take many local steps between two exchanges with the server.

    each iteration t    x̂_i = x_i - η(∇f_i(x_i) - h_i)
    with probability p  x_i⁺ = (1/n) Σ_j x̂_j                            up to the hub and down to all
    otherwise           x_i⁺ = x̂_i
    each iteration      h_i⁺ = h_i + (p/η)(x_i⁺ - x̂_i)

Mishchenko, Malinovsky, Stich and Richtárik, "ProxSkip: yes! Local gradient steps provably lead to communication
acceleration! Finally!" (2022), Algorithm 2, from h_i⁰ = 0. Their Theorem 3.6 has E Ψ ≤ (1 - min{ημ, p²})^t Ψ⁰ for
η ≤ 1/L. With η = 1/L and p = 1/√κ there are √κ exchanges where gradient descent needs κ.

The coin is the same for all nodes, so the number of local steps up to an exchange is known beforehand: it has a
geometric distribution with mean 1/p. Here an iteration is an exchange, and the local steps before it are taken in one
go. The hub holds data too and is a worker itself. All nodes know the x of the last exchange, so that x̂_i - x is sent
up, and its mean down. These vanish as the run converges, and can be rounded to float32 (quantizer `float32`).
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Purpose, Step, draws
from lessbits.errors import InputError
from lessbits.methods.base import MethodRequest, Start, StepSize
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
from lessbits.quantizers.base import Compressor
from lessbits.quantizers.exact import Exact

PROBABILITY = StepSize("probability", "p", "probability of an exchange after a local step", kind="probability")


class ScaffnewState(NamedTuple):
    """Iterate x, the control variate h, how far the local steps led; the mean of that at the hub, and its rounding."""

    x: jax.Array
    control: jax.Array
    moved: jax.Array
    mean: jax.Array
    lost: jax.Array  # of the hub's last mean, to be added to the next: then the control variates still sum to zero


@pytree
class Scaffnew(ServerMethod):
    """Scaffnew: accelerated by local steps, which cost gradients and no bits. Messages are uncompressed.

    Attributes:
        eta: Step size η of the gradient.
        probability: Probability p of an exchange after a local step.
        quantizer: `exact` or `float32`, which rounds what is sent.
    """

    eta: float
    probability: float
    quantizer: Compressor = Exact()

    name = "scaffnew"
    step_sizes: ClassVar[tuple[StepSize, ...]] = (StepSize("eta", "η", "step size of the gradient"), PROBABILITY)
    takes_float32 = True

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return η = 1/L and p = 1/√κ, as proven; with practical step sizes κ is that of typical curvature."""
        return {"eta": lambda: 1 / request.smoothness, "probability": lambda: proven_probability(request)}

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """Moves as they are or rounded, up and down."""
        return (self.quantizer, self.downlink)

    @property
    def downlink(self) -> Compressor:
        """What rounds messages down: the same as up."""
        return self.quantizer

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> ScaffnewState:
        """Return the first state: all nodes at the hub's x⁰, and h⁰ = 0."""
        x = start_at_hub(problem, local, start)
        zeros = jnp.zeros_like(x)
        return ScaffnewState(x, zeros, zeros, zeros, zeros)

    def send(
        self, step: Step, state: ScaffnewState, problem: Problem, local: LocalNetwork
    ) -> tuple[ScaffnewState, Outbox, jax.Array]:
        """Send. Even iterations: the leaves send how far their local steps led. Odd ones: the hub sends the mean."""
        state, steps = self.moved_locally(step, state, problem)
        ups = (compressed(step, self.quantizer, state.moved, local),)
        return state, up_and_down(step, local, ups, as_payload(self.downlink, state.mean)), steps * problem.counts

    def moved_locally(self, step: Step, state: ScaffnewState, problem: Problem) -> tuple[ScaffnewState, jax.Array]:
        """Take the local steps before an exchange; return x̂ - x as it is sent in the state, and their number."""

        def local_step(x: jax.Array) -> jax.Array:
            return x - self.eta * (problem.gradient(x) - state.control)

        steps = local_steps(step, self.probability)
        moved = rounded(self.quantizer, repeat(local_step, steps, state.x) - state.x)
        return state._replace(moved=jnp.where(goes_up(step), moved, state.moved)), steps

    def receive(
        self, step: Step, state: ScaffnewState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> ScaffnewState:
        """Update. Even iterations: the hub takes the mean. Odd ones: all have it, and move their control variates."""
        mean = mean_at_hub(state.moved, self.quantizer, inbox[0], local)
        return self.averaged(step, state, mean, inbox, local)

    def averaged(
        self, step: Step, state: ScaffnewState, mean: jax.Array, inbox: Outbox, local: LocalNetwork
    ) -> ScaffnewState:
        """Move the hub by the mean in even iterations; in odd ones the leaves, and all control variates."""
        going_up, hub = goes_up(step), is_hub(local)[:, None]
        told = told_by_hub(state.mean, self.downlink, inbox[1], local)
        whole = mean + state.lost
        mean = jnp.where(going_up, rounded(self.downlink, whole), told)
        return state._replace(
            x=jnp.where(going_up == hub, state.x + mean, state.x),
            control=jnp.where(going_up, state.control, state.control + self.pull(step, mean - state.moved, local)),
            mean=mean,
            lost=jnp.where(going_up, whole - mean, state.lost),
        )

    def pull(self, step: Step, missing: jax.Array, local: LocalNetwork) -> jax.Array:
        """Return how far control variates move: (p/η)(x⁺ - x̂)."""
        return self.probability / self.eta * missing

    def passes(self, problem: Problem) -> float:
        """Return the share of samples per iteration: on average 1/p gradients every other iteration."""
        return 1 / (2 * float(self.probability))


def local_steps(step: Step, probability: Any) -> jax.Array:
    """Return the number of local steps before an exchange, at least 1, the same at all nodes; 0 on the way down.

    P(more than m) = (1 - p)^m: it is the number of coins up to the first that shows an exchange.
    """
    coin = draws(step, jnp.zeros(1, jnp.int32), Purpose.COIN).uniform(1, jnp.result_type(float))[0, 0]
    count = 1 + jnp.floor(jnp.log(coin) / jnp.log1p(-probability)).astype(jnp.int32)
    return jnp.where(goes_up(step), count, 0)


def repeat(function: Callable[[Any], Any], times: jax.Array, start: Any) -> Any:
    """Return the function applied to `start` so many times."""
    return lax.fori_loop(0, times, lambda _, value: function(value), start)


def proven_probability(request: MethodRequest, more: float = 1.0) -> float:
    """Return p = √(more/κ), at most 1, where `more` is what compression adds."""
    problem = request.problem
    convexity = problem.typical_convexity if request.practical else problem.convexity
    if convexity <= 0:
        raise InputError("the theory of local steps needs strongly convex losses, but μ = 0 here: give probability")
    return min(1.0, (more * convexity / request.smoothness) ** 0.5)
