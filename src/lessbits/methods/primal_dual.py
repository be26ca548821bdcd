"""Algorithm 1 of the paper: four decentralized quantized optimization algorithms.

    for each node i, in parallel:
        Option A (line 4)        x_i⁺ = ∇f_i*(z_i)                                      dual update
        Option B (line 5)        x_i⁺ = x_i - η(∇f_i(x_i) - z_i)                        incremental primal update
        Option C (lines 6-7)     x_i⁺ = x_i - η(∇f_i(x_i, ξ_i) - z_i)                   stochastic primal update
        Option D (lines 8-11)    g_i  = ∇f_ij(x_i) - ∇f_ij(w_i) + ∇f_i(w_i),            finite sums
                                 w_i⁺ = x_i with probability 1/m, else w_i,
                                 x_i⁺ = x_i - η(g_i - z_i)
        lines 12-14              Δ_ij = Q(x_i⁺ - h_i) + h_i   for each neighbour j      quantized dual updates
        line 15                  h_i⁺ = h_i + αQ(x_i⁺ - h_i)                            memory
        line 18                  z_i⁺ = z_i - θ Σ_j w_ij (Δ_ij - Δ_ji)                  dual step

Lines 12 to 15 are `send`, and the sum of line 18 is `receive`, of the messages in `messages.py`. The paper's symbols in
full words: x iterate, z dual variable, h memory, w anchor, θ `theta`, η `eta`, α `alpha`, Q `quantizer`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lessbits.errors import InputError, check_name, check_positive
from lessbits.methods.base import Message, Method, Outbox, Start
from lessbits.methods.messages import BroadcastMessages, ExactMessages, IndependentMessages, Messages
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.pytrees import pytree, static
from lessbits.quantizers.base import Compressor, Quantizer
from lessbits.randomness import Purpose, Step, draws

OPTIONS = ("A", "B", "C", "D")
MESSAGES = ("independent", "broadcast")


class Anchor(NamedTuple):
    """Option D's w_i, and ∇f_i(w_i)."""

    point: jax.Array
    gradient: jax.Array


class PrimalDualState(NamedTuple):
    """Iterate x, dual variable z, memory (h and its disagreement g), and option D's anchor."""

    x: jax.Array
    z: jax.Array
    memory: Any
    anchor: Anchor | None


