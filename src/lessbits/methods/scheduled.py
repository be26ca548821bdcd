"""LEAD with step sizes and spacings that change from iteration to iteration, by a schedule that is computed before.

    y_i  = x_i - η_k(∇f_i(x_i) - z_i)
    ŷ_i  = h_i + Q_k(y_i - h_i),   h_i⁺ = h_i + α_k Q_k(y_i - h_i)      one message, the same to all neighbours
    z_i⁺ = z_i - θ_k Σ_j w_ij (ŷ_i - ŷ_j)
    x_i⁺ = y_i + η_k(z_i⁺ - z_i)

Q_k is subtractive dithering with the spacing Δ_k, which both ends know. θ_k, η_k, α_k and Δ_k, for k < K, are those
with which the target should be reached with the fewest bits (theory/schedules.py). They follow from the eigenvalues of
the network, from L and μ, and from the sizes of the first iterates and gradients. Where the run has not reached its
target after K iterations, because it differs from the model, it continues as LEAD does: with constant step sizes, and
spacings that shrink by a constant factor. So it converges all the same.

A schedule is for x_i alone. It may leave z_i far from ∇f_i(x*), and x_i would then go far away before it comes back.
Nodes that average their own vectors c_i mend this without a message: z_i = ∇f_i(x_i) = x_i - c_i after K iterations. It
sums to zero, as the mean of all x_i is that of all c_i from the start on, and is as near to ∇f_i(x*) as x_i is to x*.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import choose_rows, pytree, static
from lessbits._internal.randomness import Step
from lessbits.errors import InputError
from lessbits.methods.base import Method, MethodRequest, Start, StepSize
from lessbits.methods.choosing import ChosenWith, remember_cost
from lessbits.methods.gradients import Gradients
from lessbits.methods.outbox import Outbox
from lessbits.methods.prediction import predict_step_sizes, theory_inputs
from lessbits.methods.primal_dual import PrimalDual, PrimalDualState
from lessbits.methods.scheduling import REDUCTION, agreement_bits, first_error, modes_of, scheduled_steps
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer
from lessbits.quantizers.fading import Fading
from lessbits.theory.theorems import corrected_step_sizes

LEAST_ALPHA = 0.5  # after the schedule
SCALES = (0.8, 0.9, 1, 1.2)  # of first errors, that a search tries


class ScheduledState(NamedTuple):
    """The state of Algorithm 1, and whether the mean of all x is the solution from the start on."""

    inner: PrimalDualState
    centred: jax.Array | None  # a bool for each node, or None

    @property
    def x(self) -> jax.Array:
        """The iterate."""
        return self.inner.x


class StepTable(NamedTuple):
    """θ, η and α of the first iterations."""

    theta: jax.Array
    eta: jax.Array
    alpha: jax.Array


@pytree
class Scheduled(Method):
    """Gossip with a schedule from the spectrum of the network: fewer bits than with constant step sizes.

    Attributes:
        theta: Step size θ of the dual variable after the schedule.
        eta: Step size η of the gradient after the schedule.
        alpha: Step size α of the memory after the schedule.
        quantizer: `fading` with the spacings of the schedule. In a request, fading:U:R is given: U is the size of first
            errors in units of what nodes measure, and R the factor of spacings after the schedule.
        table: The step sizes of the schedule.
        asked: The spelling of fading:U:R, which another run is made with: the size of first errors is measured anew.
        gradients: The gradients to take: full ones.
    """

    theta: float
    eta: float
    alpha: float
    quantizer: Quantizer
    table: StepTable
    asked: str = static(default="fading:1:0.97")
    gradients: Gradients = static(default=Gradients())

    name = "scheduled"
    step_sizes = (
        StepSize("theta", "θ", "step size of the dual variable"),
        StepSize("eta", "η", "step size of the gradient"),
        StepSize("alpha", "α", "step size of the memory", derived=True, kind="memory"),
    )
    options = ("B",)
    compresses = True
    unbiased = True
    default_quantizer = "fading:1:0.97"
    mixes = False  # θ damps any weights
    guarded = True
    for_target = True
    note = "has a schedule for one target: give --until, and continue with another method if you want more."

    @classmethod
    def check_quantizer(cls, quantizer: Any) -> None:
        """Raise InputError for quantizers whose spacing is not a schedule."""
        super().check_quantizer(quantizer)
        if not isinstance(quantizer, Fading):
            raise InputError(f"scheduled was given {quantizer.name}, but its messages have a schedule: leave it out")

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return the step sizes after the schedule: those that LEAD is proven for, or faster ones below its limits.

        With η ≤ 1/L and ηθ ≤ 1/λ_max, exact messages are stable, and the noise of `fading` does not change this.
        """
        request = _as_lead(request)
        if not request.practical:
            return corrected_step_sizes(theory_inputs(request, noise=False))._asdict()
        sizes = predict_step_sizes(request).sizes
        eta = min(sizes.eta, 1 / request.smoothness)
        theta = min(sizes.theta, 1 / (eta * request.network.lambda_max))
        # The schedule may end with memories far behind.
        return {"theta": theta, "eta": eta, "alpha": max(sizes.alpha, LEAST_ALPHA)}

    @classmethod
    def facts(cls, request: MethodRequest) -> dict[str, Any]:
        """Return the schedule, and the quantizer with its spacings."""
        request = _as_lead(request)
        found = scheduled_steps(request)
        target = request.target or REDUCTION * first_error(modes_of(request))
        assert isinstance(request.quantizer, Fading)
        # After the schedule, the noise of a message is as large as the error should be.
        quantizer = request.quantizer.after(found.spacing, np.sqrt(12 * target / request.problem.dim))
        kind = jnp.result_type(float)
        table = StepTable(*(jnp.asarray(each, kind) for each in (found.theta, found.eta, found.alpha)))
        return {"quantizer": quantizer, "table": table, "asked": request.quantizer.name}

    @classmethod
    def build(cls, request: MethodRequest, sizes: dict[str, float]) -> "Scheduled":
        """Make the method, and keep what agreeing on the scale costs."""
        method = super().build(request, sizes)
        remember_cost(method, ChosenWith(bits_per_link=agreement_bits(request.network)))
        return method

    def at(self, step: Step) -> PrimalDual:
        """Return the method of one iteration."""
        count = self.table.theta.shape[0]
        place = jnp.minimum(step.iteration, count - 1)
        inside = step.iteration < count

        def size(row: jax.Array, later: Any) -> Any:
            return jnp.where(inside, row[place], later)

        sizes = {name: size(row, getattr(self, name)) for name, row in self.table._asdict().items()}
        return PrimalDual(**sizes, quantizer=self.quantizer, messages="broadcast", corrected=True)

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of the one message per iteration."""
        return (self.quantizer,)

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> ScheduledState:
        """Return the first state: any x⁰ and h⁰, and a z⁰ that sums to zero."""
        first = self.at(Step(jnp.zeros(2, jnp.uint32), jnp.int32(0))).init(problem, local, start)
        centred = jnp.ones_like(local.nodes, bool) if problem.averages and start.x is None else None
        return ScheduledState(first, centred)

    def send(
        self, step: Step, state: ScheduledState, problem: Problem, local: LocalNetwork
    ) -> tuple[ScheduledState, Outbox, jax.Array]:
        """Compute y, and compress its difference to the memory."""
        inner = state.inner
        if state.centred is not None:
            ends = state.centred & (step.iteration == self.table.theta.shape[0])
            z = choose_rows(ends, problem.gradient(inner.x), inner.z)
            lost = None if inner.lost is None else choose_rows(ends, jnp.zeros_like(z), inner.lost)
            inner = inner._replace(z=z, lost=lost)
        inner, outbox, work = self.at(step).send(step, inner, problem, local)
        return state._replace(inner=inner), outbox, work

    def receive(
        self, step: Step, state: ScheduledState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> ScheduledState:
        """Take the dual step, and compute x⁺ = y + η(z⁺ - z)."""
        return state._replace(inner=self.at(step).receive(step, state.inner, outbox, inbox, local))

    def choices(self) -> list[str]:
        """Return the length of the schedule."""
        return [f"schedule of {self.table.theta.shape[0]} iterations"]

    def suspect(self, problem: Problem) -> str:
        """Return η if it is above 2/L, else θ."""
        return "eta" if self.gradients.too_large(float(self.eta), problem) else "theta"

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Return whether the nodes average vectors: elsewhere the model is rough."""
        return problem.averages

    @classmethod
    def quantizers_to_try(cls, dim: int) -> list[str]:
        """Return the measured scale of first errors, and some around it."""
        return [f"fading:{scale:g}:0.97" for scale in SCALES]


def _as_lead(request: MethodRequest) -> MethodRequest:
    """Return the request with the messages and the step of LEAD."""
    return replace(request, messages="broadcast", corrected=True)
