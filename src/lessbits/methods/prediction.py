"""The inputs of theory and of the mean-square analysis for a request, and the step sizes that they predict."""

import math

import numpy as np

from lessbits._internal.answers import kept_answer
from lessbits.methods.request import MethodRequest
from lessbits.networks import Network
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

LARGEST_INVERSE = 1000  # nodes up to which the resistances of edges are computed
LONGEST_MODELLED = 200  # iterations: beyond, the analysis takes minutes and gigabytes, and the trial run decides


def theory_inputs(request: MethodRequest, noise: bool = True) -> TheoryInputs:
    """Return the inputs of the theorems for a request.

    The noise of stochastic gradients is that at the solution, which nodes do not know. Without `noise` it is left out.

    They hold for all kinds of messages: their noise weighs half the largest weighted degree at most. That of
    independent messages weighs less, as the noise of an edge is spread over the paths between its ends
    (docs/theorems.md).
    """
    problem, network, gradients = request.problem, request.network, request.gradients
    assert isinstance(request.quantizer, Quantizer)
    return TheoryInputs(
        smoothness=request.smoothness,
        convexity=problem.convexity,
        lambda_max=network.lambda_max,
        lambda_min=network.lambda_min,
        max_weight=network.max_weight,
        omega=request.omega,
        samples=max(1.0, float(np.max(np.asarray(problem.counts))) / gradients.batch_size),
        noise=problem.noise(gradients.batch_size) if noise and gradients.option == "C" else 0.0,
        fading=request.quantizer.fading,
        weighted_degree=_noise_degree(network, request.messages or "independent"),
    )


def _noise_degree(network: Network, messages: str) -> float:
    """Return the largest sum of a node's weights, each times the leverage of its edge where that is known to count."""
    if messages != "independent" or network.nodes > LARGEST_INVERSE:
        return float(network.weighted_degree.max())
    return float(np.bincount(network.owner, network.weight * network.leverage, network.nodes).max())


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
    inputs = theory_inputs(request, noise=False).as_published()
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
