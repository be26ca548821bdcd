"""Estimates of the iterations and bits that a choice of method, quantizer and messages needs, without a run.

The rate of practical step sizes is predicted (theory/mean_square.py), and codecs give the length of a message.
"""

import textwrap
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.quick_programs import quick_jit
from lessbits._internal.randomness import Purpose, Step, draws, make_seed
from lessbits.codecs import make_codec
from lessbits.codecs.frames import header_bytes
from lessbits.errors import InputError
from lessbits.faults import Faults
from lessbits.methods.base import Method
from lessbits.methods.choosing import ChosenWith
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import predict_step_sizes
from lessbits.methods.registry import find_method
from lessbits.methods.request import MethodRequest
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.quantizers import Compressor, Fading, Quantizer, make_quantizer
from lessbits.quantizers.choices import dithers
from lessbits.tuning.raising import measure_curvature
from lessbits.tuning.stability import try_step_sizes
from lessbits.tuning.stepsizes import make_method

PACES = (0.9, 0.75, 0.6)  # of fading: shares of the log of the factor by which the error shrinks with exact messages
FIRST_SPACING = 1.4  # of fading, in units of how far iterates move in a short run with exact messages
ROWS = 16  # Gaussian vectors that message lengths are averaged over


class Choice(NamedTuple):
    """A method with its quantizer, messages and gradients, but without step sizes."""

    method: str
    quantizer: str
    messages: str | None = None
    corrected: bool = False
    option: str = "B"
    batch_size: int = 1

    def make(
        self,
        problem: Problem,
        network: Network,
        faults: Faults | None = None,
        target: float | None = None,
        **sizes: float,
    ) -> Method:
        """Return the method, with practical step sizes where none are given; `target` is for those made for one."""
        aimed = target if find_method(self.method).for_target else None
        choices: dict[str, Any] = {**self._asdict(), "faults": faults, "target": aimed, **sizes}
        return make_method(choices.pop("method"), problem, network, stepsizes="practical", **choices)

    def in_python(self, target: float | None = None) -> str:
        """Return the Python that makes the method, for a target if it is made for one, in lines of at most 80 columns.

        >>> print(Choice("lead", "dit-4").in_python())
        lessbits.make_method("lead", problem, network, "dit-4", stepsizes="practical")
        """
        further = [f"{name}={value!r}" for name, value in self.changes().items() if name not in ("method", "quantizer")]
        if target is not None and find_method(self.method).for_target:
            further.append(f"target={float(target)!r}")
        words = f'"{self.method}", problem, network, "{self.quantizer}"'
        words = ", ".join([words, *further, "stepsizes='practical'"]).replace("'", '"')
        return textwrap.fill(f"lessbits.make_method({words})", 78, subsequent_indent="      ", break_on_hyphens=False)

    def request(self, problem: Problem, network: Network) -> MethodRequest:
        """Return the request that the mean-square analysis takes."""
        quantizer, gradients = make_quantizer(self.quantizer, problem.dim), Gradients(self.option, self.batch_size)
        return MethodRequest(problem, network, quantizer, gradients, self.messages, self.corrected)

    def changes(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults."""
        defaults = Choice("", "")
        return {name: value for name, value in self._asdict().items() if value != getattr(defaults, name)}


class Constraints(NamedTuple):
    """The fields of a choice that a search must not change. None and False leave a field free."""

    quantizer: str | None = None
    messages: str | None = None
    corrected: bool = False
    option: str = "B"
    batch_size: int = 1

    def binds_messages(self) -> bool:
        """Return whether only methods with several kinds of messages, a corrected form or option A are possible."""
        return self.messages is not None or self.corrected or self.option == "A"


class Estimate(NamedTuple):
    """The iterations and bits that a choice is expected to need, and what choosing its step sizes costs besides."""

    choice: Choice
    iterations: float
    bits: float  # per link, encoded and with headers
    chosen_with: ChosenWith = ChosenWith()


def message_bits(quantizer: str | Compressor, dim: int, deviation: float = 1.0) -> float:
    """Return the mean bits of a message, with its header, for Gaussian vectors with this standard deviation."""
    quantizer = make_quantizer(quantizer, dim)
    codec = make_codec(quantizer, dim, dtype=np.dtype(jnp.result_type(float)))
    return 8 * (header_bytes(codec) + float(_mean_bytes(quantizer, codec.length_model(), dim, deviation)))


@partial(quick_jit, static_argnames="dim")
def _mean_bytes(quantizer: Compressor, length: Any, dim: int, deviation: float) -> jax.Array:
    vectors = deviation * jax.random.normal(jax.random.key(1), (ROWS, dim))
    draw = draws(Step(make_seed(0), jnp.int32(0)), jnp.arange(ROWS), Purpose.MEMORY)
    return jnp.mean(length(quantizer.quantize(vectors, quantizer.measure(vectors), draw)))


def estimate_bits(problem: Problem, network: Network, reduction: float, choices: Iterable[Choice]) -> list[Estimate]:
    """Return what choices of primal-dual need to divide the squared error by `reduction`, fewest bits first."""
    lengths: dict[tuple[str, float], float] = {}
    found = []
    for choice in choices:
        quantizer = make_quantizer(choice.quantizer, problem.dim)
        if not isinstance(quantizer, Quantizer):
            raise InputError(f"primal-dual was given {quantizer.name}, which is biased: choose one such as dit-4")
        messages = choice.messages or "independent"
        fading = quantizer if isinstance(quantizer, Fading) else None
        request, _ = measure_curvature(find_method(choice.method), choice.request(problem, network))
        prediction = predict_step_sizes(request, refine=fading is not None)
        # The message length of `fading` depends on the size of the vectors.
        deviation = prediction.spread * float(fading.spacing(0)) if fading else 1.0
        key = (choice.quantizer, deviation)
        if key not in lengths:
            lengths[key] = message_bits(choice.quantizer, problem.dim, deviation)
        iterations = prediction.iterations(reduction)
        copies = 2 if messages == "independent" and quantizer.random else 1
        found.append(Estimate(choice, iterations, copies * lengths[key] * iterations))
    return sorted(found, key=lambda each: each.bits)


def predictable_choices(method: str, dim: int, kept: Constraints) -> list[Choice]:
    """Return the choices of quantizer and messages to estimate."""
    spellings = dithers(dim) if kept.quantizer is None else [kept.quantizer]
    variants = _variants(kept)
    return [Choice(method, name, *variant, kept.option, kept.batch_size) for name in spellings for variant in variants]


def _variants(kept: Constraints) -> list[tuple[str, bool]]:
    """Return the kinds of messages, each with and without the corrected step."""
    kinds = ("edge", "broadcast") if kept.messages is None else (kept.messages,)
    return [(kind, each) for kind in kinds for each in ((True,) if kept.corrected else (False, True))]


def fading_choices(method: str, problem: Problem, network: Network, kept: Constraints) -> list[Choice]:
    """Return choices with `fading` quantizers whose spacing shrinks a little slower than the error with exact ones."""
    found: list[Choice] = []
    distance = moved_distance(method, problem, network, kept)
    for variant in _variants(kept):
        choice = Choice(method, "exact", *variant, kept.option, kept.batch_size)
        request, _ = measure_curvature(find_method(method), choice.request(problem, network))
        exact = predict_step_sizes(request)
        for pace in PACES if exact.rate < 1 and distance > 0 else ():
            factor = max(exact.rate ** (pace / 2), 0.5)
            if factor < 0.99999:
                found.append(choice._replace(quantizer=f"fading:{FIRST_SPACING * distance:.2g}:{factor:.5g}"))
    return found


def moved_distance(method: str, problem: Problem, network: Network, kept: Constraints) -> float:
    """Return how far iterates move in a short run with exact messages: the root mean square of a coordinate."""
    try:
        exact = Choice(method, "exact", option=kept.option, batch_size=kept.batch_size).make(problem, network)
    except InputError:  # no step sizes are stable even with exact messages
        return 0.0
    moved = try_step_sizes(problem, network, exact).x - np.asarray(problem.start())
    return float(np.sqrt(np.mean(moved**2)))
