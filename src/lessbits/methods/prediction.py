"""The inputs of theory and of the mean-square analysis for a request, and the step sizes that they predict."""

import math
from dataclasses import replace

import numpy as np

from lessbits._internal.answers import kept_answer
from lessbits.methods.request import MethodRequest
from lessbits.quantizers.base import Quantizer
from lessbits.theory import (
    EdgeSizes,
    Prediction,
    StepSizes,
    TheoryInputs,
    edge_modes,
    edge_step_sizes,
    edges,
    mean_square,
    practical_step_sizes,
    theorems,
)
from lessbits.theory.mean_square import NOISE_MARGIN

LONGEST_MODELLED = 200  # iterations: beyond, the analysis takes minutes and gigabytes, and the trial run decides


def theory_inputs(request: MethodRequest, noise: bool = True) -> TheoryInputs:
    """Return the inputs of the theorems for a request.

    The noise of stochastic gradients is that at the solution, which nodes do not know. Without `noise` it is left out.

    With broadcast messages, neighbours share their noise. In the proof's variance bound λ_max/2 then replaces max w_ij.
    With edge messages, half the largest weighted degree replaces it (docs/fewest-bits.md).
    """
    problem, network, gradients = request.problem, request.network, request.gradients
    assert isinstance(request.quantizer, Quantizer)
    shared = {"broadcast": network.lambda_max / 2, "edge": float(network.weighted_degree.max()) / 2}
    return TheoryInputs(
        smoothness=request.smoothness,
        convexity=problem.convexity,
        lambda_max=network.lambda_max,
        lambda_min=network.lambda_min,
        max_weight=shared.get(request.messages or "independent", network.max_weight),
        omega=request.omega,
        samples=max(1.0, float(np.max(np.asarray(problem.counts))) / gradients.batch_size),
        noise=problem.noise(gradients.batch_size) if noise and gradients.option == "C" else 0.0,
        fading=request.quantizer.fading,
    )


def predict_edge_sizes(request: MethodRequest) -> EdgeSizes:
    """Return practical step sizes of `edge-dual`, for links that speak as often as the faults allow, and local steps.

    Exchanges are taken to be left out regularly. Those that are left out at random need smaller step sizes.
    α is 1/(1+ω): where the memories are not the slowest part, the predicted rate does not depend on it, but runs do.
    """
    given = {"alpha": 1 / (1 + request.omega), **request.given}
    regular = request.local_steps
    speaking, delay = speaking_of(request) * regular, 0 if request.faults is None else request.faults.longest_delay
    if delay:  # a silent link does not deliver either
        delay += math.ceil(1 / speaking - 1)
    delay = min(delay, LONGEST_MODELLED)
    question = (_typical_inputs(request), speaking, delay, request.gradients.option, given, regular)

    def search() -> list[float]:
        return [float(size) for size in edge_step_sizes(*question)]

    return EdgeSizes(*kept_answer((edge_modes.__file__, edges.__file__, theorems.__file__), question, search))


def speaking_of(request: MethodRequest) -> float:
    """Return the share of iterations in which a link speaks."""
    return (1.0 if request.faults is None else request.faults.speaking) / request.local_steps


def _typical_inputs(request: MethodRequest) -> TheoryInputs:
    """Return the inputs of the mean-square analysis: typical noise with a margin, and typical curvature."""
    assert isinstance(request.quantizer, Quantizer)
    inputs = theory_inputs(replace(request, messages="independent"), noise=False)
    typical = inputs._replace(omega=NOISE_MARGIN * request.quantizer.typical_omega(request.problem.dim))
    if request.gradients.option == "A":  # dual gradients need every node's loss to be strongly convex
        return typical
    return typical._replace(convexity=request.typical_convexity)


def predict_step_sizes(request: MethodRequest, refine: bool = True) -> Prediction:
    """Return practical step sizes and their rate, for the noise of Gaussian vectors plus a margin."""
    option, typical = request.gradients.option, _typical_inputs(request)
    question = (option, typical, request.messages or "independent", request.corrected, dict(request.given), refine)

    def search() -> list[float]:
        found = practical_step_sizes(*question)
        return [float(number) for number in (*found.sizes, found.rate, found.spread)]

    *sizes, rate, spread = kept_answer((mean_square.__file__, theorems.__file__), question, search)
    return Prediction(StepSizes(*sizes), rate, spread)
