"""EF21: error feedback by compressed gradient differences, for biased compressors too; the hub of a star is the server.

    each worker i    c_i = C(∇f_i(x) - g_i),   g_i⁺ = g_i + c_i                 up to the hub, compressed
    the hub          g⁺ = g + (1/n) Σ_i c_i
                     x⁺ = x - ηg⁺                                               down to all: ηg⁺, as float32

Richtárik, Sokolov and Fatkhullin, "EF21: a new, simpler, theoretically better, and practically faster error feedback"
(2021), Algorithm 2, from g_i = 0: their g_i⁰ = C(∇f_i(x⁰)) is our first g_i⁺. C keeps a share δ of a vector,
E‖C(v) - v‖² ≤ (1 - δ)‖v‖². A contraction such as top-k is taken as it is, an unbiased quantizer Q as C = αQ with
α = 1/(1+ω). With α = 1 these are the equations of DIANA, which needs an unbiased Q; EF21's proof does not.

With θ = 1 - √(1-δ) and β = (1-δ)/θ, their Theorem 1 promises for smooth losses, convex or not, that the mean of
‖∇f(x)‖² over T rounds is at most 2(f(x⁰) - f*)/(ηT) + (1/n) Σ_i ‖g_i⁰ - ∇f_i(x⁰)‖²/(θT) for η ≤ 1/(L + L√(β/θ)). Their
Theorem 2 adds a linear rate 1 - ημ for η ≤ min{1/(L + L√(2β/θ)), θ/(2μ)} where the Polyak-Łojasiewicz inequality holds,
as for strongly convex losses. L is here the largest of the local losses, which bounds both constants of the theorems.
"""

import math

import jax

from lessbits._internal.pytrees import pytree
from lessbits.errors import InputError
from lessbits.methods.common import kept_share
from lessbits.methods.diana import Diana
from lessbits.methods.request import MethodRequest, StepSize, Suggestion
from lessbits.networks.network import Network
from lessbits.problems.base import Problem


@pytree
class Ef21(Diana):
    """EF21: finds stationary points of any smooth losses with biased compressors. Linear if losses are strongly convex.

    Attributes:
        eta: Step size η of the gradient.
        alpha: Scale α of a compressed difference.
        quantizer: The compressor C of messages.
        gradients: Always option B.
    """

    name = "ef21"
    step_sizes = (
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "scale of a compressed difference", derived=True, kind="memory"),
    )
    options = ("B",)
    unbiased = False

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return η of Theorem 2 (practical: δ/L, with the δ of Gaussian vectors), and α = 1/(1+ω); contractions: 1."""
        kept, alpha = kept_share(request, typical=request.practical)
        if request.practical:
            return {"eta": lambda: kept / request.smoothness, "alpha": alpha}
        return {"eta": lambda: proven_eta(kept, request.smoothness, request.problem.convexity), "alpha": alpha}

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError for a scale of exact messages, which have none."""
        super().check(problem, network)
        if self.quantizer.lossless and self.alpha != 1:
            raise InputError(f"alpha is {self.alpha:g}, but exact messages need no scale: leave it out")

    def estimate(self, memory: jax.Array, mean: jax.Array) -> jax.Array:
        """Return g⁺, the new memory of the hub."""
        return memory + self.alpha * mean


def proven_eta(kept: float, smoothness: float, convexity: float) -> float:
    """Return η of Theorem 2; if the losses are not strongly convex, that of Theorem 1."""
    theta = 1 - math.sqrt(1 - kept)
    root = math.sqrt((1 - kept) / theta**2)  # √(β/θ)
    if convexity <= 0:
        return 1 / (smoothness * (1 + root))
    return min(1 / (smoothness * (1 + math.sqrt(2) * root)), theta / (2 * convexity))
