"""How a method takes ∇f_i(x_i): the full gradient, the gradient of a batch, or a variance-reduced one."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.randomness import Purpose, Step, draws
from lessbits.errors import InputError, check_name, check_whole
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem

OPTIONS = ("A", "B", "C", "D")


class Anchor(NamedTuple):
    """Option D's anchor w_i, and its gradient ∇f_i(w_i)."""

    point: jax.Array
    gradient: jax.Array


@dataclass(frozen=True)
class Gradients:
    """How a method takes gradients, by the letters of the paper's Algorithm 1.

        A (line 4)        none: some methods take dual gradients instead         all samples
        B (line 5)        g_i = ∇f_i(x_i)                                       all samples
        C (lines 6-7)     g_i = ∇f_i(x_i, ξ_i)                                  a batch drawn with replacement
        D (lines 8-11)    g_i = ∇f_ij(x_i) - ∇f_ij(w_i) + ∇f_i(w_i),            finite sums (loopless SVRG)
                          w_i⁺ = x_i with probability b/m_i, else w_i

    B is exact. C is cheap, and leaves noise. D is cheap on average, and its noise vanishes as the run converges.

    Attributes:
        option: One of the letters above.
        batch_size: Samples in a batch per node, for options C and D.
    """

    option: str = "B"
    batch_size: int = 1

    def check(self, problem: Problem) -> None:
        """Raise InputError for an unknown option, and for a batch larger than every node's data."""
        check_name("option", self.option, OPTIONS)
        check_whole("batch_size", self.batch_size, 1)
        largest = int(np.max(np.asarray(problem.counts)))
        if self.option in ("C", "D") and self.batch_size > largest and not problem.endless:
            samples = "1 sample" if largest == 1 else f"{largest} samples"
            raise InputError(
                f"batch_size is {self.batch_size}, but no node has more than {samples}: "
                "take a smaller one, or option B, which uses all"
            )

    def init(self, problem: Problem, x: jax.Array) -> Anchor | None:
        """Return the anchor w⁰ = x⁰ and its gradient for option D, else None."""
        return Anchor(x, problem.gradient(x)) if self.option == "D" else None

    def take(
        self, step: Step, x: jax.Array, anchor: Anchor | None, problem: Problem, local: LocalNetwork
    ) -> tuple[jax.Array, Anchor | None, jax.Array]:
        """Return the gradients at x, the new anchor, and the number of sample gradients taken per node."""
        if self.option == "B":
            return problem.gradient(x), anchor, problem.counts
        if self.option == "C":
            gradient = problem.stochastic_gradient(x, step, local.nodes, self.batch_size)
            return gradient, anchor, jnp.full_like(problem.counts, self.batch_size)
        assert anchor is not None  # made by `init` for option D
        gradient = self.reduced(step, x, anchor, problem, local)
        anchor, refreshed = self._move_anchor(step, x, anchor, problem, local)
        # The first iteration pays for the anchor's first gradient.
        takes_full = (refreshed | (step.iteration == 0)).astype(problem.counts.dtype)
        return gradient, anchor, 2 * self.batch_size + problem.counts * takes_full

    def reduced(self, step: Step, x: jax.Array, anchor: Anchor, problem: Problem, local: LocalNetwork) -> jax.Array:
        """Return ∇f_ij(x_i) - ∇f_ij(w_i) + ∇f_i(w_i) for a batch of samples j."""
        samples = problem.draw_samples(draws(step, local.nodes, Purpose.SAMPLE), self.batch_size)
        return problem.sample_gradient(x, samples) - problem.sample_gradient(anchor.point, samples) + anchor.gradient

    def _move_anchor(
        self, step: Step, x: jax.Array, anchor: Anchor, problem: Problem, local: LocalNetwork
    ) -> tuple[Anchor, jax.Array]:
        """Set w_i⁺ = x_i with probability b/m_i (line 10, with a batch of b samples); return which anchors moved."""
        coin = draws(step, local.nodes, Purpose.COIN).uniform(1, x.dtype)[:, 0]
        moves = coin * problem.counts.astype(coin.dtype) < self.batch_size
        # Full gradients are taken only at these nodes. Coins do not depend on step sizes, so a sweep shares them.
        moving_nodes = jnp.nonzero(moves, size=moves.shape[0], fill_value=0)[0]
        total = moves.sum()

        def refresh_one(count: jax.Array, gradients: jax.Array) -> jax.Array:
            row = moving_nodes[count][None]
            return gradients.at[row].set(problem.restrict(row).gradient(x[row]))

        def refresh_few(gradients: jax.Array) -> jax.Array:
            return lax.fori_loop(0, total, refresh_one, gradients)

        def refresh_many(gradients: jax.Array) -> jax.Array:
            return jnp.where(moves[:, None], problem.gradient(x), gradients)

        gradients = lax.cond(2 * total > moves.shape[0], refresh_many, refresh_few, anchor.gradient)
        return Anchor(jnp.where(moves[:, None], x, anchor.point), gradients), moves

    def passes(self, problem: Problem) -> float:
        """Return the share of all samples used per iteration: C one batch per node; D two, and with chance b/m all."""
        batches = {"C": 1, "D": 3}.get(self.option)
        return 1.0 if batches is None else min(1.0, batches * self.batch_size * problem.nodes / problem.samples)

    def smoothness(self, problem: Problem) -> float:
        """Return the smoothness L of the local losses, or of batches for options C and D."""
        stochastic = self.option in ("C", "D")
        return problem.sample_smoothness(self.batch_size) if stochastic else problem.smoothness

    def too_large(self, eta: float, problem: Problem) -> bool:
        """Return whether gradient descent alone would diverge: η above 2/L, if L is known."""
        try:
            return eta > 2 / self.smoothness(problem)
        except InputError:  # L is not known for this problem
            return False
