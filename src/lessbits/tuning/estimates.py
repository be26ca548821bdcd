"""What choices of method, quantizer and messages are expected to need, before anything is run.

Practical step sizes come with a promise of iterations (practical.py), and codecs with the length of a message.
"""

import math
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.randomness import Purpose, Step, draws, make_seed
from lessbits.codecs import make_codec
from lessbits.codecs.frames import header_bytes
from lessbits.config.settings import STEP_SIZES, Settings
from lessbits.errors import InputError
from lessbits.methods.base import Method
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.quantizers import Compressor, Exact, Fading, Quantizer, make_quantizer
from lessbits.tuning.stepsizes import make_method, predict_step_sizes

SPACINGS = (5.6, 4.0, 2.8, 2.0, 1.4, 1.0, 0.5)  # of dithering's levels, in standard deviations
PACES = (0.9, 0.75, 0.6)  # of fading, as shares of the logarithm of what exact messages shrink by
FIRST_SPACING = 1.4  # of fading, in distances to the solution
ILL_CONDITIONED = 50  # a condition number
ROWS = 16  # Gaussian vectors that message lengths are found with


class Choice(NamedTuple):
    """All that shapes a method, but for its step sizes."""

    method: str
    quantizer: str
    messages: str | None = None
    corrected: bool = False
    option: str = "B"
    batch_size: int = 1

    def make(self, problem: Problem, network: Network, **options: Any) -> Method:
        """Make it, with practical step sizes where none are given."""
        return make_method(
            self.method,
            problem,
            network,
            self.quantizer,
            self.option,
            self.messages,
            self.batch_size,
            self.corrected,
            stepsizes="practical",
            **options,
        )

    def flags(self) -> dict[str, Any]:
        """Return it as settings, without those that are as usual."""
        usual = Choice("", "")
        return {name: value for name, value in self._asdict().items() if value != getattr(usual, name)}

    def applied(self, settings: Settings, **changes: Any) -> Settings:
        """Return settings that choose it, whatever they chose before."""
        nothing = dict.fromkeys((*STEP_SIZES, "messages", "option")) | {"corrected": False, "batch_size": 1}
        return settings.updated(**nothing | self.flags() | changes)


def check_question(settings: Settings, reason: str) -> None:
    """Refuse what has no answer when the fewest bits are asked for: given step sizes, and a target of zero."""
    for name in STEP_SIZES:
        if getattr(settings, name) is not None:
            raise InputError(f"{name} was given, but {reason}: leave it out")
    if settings.until is not None and settings.until <= 0:
        raise InputError(
            f"until is {settings.until:g}, but no finite number of bits leads there: give a target above 0"
        )


def ill_conditioned(problem: Problem) -> bool:
    """Whether practical step sizes may be far off, and acceleration pay."""
    return problem.smoothness > ILL_CONDITIONED * problem.convexity


class Estimate(NamedTuple):
    """What a choice is expected to need."""

    choice: Choice
    iterations: float
    bits: float  # a link, encoded and with headers


def message_bits(spelling: str, dim: int, deviation: float = 1.0) -> float:
    """Return the mean length of a message about Gaussian vectors with this standard deviation, with its header."""
    quantizer = make_quantizer(spelling, dim)
    codec = make_codec(quantizer, dim, dtype=np.dtype(jnp.result_type(float)))
    return 8 * (header_bytes(codec) + float(_mean_bytes(quantizer, codec.length_model(), dim, deviation)))


@partial(jax.jit, static_argnames="dim")
def _mean_bytes(quantizer: Compressor, length: Any, dim: int, deviation: float) -> jax.Array:
    vectors = deviation * jax.random.normal(jax.random.key(1), (ROWS, dim))
    draw = draws(Step(make_seed(0), jnp.int32(0)), jnp.arange(ROWS), Purpose.MEMORY)
    return jnp.mean(length(quantizer.quantize(vectors, quantizer.measure(vectors), draw)))


def dithers(dim: int) -> list[str]:
    """Return dithering from coarse to fine, subtractive where that has the smaller error."""
    levels = sorted({max(1, round(math.sqrt(dim) / spacing)) for spacing in SPACINGS})
    return [f"subtractive:{s}" if math.sqrt(dim) / s <= 3 else f"dither:{s}" for s in levels]


def estimate_bits(problem: Problem, network: Network, reduction: float, choices: Iterable[Choice]) -> list[Estimate]:
    """Return what choices of primal-dual may need to divide the squared error by `reduction`, best first."""
    lengths: dict[tuple[str, float], float] = {}
    found = []
    for choice in choices:
        quantizer = make_quantizer(choice.quantizer, problem.dim)
        if not isinstance(quantizer, Quantizer):
            raise InputError(f"primal-dual was given {quantizer.name}, which is biased: choose one such as dit-4")
        messages = choice.messages or "independent"
        fading = quantizer if isinstance(quantizer, Fading) else None
        promise = predict_step_sizes(
            problem,
            network,
            quantizer,
            choice.option,
            messages,
            choice.batch_size,
            choice.corrected,
            refine=fading is not None,
        )
        # What `fading` takes depends on how large the vectors are.
        deviation = promise.spread * float(fading.spacing(0)) if fading else 1.0
        key = (choice.quantizer, deviation)
        if key not in lengths:
            lengths[key] = message_bits(choice.quantizer, problem.dim, deviation)
        iterations = promise.iterations(reduction)
        copies = 2 if messages == "independent" and not quantizer.lossless else 1
        found.append(Estimate(choice, iterations, copies * lengths[key] * iterations))
    return sorted(found, key=lambda each: each.bits)


def gossip_choices(
    dim: int,
    quantizer: str | None = None,
    messages: str | None = None,
    corrected: bool = False,
    option: str = "B",
    batch_size: int = 1,
) -> list[Choice]:
    """Return the choices of primal-dual that are worth a look; what is given is kept."""
    spellings = dithers(dim) if quantizer is None else [quantizer]
    variants = _variants(messages, corrected)
    return [Choice("primal-dual", name, *variant, option, batch_size) for name in spellings for variant in variants]


def _variants(messages: str | None, corrected: bool) -> list[tuple[str, bool]]:
    """Return kinds of messages, with the corrected step or without; what is given is kept."""
    kinds = ("edge", "broadcast") if messages is None else (messages,)
    return [(kind, each) for kind in kinds for each in ((True,) if corrected else (False, True))]


def fading_choices(
    problem: Problem,
    network: Network,
    messages: str | None = None,
    corrected: bool = False,
    option: str = "B",
    batch_size: int = 1,
) -> list[Choice]:
    """Return choices whose precision follows the pace of the method, a little slower than with exact messages."""
    distance = float(np.sqrt(np.mean((np.asarray(problem.start()) - problem.solution) ** 2)))
    if not distance > 0:
        return []
    found = []
    for variant in _variants(messages, corrected):
        exact = predict_step_sizes(problem, network, Exact(), option, variant[0], batch_size, variant[1])
        for pace in PACES if exact.rate < 1 else ():
            factor = max(exact.rate ** (pace / 2), 0.5)
            if factor < 0.99999:
                spelling = f"fading:{FIRST_SPACING * distance:.2g}:{factor:.5g}"
                found.append(Choice("primal-dual", spelling, *variant, option, batch_size))
    return found
