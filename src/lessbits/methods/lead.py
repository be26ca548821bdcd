"""LEAD: NIDS with compressed differences.

    y_i  = x_i - η(∇f_i(x_i) - z_i)
    ŷ_i  = h_i + Q(y_i - h_i),   h_i⁺ = h_i + αQ(y_i - h_i)        one message, the same to all neighbours
    z_i⁺ = z_i - γ/(2η) Σ_j w_ij (ŷ_i - ŷ_j)
    x_i⁺ = x_i - η(∇f_i(x_i) - z_i⁺)

Liu, Li, Wang, Tang and Yan, "Linear convergent decentralized optimization with compression" (2020); their D is our -z,
in the sign of the paper's Algorithm 1. The last line corrects the iterate with the *new* dual variable. Algorithm 1
does not: on consensus at η = 1/L the two agree except for the moment at which x is read. Elsewhere they differ,
although the paper's footnote says otherwise. So LEAD is `primal_dual` with broadcast messages, `corrected`, and
θ = γ/(2η). This class has the parameters and step sizes of its authors. With exact messages and γ = 1 it is NIDS. Their
first step is not mixed: our x⁰ is their x¹.
"""

import jax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits.errors import InputError
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.gradients import Gradients
from lessbits.methods.outbox import Outbox
from lessbits.methods.primal_dual import PrimalDual, PrimalDualState
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer
from lessbits.theory.mean_square import NOISE_MARGIN, practical_step_sizes
from lessbits.theory.theorems import TheoryInputs, corrected_step_sizes


@pytree
class Lead(Method):
    """LEAD: exact and linear with compressed messages. It often needs few bits.

    Attributes:
        gamma: Step size γ of gossip.
        eta: Step size η of the gradient.
        alpha: Step size α of the memory.
        quantizer: The unbiased compressor Q of messages.
        gradients: The gradients to take: option and batch size.
    """

    gamma: float
    eta: float
    alpha: float
    quantizer: Quantizer
    gradients: Gradients = static(default=Gradients())

    name = "lead"
    runs_with = ("silence", "churn", "loss")
    step_sizes = (
        StepSize("gamma", "γ", "step size of gossip"),
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memory", kind="memory"),
    )
    compresses = True
    unbiased = True
    mixes = False  # γ damps any weights
    raised = True

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return the step sizes of their Theorem 1, or practical ones."""
        smoothness = request.smoothness
        omega = request.omega
        inputs = TheoryInputs(
            smoothness,
            request.problem.convexity,
            request.network.lambda_max,
            request.network.lambda_min,
            request.network.max_weight,
            omega,
        )
        if not request.practical and request.problem.convexity <= 0:
            raise InputError(
                "the theory of lead needs strong convexity, but μ = 0 here: give gamma, eta and alpha, or take "
                "practical step sizes"
            )
        if not request.practical:
            sizes = corrected_step_sizes(inputs)
        else:
            if isinstance(request.quantizer, Quantizer):
                omega = NOISE_MARGIN * request.quantizer.typical_omega(request.problem.dim)
                inputs = inputs._replace(omega=omega, fading=request.quantizer.fading)
            inputs = inputs._replace(convexity=request.typical_convexity)
            option, given = request.gradients.option, request.given
            sizes = practical_step_sizes(option, inputs, "broadcast", corrected=True, given=given).sizes
        return {"gamma": 2 * sizes.eta * sizes.theta, "eta": sizes.eta, "alpha": sizes.alpha}

    @property
    def as_primal_dual(self) -> PrimalDual:
        """The same method as a `PrimalDual`."""
        return PrimalDual(
            self.gamma / (2 * self.eta),
            self.eta,
            self.alpha,
            self.quantizer,
            self.gradients.option,
            "broadcast",
            self.gradients.batch_size,
            corrected=True,
        )

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of the one message per iteration."""
        return (self.quantizer,)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> PrimalDualState:
        """Return the first state: any x⁰ and h⁰, and a z⁰ that sums to zero."""
        return self.as_primal_dual.init(problem, local, start)

    def send(
        self, step: Step, state: PrimalDualState, problem: Problem, local: LocalNetwork
    ) -> tuple[PrimalDualState, Outbox, jax.Array]:
        """Compute y, and compress its difference to the memory."""
        return self.as_primal_dual.send(step, state, problem, local)

    def receive(
        self, step: Step, state: PrimalDualState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> PrimalDualState:
        """Take the dual step, and compute x⁺ = y + η(z⁺ - z)."""
        return self.as_primal_dual.receive(step, state, outbox, inbox, local)

    def suspect(self, problem: Problem) -> str:
        """Return η if it is above 2/L, else γ."""
        return "eta" if self.gradients.too_large(float(self.eta), problem) else "gamma"
