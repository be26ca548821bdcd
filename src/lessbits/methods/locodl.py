"""LoCoDL: local steps and compressed messages to a server, by differences to a point y that all nodes know.

    each iteration t    x̂_i = x_i - η(∇f̃_i(x_i) - u_i),   ŷ = y - η(∇g(y) - v)
    with probability p  d_i = Q(x̂_i - ŷ)                                up to the hub, compressed
                        d = (1/2n) Σ_j d_j                              down to all, as float32
                        x_i⁺ = (1-ρ)x̂_i + ρ(ŷ + d),   y⁺ = ŷ + ρd
                        u_i⁺ = u_i + pχ/(η(1+2ω)) (d - d_i),   v⁺ = v + pχ/(η(1+2ω)) d
    otherwise           x_i⁺ = x̂_i,   y⁺ = ŷ

Condat, Maranjyan and Richtárik, "LoCoDL: communication-efficient distributed learning with local training and
compression" (2024), Algorithm 1, from y⁰ = x⁰ and u_i⁰ = v⁰ = 0. Their γ is our η, and our γ is their ρ = χ. They
minimize (1/n) Σ_i f̃_i + g. As our losses have no common part, it is made as they advise: g(x) = (μ/4)‖x‖² and
f̃_i = f_i - g. Their Theorem 3.1 has E Ψ ≤ τ^t Ψ⁰ with τ = max{(1-ημ/2)², (1-ηL)², 1 - p²χ/(1+2ω)} for η < 2/L and
2ρ - ρ²(1 + ω/n) ≥ χ, which ρ = χ = 1/(1 + ω/n) fulfils. The best p is √((1+2ω)/(χκ)).

As in `scaffnew`, an iteration is an exchange, and the local steps before it are taken in one go.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Step
from lessbits.methods.base import MethodRequest, Start, StepSize
from lessbits.methods.outbox import Outbox
from lessbits.methods.request import Suggestion
from lessbits.methods.scaffnew import PROBABILITY, local_steps, proven_probability, repeat
from lessbits.methods.server import (
    ServerMethod,
    as_payload,
    compressed,
    goes_up,
    mean_at_hub,
    rounded,
    start_at_hub,
    told_by_hub,
    up_and_down,
)
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer


class LocodlState(NamedTuple):
    """Iterate x and common point y; controls u and v; x̂ and ŷ after local steps; d_i; d at the hub and its rounding."""

    x: jax.Array
    common: jax.Array
    control: jax.Array
    common_control: jax.Array
    local_x: jax.Array
    local_common: jax.Array
    difference: jax.Array
    mean: jax.Array
    lost: jax.Array  # of the hub's last d, to be added to the next: then the control variates still sum to zero


@pytree
class Locodl(ServerMethod):
    """LoCoDL: accelerated by local steps, with compressed messages to the server and rounded ones back.

    Attributes:
        eta: Step size η of the gradient.
        probability: Probability p of an exchange after a local step.
        gamma: Step size γ of averaging, their ρ and χ.
        quantizer: The unbiased compressor Q of messages.
        convexity: The strong convexity μ of the losses.
        spread: 1 + 2ω.
    """

    eta: float
    probability: float
    gamma: float
    quantizer: Quantizer
    convexity: float
    spread: float

    name = "locodl"
    step_sizes = (
        StepSize("eta", "η", "step size of the gradient"),
        PROBABILITY,
        StepSize("gamma", "γ", "step size of averaging", derived=True),
    )
    compresses = True
    unbiased = True

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return η = 1/L, p = √((1+2ω)/(γκ)) and γ = 1/(1 + ω/n); practical: with ω and κ that are typical."""
        gamma = 1 / (1 + noise(request) / request.problem.nodes)
        more = cls.facts(request)["spread"] / gamma
        return {
            "eta": lambda: 1 / request.smoothness,
            "probability": lambda: proven_probability(request, more),
            "gamma": gamma,
        }

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return the strong convexity μ and 1 + 2ω."""
        return {"convexity": max(request.problem.convexity, 0.0), "spread": 1 + 2 * noise(request)}

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of differences up, and their rounded mean down."""
        return (self.quantizer, self.downlink)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> LocodlState:
        """Return the first state: x⁰ and y⁰ at the hub's x⁰, and u⁰ = v⁰ = 0."""
        x = start_at_hub(problem, local, start)
        zeros = jnp.zeros_like(x)
        return LocodlState(x, x, zeros, zeros, x, x, zeros, zeros, zeros)

    def send(
        self, step: Step, state: LocodlState, problem: Problem, local: LocalNetwork
    ) -> tuple[LocodlState, Outbox, jax.Array]:
        """Send. Even iterations: the leaves send x̂ - ŷ after their local steps. Odd ones: the hub sends d."""
        curvature = self.convexity / 2

        def local_step(pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            x, y = pair
            x = x - self.eta * (problem.gradient(x) - curvature * x - state.control)
            return x, y - self.eta * (curvature * y - state.common_control)

        going_up, steps = goes_up(step), local_steps(step, self.probability)
        x, y = repeat(local_step, steps, (state.x, state.common))
        local_x = jnp.where(going_up, x, state.local_x)
        local_common = jnp.where(going_up, y, state.local_common)
        state = state._replace(local_x=local_x, local_common=local_common)
        payload = compressed(step, self.quantizer, local_x - local_common, local)
        down = as_payload(self.downlink, state.mean)
        return state, up_and_down(step, local, (payload,), down), steps * problem.counts

    def receive(
        self, step: Step, state: LocodlState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> LocodlState:
        """Update. Even iterations: the hub takes the mean of the differences. Odd ones: all move by it."""
        going_up = goes_up(step)
        mine = jnp.where(going_up, self.quantizer.decode(outbox[0].payload), state.difference)
        whole = mean_at_hub(mine, self.quantizer, inbox[0], local) / 2 + state.lost
        mean = rounded(self.downlink, whole)
        told = told_by_hub(state.mean, self.downlink, inbox[1], local)
        pull = self.probability * self.gamma / (self.eta * self.spread)
        x = (1 - self.gamma) * state.local_x + self.gamma * (state.local_common + told)

        def if_down(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(going_up, old, new)

        return state._replace(
            x=if_down(x, state.x),
            common=if_down(state.local_common + self.gamma * told, state.common),
            control=if_down(state.control + pull * (told - state.difference), state.control),
            common_control=if_down(state.common_control + pull * told, state.common_control),
            difference=mine,
            mean=jnp.where(going_up, mean, state.mean),
            lost=jnp.where(going_up, whole - mean, state.lost),
        )

    def passes(self, problem: Problem) -> float:
        """Return the share of samples per iteration: on average 1/p gradients every other iteration."""
        return 1 / (2 * float(self.probability))


def noise(request: MethodRequest) -> float:
    """Return ω; practical: that of Gaussian vectors."""
    return request.typical_omega if request.practical else request.omega
