"""VR-DIANA: DIANA with variance-reduced gradients.

    each worker i    g_i = ∇f_ij(x) - ∇f_ij(w_i) + ∇f_i(w_i),   w_i⁺ = x with probability b/m_i     (option D)
                     q_i = Q(g_i - h_i), and the rest as in `diana.py`

Horváth, Kovalev, Mishchenko, Stich and Richtárik, "Stochastic distributed learning with gradient quantization and
variance reduction" (2019), in its loopless SVRG variant. There all workers share one coin; here each has its own.
"""

from lessbits._internal.pytrees import pytree
from lessbits.methods.diana import Diana
from lessbits.methods.request import MethodRequest, Suggestion


@pytree
class VrDiana(Diana):
    """VR-DIANA: converges linearly with stochastic gradients, through a server.

    Attributes:
        eta: Step size η of the gradient.
        alpha: Step size α of the memory.
        quantizer: The unbiased compressor Q of messages.
        gradients: Always option D, with its batch size.
    """

    name = "vr-diana"
    options = ("D",)

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, Suggestion]:
        """Return η = 1/(L(1 + 36(1+ω)/n)) (practical: 1/(L(3 + ω/n))) and α = 1/(1+ω)."""
        omega, nodes = request.omega, request.problem.nodes
        divisor = 3 + omega / nodes if request.practical else 1 + 36 * (1 + omega) / nodes
        return {"eta": lambda: 1 / (request.smoothness * divisor), "alpha": 1 / (1 + omega)}