@pytree
class PrimalDual(Method):
    """The paper's method. With an exact quantizer it is the primal-dual gradient method: one vector a link, no memory.

    Option A needs dual gradients, B one gradient an iteration, C and D stochastic ones; prefer D to C on finite sums,
    as C stops at a floor. `messages="independent"` is the paper's, `"broadcast"` sends half the bits (see messages.py).
    """

    theta: float
    eta: float
    alpha: float
    quantizer: Quantizer
    option: str = static(default="B")
    messages: str = static(default="independent")
    batch_size: int = static(default=1)

    name = "primal-dual"
    step_size_names = ("theta", "eta", "alpha")

    @classmethod
    def make(
        cls,
        quantizer: Compressor,
        theta: float,
        eta: float,
        alpha: float | None = None,
        option: str = "B",
        messages: str = "independent",
        batch_size: int = 1,
        dim: int | None = None,
    ) -> "PrimalDual":
        """Check everything; α is 1/(1+ω), which needs the dimension, unless given."""
        if not isinstance(quantizer, Quantizer):
            raise InputError(
                f"primal-dual was given {quantizer.name}, which is biased: choose an unbiased quantizer such as dit-4"
            )
        if alpha is None:
            if dim is None:
                raise InputError("alpha is 1/(1+ω), which depends on the dimension: give alpha or dim")
            alpha = 1 / (1 + quantizer.omega(dim))
        for step_size, given in (("theta", theta), ("eta", eta), ("alpha", alpha)):
            check_positive(step_size, given)
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}, but a batch has at least one sample")
        check_name("option", option, OPTIONS)
        check_name("messages", messages, MESSAGES)
        return cls(float(theta), float(eta), float(alpha), quantizer, option, messages, batch_size)

    @property
    def exchange(self) -> Messages:
        """What nodes send each other: lines 12 to 15, and the sum of line 18."""
        if self.quantizer.lossless:
            return ExactMessages(self.quantizer)
        if self.messages == "broadcast":
            return BroadcastMessages(self.quantizer, self.alpha)
        return IndependentMessages(self.quantizer, self.alpha)

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer, once for each message."""
        return (self.quantizer,) * self.exchange.count

    def prepare(self, problem: Problem) -> Problem:
        """Refuse a batch larger than any node's data; option A wants fast dual gradients."""
        largest = int(jnp.max(problem.counts))
        if self.option in ("C", "D") and self.batch_size > largest and not problem.endless:
            samples = "1 sample" if largest == 1 else f"{largest} samples"
            raise InputError(
                f"batch_size is {self.batch_size}, but no node has more than {samples}: "
                "take a smaller one, or option B, which uses all"
            )
        return problem.with_dual() if self.option == "A" else problem

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> PrimalDualState:
        """Line 1: any x⁰ and h⁰, and any z⁰ that sums to zero."""
        x = problem.start() if start.x is None else jnp.asarray(start.x, jnp.result_type(float))[local.nodes]
        z = jnp.zeros_like(x) if start.z is None else jnp.asarray(start.z, x.dtype)[local.nodes]
        anchor = Anchor(x, problem.gradient(x)) if self.option == "D" else None
        return PrimalDualState(x, z, self.exchange.init(local, start.h, x), anchor)

    def send(
        self, step: Step, state: PrimalDualState, problem: Problem, local: LocalNetwork
    ) -> tuple[PrimalDualState, Outbox, jax.Array]:
        """Lines 4 to 15: the primal step, and the quantized messages about its result."""
        x, z, anchor = state.x, state.z, state.anchor
        if self.option == "A":
            x = problem.dual_gradient(z, guess=x)
            work = problem.counts  # a dual gradient counts as one pass, however it is found
        elif self.option == "B":
            x = x - self.eta * (problem.gradient(x) - z)
            work = problem.counts
        elif self.option == "C":
            x = x - self.eta * (problem.stochastic_gradient(x, step, local.nodes, self.batch_size) - z)
            work = jnp.full_like(problem.counts, self.batch_size)
        else:
            assert anchor is not None  # made by `init` for option D
            samples = problem.draw_samples(draws(step, local.nodes, Purpose.SAMPLE), self.batch_size)
            gradient = (
                problem.sample_gradient(x, samples) - problem.sample_gradient(anchor.point, samples) + anchor.gradient
            )
            anchor, refreshed = self._move_anchor(step, x, anchor, problem, local)
            x = x - self.eta * (gradient - z)
            # The first iteration pays for the anchor's first gradient.
            work = 2 * self.batch_size + problem.counts * (refreshed | (step.iteration == 0))
        outbox = self.exchange.send(step, x, state.memory, local)
        return state._replace(x=x, anchor=anchor), outbox, work

    def receive(
        self, step: Step, state: PrimalDualState, outbox: Outbox, inbox: tuple[Message, ...], local: LocalNetwork
    ) -> PrimalDualState:
        """Line 18: the dual step, against the quantized disagreement."""
        disagreement, memory = self.exchange.receive(outbox, inbox, state.memory, local)
        return state._replace(z=state.z - self.theta * disagreement, memory=memory)

    def _move_anchor(
        self, step: Step, x: jax.Array, anchor: Anchor, problem: Problem, local: LocalNetwork
    ) -> tuple[Anchor, jax.Array]:
        """Line 10, with a batch of b samples: w_i⁺ = x_i with probability b/m_i. Also return where the coin fell."""
        coin = draws(step, local.nodes, Purpose.COIN).uniform(1, x.dtype)[:, 0]
        falls = coin * problem.counts < self.batch_size
        # Full gradients are taken of those nodes alone; the coins do not depend on step sizes, so a sweep shares them.
        numbers = jnp.nonzero(falls, size=falls.shape[0], fill_value=0)[0]
        total = falls.sum()

        def refresh_one(count: jax.Array, gradients: jax.Array) -> jax.Array:
            row = numbers[count][None]
            return gradients.at[row].set(problem.restrict(row).gradient(x[row]))

        def refresh_few(gradients: jax.Array) -> jax.Array:
            return lax.fori_loop(0, total, refresh_one, gradients)

        def refresh_many(gradients: jax.Array) -> jax.Array:
            return jnp.where(falls[:, None], problem.gradient(x), gradients)

        gradients = lax.cond(2 * total > falls.shape[0], refresh_many, refresh_few, anchor.gradient)
        return Anchor(jnp.where(falls[:, None], x, anchor.point), gradients), falls

    def passes(self, problem: Problem) -> float:
        """Option C looks at a batch a node; D at two, and with probability b/m at all."""
        batches = {"C": 1, "D": 3}.get(self.option)
        return 1.0 if batches is None else min(1.0, batches * self.batch_size * problem.nodes / problem.samples)

    def suspect(self, problem: Problem) -> str:
        """Gradient descent alone diverges above η = 2/L; below that it is the dual step."""
        if self.option == "A":
            return "theta"
        try:
            smoothness = problem.smoothness if self.option == "B" else problem.sample_smoothness(self.batch_size)
        except InputError:  # not known of this problem
            return "theta"
        return "eta" if self.eta > 2 / smoothness else "theta"
