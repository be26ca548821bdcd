"""GT-SVRG: gradient tracking (DIGing) of variance-reduced gradients.

    g_i = ∇f_ij(x_i) - ∇f_ij(w_i) + ∇f_i(w_i)        for a batch of samples j
    w_i = x_i                                         every `inner` iterations, at all nodes at once
    x⁺ = Mx - ηy,    y⁺ = My + g⁺ - g

Xin, Khan and Kar, "Variance-reduced decentralized stochastic optimization with accelerated convergence" (2020). The
default inner loop is as long as a pass over the data, so that a full gradient costs as much as the loop's samples. The
loopless form, with a coin at each node in place of the loop, is `gradient-tracking` with option D.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Step
from lessbits.methods.gradient_tracking import GradientTracking
from lessbits.methods.gradients import Anchor
from lessbits.methods.request import MethodRequest
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem


@pytree
class GtSvrg(GradientTracking):
    """GT-SVRG: converges linearly with stochastic gradients; the paper's uncompressed competitor of option D.

    Attributes:
        eta: Step size η of the gradient.
        gradients: Always option D, with its batch size.
        inner: Iterations between two full gradients.
    """

    inner: int = 1

    name = "gt-svrg"
    options = ("D",)

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return the length of the inner loop: a pass over the data."""
        samples = float(np.mean(np.asarray(request.problem.counts)))
        return {"inner": max(1, round(samples / request.gradients.batch_size))}

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return a quarter of DIGing's η, with L of single samples."""
        return {"eta": super().suggest(request)["eta"] / 4}

    def take(
        self, step: Step, x: jax.Array, anchor: Anchor | None, problem: Problem, local: LocalNetwork
    ) -> tuple[jax.Array, Anchor | None, jax.Array]:
        """Refresh the anchors at the start of each inner loop, then take batches."""
        assert anchor is not None  # option D
        starts = step.iteration % self.inner == 0
        anchor = lax.cond(starts, lambda: Anchor(x, problem.gradient(x)), lambda: anchor)
        gradient = self.gradients.reduced(step, x, anchor, problem, local)
        return gradient, anchor, 2 * self.gradients.batch_size + jnp.where(starts, problem.counts, 0)
