"""How much compression is free on a problem and a network, by the theorems."""

import math
from typing import Any

from lessbits import theory
from lessbits.errors import InputError
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import theory_inputs
from lessbits.methods.request import MethodRequest
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.quantizers import Exact, Quantizer, make_quantizer

ROUNDING = 1e-9  # relative tolerance of bounds on ω


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
    inputs = theory_inputs(MethodRequest(problem, network, Exact(), Gradients("B"), messages))
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
        "exact_bits": Exact().bits(problem.dim),
        "messages": messages,
        "choices": [
            {"family": family, **_choice(name, problem.dim, inputs, messages)}
            for family, name in names.items()
            if name is not None
        ],
        "recommended": _recommended(free, problem.dim, inputs, messages),
    }


def _choice(name: str, dim: int, inputs: theory.TheoryInputs, messages: str) -> dict[str, Any]:
    """Return what a quantizer costs and saves."""
    quantizer = make_quantizer(name, dim)
    assert isinstance(quantizer, Quantizer)
    # Algorithm 1 sends two messages per link where the exact method sends one.
    sent = (2 if messages == "independent" else 1) * quantizer.bits(dim)
    omega = quantizer.omega(dim)
    saved = Exact().bits(dim) / sent
    slowdown = theory.noise_inflation(inputs._replace(omega=omega), messages)
    return {
        "quantizer": name,
        "omega": omega,
        "bits": sent,
        "bits_saved": saved,  # factor per iteration
        "iterations_at_most": slowdown,  # as a multiple of those with exact messages
        "bits_saved_in_all": saved / slowdown,
    }


def _recommended(free: float, dim: int, inputs: theory.TheoryInputs, messages: str) -> dict[str, Any] | None:
    """Return the rand-K or dit-K within the bound with the fewest expected bits in total, or None."""
    names = [f"dit-{k}" for k in range(1, 24)] + [name for name in [_sparsest(free, dim)] if name is not None]
    choices = [_choice(name, dim, inputs, messages) for name in names]
    allowed = [choice for choice in choices if choice["omega"] <= free * (1 + ROUNDING)]
    return max(allowed, key=lambda choice: choice["bits_saved_in_all"], default=None)


def _sparsest(omega: float, dim: int) -> str | None:
    """Return rand-K with the smallest k such that d/k - 1 ≤ ω, up to rounding: the bound may be a whole number."""
    kept = max(1, math.ceil(dim / (1 + omega) * (1 - ROUNDING)))
    return f"rand-{kept}" if kept < dim else None


def _coarsest(omega: float, dim: int) -> str | None:
    """Return dit-K with the smallest k such that ω(dit-K) ≤ ω, or None."""
    for k in range(1, 24):
        name = f"dit-{k}"
        quantizer = make_quantizer(name, dim)
        if isinstance(quantizer, Quantizer) and quantizer.omega(dim) <= omega * (1 + ROUNDING):
            return name
    return None
