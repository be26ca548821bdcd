"""ADIANA: DIANA with Nesterov's acceleration; the hub of a star is the server.

    all              x = θ₁z + θ₂w + (1 - θ₁ - θ₂)y
    each worker i    q_i = Q(∇f_i(x) - h_i),   s_i = Q(∇f_i(w) - h_i),   h_i⁺ = h_i + αs_i       up, both compressed
    the hub          g = h + (1/n) Σ_i q_i,    h⁺ = h + α(1/n) Σ_i s_i
                     y⁺ = x - ηg                                                                down: ηg, as float32
    all              z⁺ = βz + (1-β)x + (γ/η)(y⁺ - x)
                     w⁺ = y with probability p, else w

Li, Kovalev, Qian and Richtárik, "Acceleration for compressed gradient descent in distributed and federated
optimization" (2020), Algorithm 2, from y⁰ = z⁰ = w⁰ and h_i⁰ = 0. With θ₁ = min{1/4, √(ημ/p)}, θ₂ = 1/2,
γ = η/(2(θ₁ + ημ)), β = 1 - γμ, α = 1/(1+ω), p = min{1, max{1, √(n/(32ω) - 1)}/(2(1+ω))} and
η = min{1/(2L), n/(64ω(2p(1+ω) + 1)²L)} it is linear, with √κ where DIANA has κ.

y is the iterate. All nodes flip the same coin, and compute z and w themselves. ∇f_i(w) is computed anew when w has
moved. Both messages of a node draw the same random numbers.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Purpose, Step, draws
from lessbits._internal.summation import separate
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
from lessbits.quantizers.base import Compressor, Quantizer


class AdianaState(NamedTuple):
    """Iterate y, as `x`; y⁺ - x at the hub; z and w; where gradients are taken; gradients there and at w; memories."""

    x: jax.Array
    moved: jax.Array
    z: jax.Array
    anchor: jax.Array
    point: jax.Array
    gradient: jax.Array
    anchor_gradient: jax.Array
    worker_memory: jax.Array
    server_memory: jax.Array


@pytree
class Adiana(ServerMethod):
    """ADIANA: accelerated, through a server. It sends two compressed messages up and a rounded one down.

    Attributes:
        eta: Step size η of the gradient.
        alpha: Step size α of the memory.
        probability: Probability p that w moves.
        quantizer: The unbiased compressor Q of messages.
        convexity: The strong convexity μ of the losses.
    """

    eta: float
    alpha: float
    probability: float
    quantizer: Quantizer
    convexity: float

    name = "adiana"
    step_sizes = (
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memory", derived=True, kind="memory"),
        StepSize("probability", "p", "probability that the anchor moves", derived=True, kind="probability"),
    )
    compresses = True
    unbiased = True

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return the proven step sizes (practical: η = 1/(2L(1 + ω/n)), and ω of Gaussian vectors)."""
        if request.problem.convexity <= 0:
            raise InputError(f"{cls.name} needs strongly convex losses, but μ = 0 here: add regularization above 0")
        omega = request.typical_omega if request.practical else request.omega
        nodes = request.problem.nodes
        root = math.sqrt(max(1.0, nodes / (32 * omega) - 1)) if omega > 0 else 2 * (1 + omega)
        probability = request.given.get("probability", min(1.0, root / (2 * (1 + omega))))
        proven = 64 * omega * (2 * probability * (1 + omega) + 1) ** 2 / nodes
        slower = 2 * (1 + omega / nodes) if request.practical else max(2.0, proven)
        return {
            "eta": lambda: 1 / (slower * request.smoothness),
            "alpha": 1 / (1 + request.omega),
            "probability": probability,
        }

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return the strong convexity μ."""
        return {"convexity": request.problem.convexity}

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of both differences up, and rounded steps down."""
        return (self.quantizer, self.quantizer, self.downlink)

    def busy_links(self, sent: np.ndarray) -> np.ndarray:
        """Two messages go up together, and one goes down."""
        return sent.sum(axis=1) / 1.5

    @property
    def coupling(self) -> Any:
        """θ₁."""
        return jnp.minimum(0.25, jnp.sqrt(self.eta * self.convexity / self.probability))

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> AdianaState:
        """Return the first state: all points at the hub's x⁰, and h⁰ = 0."""
        x = start_at_hub(problem, local, start)
        zeros = jnp.zeros_like(x)
        return AdianaState(x, zeros, x, x, x, zeros, zeros, zeros, zeros)

    def send(
        self, step: Step, state: AdianaState, problem: Problem, local: LocalNetwork
    ) -> tuple[AdianaState, Outbox, jax.Array]:
        """Send. Even iterations: the leaves send both gradients' differences to the memory. Odd: the hub, its step."""
        anchor_moved = (step.iteration == 0) | self._moves(step._replace(iteration=step.iteration - 1))

        def take(state: AdianaState) -> tuple[AdianaState, jax.Array]:
            first = self.coupling
            point = first * state.z + state.anchor / 2 + (0.5 - first) * state.x
            of_anchor = lax.cond(anchor_moved, problem.gradient, lambda _: state.anchor_gradient, state.anchor)
            work = problem.counts * (1 + anchor_moved.astype(problem.counts.dtype))
            return state._replace(point=point, gradient=problem.gradient(point), anchor_gradient=of_anchor), work

        state, work = lax.cond(goes_up(step), take, lambda state: (state, jnp.zeros_like(problem.counts)), state)
        differences = state.gradient - state.worker_memory, state.anchor_gradient - state.worker_memory
        ups = tuple(compressed(step, self.quantizer, each, local) for each in differences)
        return state, up_and_down(step, local, ups, as_payload(self.downlink, state.moved)), work

    def receive(
        self, step: Step, state: AdianaState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> AdianaState:
        """Update. Even iterations: memories move, and the hub takes its step. Odd ones: all compute y, z and w."""
        going_up, hub = goes_up(step), is_hub(local)[:, None]
        mine, of_anchor = (self.quantizer.decode(message.payload) for message in outbox[:2])
        mean = mean_at_hub(mine, self.quantizer, inbox[0], local)
        mean_move = mean_at_hub(of_anchor, self.quantizer, inbox[1], local)
        taken = rounded(self.downlink, separate(-self.eta * (state.server_memory + mean)))
        moved = jnp.where(going_up, taken, told_by_hub(state.moved, self.downlink, inbox[2], local))
        gamma = self.eta / (2 * (self.coupling + self.eta * self.convexity))
        beta = 1 - gamma * self.convexity
        z = beta * state.z + (1 - beta) * state.point + gamma / self.eta * moved
        return state._replace(
            x=jnp.where(going_up, state.x, state.point + moved),
            moved=moved,
            z=jnp.where(going_up, state.z, z),
            anchor=jnp.where(~going_up & self._moves(step), state.x, state.anchor),
            worker_memory=jnp.where(going_up, state.worker_memory + self.alpha * of_anchor, state.worker_memory),
            server_memory=jnp.where(going_up & hub, state.server_memory + self.alpha * mean_move, state.server_memory),
        )

    def _moves(self, step: Step) -> jax.Array:
        """Return whether w moves in this iteration: the same at all nodes."""
        coin = draws(step, jnp.zeros(1, jnp.int32), Purpose.COIN).uniform(1, jnp.result_type(float))
        return coin[0, 0] < self.probability

    def passes(self, problem: Problem) -> float:
        """Return the share of samples per iteration: one gradient and with probability p another, every other one."""
        return (1 + float(self.probability)) / 2
