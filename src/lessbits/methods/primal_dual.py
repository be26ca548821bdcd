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
        if corrected             x_i⁺ ← x_i⁺ + η(z_i⁺ - z_i)                            not in the paper: as in LEAD

Lines 5 to 11 take their gradients from `gradients.py`; lines 12 to 15 are `send`, and the sum of line 18 is `receive`,
of the messages in `messages.py`. The paper's symbols in full words: x iterate, z dual variable, h memory, w anchor,
θ `theta`, η `eta`, α `alpha`, Q `quantizer`.
"""

from typing import Any, NamedTuple

import jax

from lessbits._internal.pytrees import pytree, static
from lessbits._internal.randomness import Step
from lessbits._internal.summation import no_digits_lost, subtract
from lessbits.errors import InputError, check_flag, check_name, check_positive, check_whole
from lessbits.faults import Faults
from lessbits.methods.base import Method, Start
from lessbits.methods.common import start_at, start_dual
from lessbits.methods.gradients import OPTIONS, Anchor, Gradients
from lessbits.methods.messages import BroadcastMessages, EdgeMessages, ExactMessages, IndependentMessages, Messages
from lessbits.methods.outbox import Message, Outbox
from lessbits.methods.prediction import predict_step_sizes, theory_inputs
from lessbits.methods.request import MethodRequest, StepSize
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer
from lessbits.theory import corrected_step_sizes, rate, step_sizes

MESSAGES = ("independent", "broadcast", "edge")


class PrimalDualState(NamedTuple):
    """Iterate x, dual variable z, memory (h and its disagreement g), and option D's anchor."""

    x: jax.Array
    z: jax.Array
    memory: Any
    anchor: Anchor | None
    lost: jax.Array | None  # rounding error of z, kept in float32 runs


