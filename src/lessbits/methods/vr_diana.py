"""VR-DIANA: DIANA with variance-reduced gradients.

    each worker i    g_i = ∇f_ij(x) - ∇f_ij(w_i) + ∇f_i(w_i),   w_i⁺ = x with probability b/m_i     (option D)
                     q_i = Q(g_i - h_i), and from there on as in `diana.py`

Horváth, Kovalev, Mishchenko, Stich and Richtárik, "Stochastic distributed learning with gradient quantization and
variance reduction" (2019), in its loopless SVRG variant; there one coin falls for all workers, here one for each.
"""

from lessbits._internal.pytrees import pytree
from lessbits.methods.diana import Diana
from lessbits.methods.gradients import Gradients
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer


@pytree
class VrDiana(Diana):
    """Linear convergence with stochastic gradients, through a server."""

    name = "vr-diana"
    options = ("D",)

    @classmethod
    def suggest(
        cls, problem: Problem, network: Network, compressor: Compressor, gradients: Gradients, practical: bool
    ) -> dict[str, float]:
        """η = 1/(L(1 + 36(1+ω)/n)) (practical: 1/(L(3 + ω/n))) and α = 1/(1+ω)."""
        omega = compressor.omega(problem.dim) if isinstance(compressor, Quantizer) else 0.0
        divisor = 3 + omega / problem.nodes if practical else 1 + 36 * (1 + omega) / problem.nodes
        return {"eta": 1 / (gradients.smoothness(problem) * divisor), "alpha": 1 / (1 + omega)}
