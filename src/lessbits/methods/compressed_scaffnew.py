"""CompressedScaffnew: Scaffnew in which a node sends some of its coordinates, and each coordinate is sent s times.

    each iteration t    x̂_i = x_i - η(∇f_i(x_i) - h_i)
    with probability p  x̄ = (1/s) Σ_j q_j·x̂_j                           up: the coordinates in q_j; down: all of x̄
                        x_i⁺ = x̄,   h_i⁺ = h_i + (pγ/η) q_i·(x̄ - x̂_i)
    otherwise           x_i⁺ = x̂_i

Condat, Agarský and Richtárik, "Provably doubly accelerated federated learning: the first theoretically successful
combination of local training and communication compression" (2022), Algorithm 1, from h_i⁰ = 0. Their γ and η are our
η and γ. The masks q_i are the columns of a matrix with s ones in every row, in a random order that all nodes know:
in row k they are the columns s·k, …, s·k + s - 1, modulo n. So a node sends ⌊sd/n⌋ or ⌈sd/n⌉ coordinates; here always
as many numbers as the longer ones.

Their Theorem 1 has E Ψ ≤ τ^t Ψ⁰ with τ = max{(1-ημ)², (1-ηL)², 1 - p²γ(s-1)/(n-1)} for η < 2/L and
γ ≤ n(s-1)/(s(n-1)). The best s, if messages down cost nothing, is max{2, ⌊n/d⌋}, and p = √((n-1)/(γ(s-1)κ)).

As in `scaffnew`, an iteration is an exchange, the local steps before it are taken in one go, and vectors are sent as
differences to the x of the last exchange, as they are or rounded to float32.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Draws, Purpose, Step, draws
from lessbits.methods.base import MethodRequest, StepSize
from lessbits.methods.outbox import Outbox
from lessbits.methods.request import Suggestion
from lessbits.methods.scaffnew import PROBABILITY, Scaffnew, ScaffnewState, proven_probability
from lessbits.methods.server import as_payload, compressed, up_and_down
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor


@pytree
class Numbers(Compressor):
    """The first k numbers of a row, as they are or rounded. Both ends know which coordinates they belong to."""

    rounding: Compressor
    kept: int = static()

    @property
    def name(self) -> str:
        """What reports show."""
        return f"{self.kept} coordinates"

    def quantize(self, vectors: jax.Array, measure: Any, draws: Draws) -> jax.Array:
        """Return the first numbers."""
        return self.rounding.quantize(vectors[:, : self.kept], measure, draws)

    def decode(self, payload: jax.Array) -> jax.Array:
        """Return them in the working precision."""
        return self.rounding.decode(payload)

    def bits(self, dim: int) -> float:
        """k·b bits."""
        return self.rounding.bits(self.kept)


@pytree
class CompressedScaffnew(Scaffnew):
    """CompressedScaffnew: local steps, and messages to the server that have few coordinates. Those back are whole.

    Attributes:
        eta: Step size η of the gradient.
        probability: Probability p of an exchange after a local step.
        quantizer: `exact` or `float32`, which rounds what is sent.
        gamma: Step size γ of the control variates, at most 1.
        nodes: The number of nodes n.
        dim: The dimension d.
        copies: How many nodes send each coordinate, s.
    """

    gamma: float = 1.0
    nodes: int = static(default=3)
    dim: int = static(default=1)
    copies: int = static(default=2)

    name = "compressed-scaffnew"
    step_sizes = (
        StepSize("eta", "η", "step size of the gradient"),
        PROBABILITY,
        StepSize("gamma", "γ", "step size of the control variates", derived=True, kind="probability"),
    )

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return η = 1/L, γ = n(s-1)/(s(n-1)) and p = √((n-1)/(γ(s-1)κ)), as proven."""
        nodes, copies = request.problem.nodes, cls.facts(request)["copies"]
        gamma = request.given.get("gamma", nodes * (copies - 1) / (copies * (nodes - 1)))
        more = (nodes - 1) / (gamma * (copies - 1))
        return {
            "eta": lambda: 1 / request.smoothness,
            "probability": lambda: proven_probability(request, more),
            "gamma": gamma,
        }

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return n, d and s = max{2, ⌊n/d⌋}."""
        nodes, dim = request.problem.nodes, request.problem.dim
        return {"nodes": nodes, "dim": dim, "copies": max(2, nodes // dim)}

    @property
    def kept(self) -> int:
        """How many numbers a node sends, at most: ⌈sd/n⌉."""
        return math.ceil(self.copies * self.dim / self.nodes)

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """Some coordinates up, and all down."""
        return (Numbers(self.quantizer, self.kept), self.downlink)

    def masks(self, step: Step, nodes: jax.Array) -> jax.Array:
        """Return the mask q_i of each of the given nodes, [nodes, d], which all nodes can compute."""
        order = draws(step, jnp.arange(self.nodes), Purpose.PART).uniform(1, jnp.result_type(float))[:, 0]
        column = jnp.argsort(jnp.argsort(order))[nodes]
        return (column[:, None] - self.copies * jnp.arange(self.dim)[None]) % self.nodes < self.copies

    def send(
        self, step: Step, state: ScaffnewState, problem: Problem, local: LocalNetwork
    ) -> tuple[ScaffnewState, Outbox, jax.Array]:
        """Send. Even iterations: the leaves send coordinates of their local moves. Odd ones: the hub, the mean."""
        state, steps = self.moved_locally(step, state, problem)
        places, sent = chosen_first(self.masks(step, local.nodes), self.kept)
        numbers = jnp.where(sent, jnp.take_along_axis(state.moved, places, axis=1), 0)
        ups = (compressed(step, Numbers(self.quantizer, self.kept), numbers, local),)
        return state, up_and_down(step, local, ups, as_payload(self.downlink, state.mean)), steps * problem.counts

    def receive(
        self, step: Step, state: ScaffnewState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> ScaffnewState:
        """Update. Even iterations: the hub takes the mean. Odd ones: all have it, and move their control variates."""
        places, _ = chosen_first(self.masks(step, local.neighbor), self.kept)
        arrived = self.quantizer.decode(inbox[0].take(slice(None)))
        rows = jnp.zeros((arrived.shape[0], self.dim), arrived.dtype)
        whole = rows.at[jnp.arange(len(rows))[:, None], places].add(arrived)
        own = jnp.where(self.masks(step, local.nodes), state.moved, 0)
        mean = (own + local.sum(lambda slot: whole[slot.links])) / self.copies
        return self.averaged(step, state, mean, inbox, local)

    def pull(self, step: Step, missing: jax.Array, local: LocalNetwork) -> jax.Array:
        """Return how far control variates move: (pγ/η)q·(x̄ - x̂). On the way down masks are those of the way up."""
        mask = self.masks(step._replace(iteration=step.iteration - 1), local.nodes)
        return self.probability * self.gamma / self.eta * jnp.where(mask, missing, 0)


def chosen_first(mask: jax.Array, kept: int) -> tuple[jax.Array, jax.Array]:
    """Return the first places of each row, those in the mask first, and which of them are in the mask."""
    places = jnp.argsort(~mask, axis=1, stable=True)[:, :kept]
    return places, jnp.take_along_axis(mask, places, axis=1)