@pytree
class PrimalDual(Method):
    """The paper's Algorithm 1. With an exact quantizer it is the primal-dual gradient method, without a memory.

    Option A takes dual gradients, B one full gradient per iteration, C and D stochastic gradients. On finite sums
    prefer D to C, because C stops at an error floor. The corrected form uses the new dual variable in the gradient
    step. On consensus with η < 1/L the method is heavy ball, and its corrected form is Nesterov's method. Both are
    faster on slow networks, and the corrected form is stable under far more noise (docs/fewest-bits.md).

    Attributes:
        theta: Step size θ of the dual variable.
        eta: Step size η of the gradient.
        alpha: Step size α of the memory.
        quantizer: The unbiased compressor Q of messages.
        option: "A", "B", "C" or "D".
        messages: "independent" (the paper's), "broadcast" or "edge"; the last two send half the bits (messages.py).
        batch_size: Samples in a batch per node, for options C and D.
        corrected: Whether to use the corrected form.
    """

    theta: float
    eta: float
    alpha: float
    quantizer: Quantizer
    option: str = static(default="B")
    messages: str = static(default="independent")
    batch_size: int = static(default=1)
    corrected: bool = static(default=False)

    name = "primal-dual"
    runs_with = ("silence", "churn", "loss")
    step_sizes = (
        StepSize("theta", "θ", "step size of the dual variable"),
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memory", derived=True, kind="memory"),
    )

    options = OPTIONS
    compresses = True
    unbiased = True
    message_kinds = MESSAGES
    correctable = True
    mixes = False  # θ damps any weights
    predictable = True
    raised = True

    @classmethod
    def make(  # noqa: PLR0913 (the paper's parameters)
        cls,
        quantizer: Compressor,
        theta: float,
        eta: float,
        alpha: float | None = None,
        option: str = "B",
        messages: str = "independent",
        batch_size: int = 1,
        corrected: bool = False,
        dim: int | None = None,
    ) -> "PrimalDual":
        """Make the method from checked arguments. By default α is 1/(1+ω), which needs the dimension `dim`."""
        cls.check_quantizer(quantizer)
        assert isinstance(quantizer, Quantizer)
        if alpha is None:
            if dim is None:
                raise InputError("alpha is 1/(1+ω), which depends on the dimension: give alpha or dim")
            alpha = 1 / (1 + quantizer.omega(check_whole("dim", dim, 1)))
        for name, value in (("theta", theta), ("eta", eta), ("alpha", alpha)):
            check_positive(name, value)
        batch_size = check_whole("batch_size", batch_size, 1)
        made = cls(float(theta), float(eta), float(alpha), quantizer, option, messages, batch_size, corrected)
        made.check_choices()
        return made

    def check_choices(self) -> None:
        """Raise InputError for an unknown option or kind of messages."""
        check_flag("corrected", self.corrected)
        check_name("option", self.option, OPTIONS)
        check_name("messages", self.messages, MESSAGES)

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError for what does not fit, as after `dataclasses.replace`."""
        self.check_choices()
        super().check(problem, network)

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return α = 1/(1+ω) with the theorems' θ and η, or the step sizes that are fastest on model problems.

        Proven step sizes of option C with a target error ε are those of Corollary C; of option B corrected, LEAD's.
        """
        option, given = request.gradients.option, dict(request.given)
        if option == "A":
            given.setdefault("eta", 1.0)  # option A has no gradient step
        if {"theta", "eta"} <= given.keys():
            return {"alpha": 1 / (1 + request.omega), **given}
        if request.practical:
            return {**predict_step_sizes(request).sizes._asdict(), **given}
        inputs = theory_inputs(request, noise=request.target is not None)  # only a target makes η depend on it
        # LEAD's theorem covers full gradients. Option A has no step to correct; C and D use the uncorrected theorems.
        lead = request.corrected and option == "B"
        proven = corrected_step_sizes(inputs) if lead else step_sizes(option, inputs, request.target)
        return {**proven._asdict(), **given}

    @classmethod
    def undecided(cls, request: MethodRequest) -> set[str]:
        """Return the step sizes left to choose; option A has no gradient step."""
        return super().undecided(request) - ({"eta"} if request.gradients.option == "A" else set())

    def tunable(self) -> tuple[str, ...]:
        """Return the step sizes to search; option A has no gradient step."""
        return tuple(name for name in super().tunable() if (self.option, name) != ("A", "eta"))

    @classmethod
    def build(cls, request: MethodRequest, sizes: dict[str, float]) -> "PrimalDual":
        """Make the method with these step sizes."""
        return cls.make(
            request.quantizer,
            sizes["theta"],
            sizes["eta"],
            sizes["alpha"],
            option=request.gradients.option,
            messages=request.messages or MESSAGES[0],
            batch_size=request.gradients.batch_size,
            corrected=request.corrected,
        )

    @property
    def exchange(self) -> Messages:
        """The messages between nodes: lines 12 to 15, and the sum of line 18."""
        if self.quantizer.lossless:
            return ExactMessages(self.quantizer)
        if self.messages == "edge":
            return EdgeMessages(self.quantizer, self.alpha)
        # Rounding is the same for all neighbours and for the memory: a second message would repeat the first.
        independent = self.messages == "independent" and self.quantizer.random
        return (IndependentMessages if independent else BroadcastMessages)(self.quantizer, self.alpha)

    def choices(self) -> list[str]:
        """Return the option, the kind of messages, and whether the form is corrected."""
        return [f"option {self.option}", f"{self.messages} messages", *(["corrected"] if self.corrected else [])]

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer, once per message."""
        return (self.quantizer,) * self.exchange.count

    @property
    def gradients(self) -> Gradients:
        """The gradients of options B, C and D: lines 5 to 11."""
        return Gradients("B" if self.option == "A" else self.option, self.batch_size)

    def prepare(self, problem: Problem) -> Problem:
        """Return the problem, with dual gradients precomputed for option A."""
        return problem.with_dual() if self.option == "A" else problem

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> PrimalDualState:
        """Return the first state (line 1): any x⁰ and h⁰, and any z⁰ that sums to zero."""
        x = start_at(problem, local.nodes, start)
        z = start_dual(x, local.nodes, start)
        memory, anchor = self.exchange.init(local, start.h, x), self.gradients.init(problem, x)
        return PrimalDualState(x, z, memory, anchor, no_digits_lost(z))

    def send(
        self, step: Step, state: PrimalDualState, problem: Problem, local: LocalNetwork
    ) -> tuple[PrimalDualState, Outbox, jax.Array]:
        """Take the primal step, and quantize its result (lines 4 to 15)."""
        x, z, anchor = state.x, state.z, state.anchor
        if self.option == "A":
            x = problem.dual_gradient(z, guess=x)
            work = problem.counts  # a dual gradient counts as one pass, however it is found
        else:
            gradient, anchor, work = self.gradients.take(step, x, anchor, problem, local)
            x = x - self.eta * (gradient - z)
        outbox = self.exchange.send(step, x, state.memory, local)
        return state._replace(x=x, anchor=anchor), outbox, work

    def receive(
        self, step: Step, state: PrimalDualState, outbox: Outbox, inbox: tuple[Message, ...], local: LocalNetwork
    ) -> PrimalDualState:
        """Take the dual step along the quantized disagreement (line 18)."""
        disagreement, memory = self.exchange.receive(outbox, inbox, state.memory, local)
        corrected = self.corrected and self.option != "A"  # option A has no gradient step to correct
        x = state.x - self.eta * self.theta * disagreement if corrected else state.x
        z, lost = subtract(state.z, state.lost, self.theta * disagreement)
        return state._replace(x=x, z=z, lost=lost, memory=memory)

    def suspect(self, problem: Problem) -> str:
        """Return η above 2/L, where gradient descent diverges; else θ."""
        return "eta" if self.option != "A" and self.gradients.too_large(self.eta, problem) else "theta"

    def proven_rate(self, problem: Problem, network: Network, faults: Faults | None = None) -> float | None:
        """Return the rate of the option's theorem if the loss is strongly convex; None if corrected or with faults."""
        if self.corrected or (faults is not None and faults.kinds):
            return None
        gradients = Gradients(self.option, self.batch_size)
        request = MethodRequest(problem, network, self.quantizer, gradients, self.messages)
        try:
            return rate(self.option, theory_inputs(request, noise=False))
        except InputError:  # not strongly convex
            return None

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Return True: gossip is always tried."""
        return True
