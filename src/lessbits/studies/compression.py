"""How much compression is free on a problem and a network, by the theorems."""

import math
from dataclasses import replace
from typing import Any

from lessbits import theory
from lessbits.errors import InputError
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import predict_step_sizes, theory_inputs
from lessbits.methods.request import MethodRequest
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.quantizers import Exact, Quantizer, make_quantizer

ROUNDING = 1e-9  # relative tolerance of bounds on ω
MOST_BITS = 24  # dit-K has K below this
FINER = 5  # how many dit-K beyond the coarsest are compared: a bit more each, and soon no fewer iterations
SMALLEST_RATE = 1e-12  # exact messages on a complete network end at once


def free_compression(problem: Problem, network: Network, messages: str | None = None) -> dict[str, Any]:
    """Return the largest ω that is free, and the shortest messages of each kind within it.

    Args:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        messages: The kind of messages of primal-dual; by default the paper's.
    """
    if problem.convexity <= 0:
        raise InputError(
            "advice on compression needs strongly convex losses, but μ = 0 here: add regularization above 0"
        )
    messages = messages or "independent"
    # As in the paper, η is 1/L for exact messages too. These are faster with a smaller η where ρ is large.
    given = {"eta": 1 / problem.smoothness}
    request = MethodRequest(problem, network, Exact(), Gradients("B"), messages, given=given)
    proven = theory_inputs(request)
    inputs = proven.as_published() if messages == "independent" else proven  # equation 11 is about these
    free = theory.free_omega(inputs)
    names = {"rand-K": _sparsest(free, problem.dim), "dit-K": _coarsest(free, problem.dim)}
    return {
        "network": network.describe(),
        "rho": network.rho,
        "rho_inf": network.rho_inf,
        "network_bound": inputs.rho / inputs.rho_inf,
        "problem_bound": inputs.condition_number * inputs.rho,
        "condition_number": inputs.condition_number,
        "free_omega": free,
        "proven_omega": theory.free_omega(proven),
        "exact_bits": Exact().bits(problem.dim),
        "messages": messages,
        "choices": [{"family": family, **_choice(name, request)} for family, name in names.items() if name is not None],
        "recommended": _recommended([name for name in names.values() if name is not None], request),
    }


def predicted_slowdown(request: MethodRequest, quantizer: Quantizer, until: float = 1e-6) -> float:
    """Return how many times the iterations of exact messages a quantizer needs, each with its best step sizes.

    This is what the mean-square analysis predicts, with α = 1/(1 + ω). docs/free-compression.md compares it with runs.

    Args:
        request: The problem, the network and the messages; η and θ stay fixed if they are given.
        quantizer: The quantizer to compare with exact messages.
        until: The error, relative to the first one.
    """
    iterations = []
    for each in (Exact(), quantizer):
        given = {**request.given, "alpha": 1 / (1 + each.omega(request.problem.dim))}
        prediction = predict_step_sizes(replace(request, quantizer=each, given=given))
        iterations.append(_iterations(prediction.rate, until))
    exact, noisy = iterations
    return max(1.0, noisy / exact)


def _iterations(rate: float, until: float) -> float:
    """Return the iterations at a rate, and one in which nothing has arrived yet."""
    if rate >= 1:
        return math.inf
    return 1 + math.ceil(math.log(until) / math.log(max(rate, SMALLEST_RATE)))


def _choice(name: str, request: MethodRequest) -> dict[str, Any]:
    """Return what a quantizer costs and saves."""
    dim = request.problem.dim
    quantizer = make_quantizer(name, dim)
    assert isinstance(quantizer, Quantizer)
    # Algorithm 1 sends two messages per link where the exact method sends one.
    sent = (2 if request.messages == "independent" else 1) * quantizer.bits(dim)
    saved = Exact().bits(dim) / sent
    slowdown = predicted_slowdown(request, quantizer)
    return {
        "quantizer": name,
        "omega": quantizer.omega(dim),
        "bits": sent,
        "bits_saved": saved,  # factor per iteration
        "times_the_iterations": slowdown,  # of exact messages, predicted
        "bits_saved_in_all": saved / slowdown,
    }


def _recommended(coarsest: list[str], request: MethodRequest) -> dict[str, Any] | None:
    """Return the rand-K or dit-K within the bound with the fewest expected bits in total, or None."""
    names = list(coarsest)
    for name in coarsest:
        if name.startswith("dit-"):
            first = int(name.removeprefix("dit-")) + 1
            names += [f"dit-{k}" for k in range(first, min(first + FINER, MOST_BITS))]
    choices = [_choice(name, request) for name in names]
    return max(choices, key=lambda choice: choice["bits_saved_in_all"], default=None)


def _sparsest(omega: float, dim: int) -> str | None:
    """Return rand-K with the smallest k such that d/k - 1 ≤ ω, up to rounding: the bound may be a whole number."""
    kept = max(1, math.ceil(dim / (1 + omega) * (1 - ROUNDING)))
    return f"rand-{kept}" if kept < dim else None


def _coarsest(omega: float, dim: int) -> str | None:
    """Return dit-K with the smallest k such that ω(dit-K) ≤ ω, or None."""
    for k in range(1, MOST_BITS):
        name = f"dit-{k}"
        quantizer = make_quantizer(name, dim)
        if isinstance(quantizer, Quantizer) and quantizer.omega(dim) <= omega * (1 + ROUNDING):
            return name
    return None
