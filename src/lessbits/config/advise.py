"""Advice from theory: step sizes and rates, how much compression is free, and which choice sends the fewest bits."""

import math
from dataclasses import replace
from typing import Any

from lessbits import theory
from lessbits.config.build import build_parts
from lessbits.config.choices import apply_choice, check_question
from lessbits.config.settings import Settings
from lessbits.engines.scoring import Lyapunov
from lessbits.errors import InputError
from lessbits.methods.base import Start
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import predict_step_sizes, theory_inputs
from lessbits.methods.registry import all_methods, find_method
from lessbits.methods.request import MethodRequest
from lessbits.networks import Network
from lessbits.networks.local import LocalNetwork
from lessbits.problems import Problem
from lessbits.quantizers import Exact, Quantizer, make_quantizer
from lessbits.tuning.estimates import Constraints, Estimate
from lessbits.tuning.trials import estimate_fewest_bits

LARGEST_PSEUDO_INVERSE = 2000  # nodes up to which Ψ at the start is computed

ROUNDING = 1e-9  # relative tolerance of bounds on ω


def _request(settings: Settings, problem: Problem, network: Network, quantizer: Quantizer) -> MethodRequest:
    """Return the request that the theorems are evaluated for. The settings must be resolved."""
    gradients = Gradients(settings.option or "B", settings.batch_size)
    return MethodRequest(problem, network, quantizer, gradients, settings.messages, settings.corrected)


def _check_predictable(settings: Settings) -> None:
    if not find_method(settings.method).predictable:
        names = " and ".join(kind.name for kind in all_methods() if kind.predictable)
        raise InputError(f"method is {settings.method!r}, but the theorems are about {names}: leave method out")


def describe_theory(settings: Settings) -> dict[str, Any]:
    """Return what the theorems say about a problem, a network and a quantizer, for all four options."""
    _check_predictable(settings)
    problem, network, settings = build_parts(settings)
    quantizer = make_quantizer(settings.quantizer or "dit-4", problem.dim)
    if not isinstance(quantizer, Quantizer):
        raise InputError(
            f"theory needs an unbiased quantizer, but {quantizer.name} is biased: choose one such as dit-4 or rand-50"
        )
    common = _request(settings, problem, network, quantizer)
    by_option = {
        option: replace(common, gradients=Gradients(option, settings.batch_size)) for option in ("A", "B", "C", "D")
    }
    inputs = theory_inputs(by_option["B"])
    return {
        "network": network.describe(),
        "lambda_max": network.lambda_max,
        "lambda_min": network.lambda_min,
        "rho": network.rho,
        "rho_inf": network.rho_inf,
        "smoothness": problem.smoothness,
        "sample_smoothness": problem.sample_smoothness(settings.batch_size),
        "convexity": problem.convexity,
        "condition_number": problem.condition_number,
        "omega": inputs.omega,
        "free_omega": theory.free_omega(inputs),
        "options": {option: _describe_option(request, settings) for option, request in by_option.items()},
        "settings": settings.model_dump(),
    }


def _describe_option(request: MethodRequest, settings: Settings) -> dict[str, Any]:
    option, inputs = request.gradients.option, theory_inputs(request)
    sizes = theory.step_sizes(option, inputs, settings.until if settings.goal == "error" else None)
    return {
        "smoothness": inputs.smoothness,
        **sizes._asdict(),
        "rate": theory.rate(option, inputs, sizes.eta),
        "practical_theta": predict_step_sizes(request).sizes.theta,
        "noise_floor": theory.noise_floor(inputs, sizes.eta) if option == "C" else 0.0,
        "iterations": _proven_iterations(request, inputs, sizes, settings),
    }


def _proven_iterations(
    request: MethodRequest, inputs: theory.TheoryInputs, sizes: theory.StepSizes, settings: Settings
) -> int | None:
    """Return the iterations after which the theorems guarantee the target error. Return None without a target."""
    problem, network, option = request.problem, request.network, request.gradients.option
    if settings.until is None or settings.goal != "error" or network.nodes > LARGEST_PSEUDO_INVERSE:
        return None
    weights = theory.lyapunov_coefficients(option, inputs, sizes)
    measure = Lyapunov.of(problem, network, weights, settings.batch_size)
    method = find_method(settings.method).configure(replace(request, given={"theta": 1.0, "eta": 1.0}))
    start = float(measure(method.init(problem, LocalNetwork.of(network), Start()), problem))
    return theory.iterations(option, inputs, settings.until, start / problem.nodes)


def advise(settings: Settings) -> dict[str, Any]:
    """Return how much compression is free, and which choices are expected to send the fewest bits, with commands."""
    check_question(settings, "advise chooses step sizes")
    _check_predictable(settings)
    problem, network, resolved = build_parts(settings)
    free = _free_compression(problem, network, resolved)
    return {**free, "fewest": _fewest_bits(settings, problem, network)}


def free_compression(settings: Settings) -> dict[str, Any]:
    """Return the largest ω that is free for these settings, and the shortest messages of each kind within it."""
    _check_predictable(settings)
    return _free_compression(*build_parts(settings))


def _free_compression(problem: Problem, network: Network, settings: Settings) -> dict[str, Any]:
    if problem.convexity <= 0:
        raise InputError(
            "advice on compression needs strongly convex losses, but μ = 0 here: add regularization above 0"
        )
    messages = settings.messages or "independent"
    inputs = theory_inputs(_request(settings.updated(option="B"), problem, network, Exact()))
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
        "choices": [
            {"family": family, **_choice(name, problem.dim, inputs, messages)}
            for family, name in names.items()
            if name is not None
        ],
        "recommended": _recommended(free, problem.dim, inputs, messages),
        "settings": settings.model_dump(),
    }


def _fewest_bits(settings: Settings, problem: Problem, network: Network) -> dict[str, Any]:
    """Return the choices that are expected to send the fewest bits to the target, with their commands."""
    option, kept = settings.option or "B", (settings.quantizer, settings.messages, settings.corrected)
    constraints = Constraints(*kept, option, settings.batch_size)
    until, found = estimate_fewest_bits(problem, network, settings.goal, settings.until, constraints)
    expected = [
        {
            **each.choice._asdict(),
            "note": find_method(each.choice.method).note,
            "iterations": each.iterations,
            "bits": each.bits,
            "command": _command(settings, each, until),
        }
        for each in found
    ]
    best = {"bits": expected[0]["bits"], "command": expected[0]["command"]}
    return {"until": until, "goal": settings.goal, "expected": expected, **best}


def _command(settings: Settings, estimate: Estimate, until: float) -> str:
    """Return the command that runs this choice, with twice the expected iterations as its limit."""
    chosen = apply_choice(estimate.choice, settings, until=float(f"{until:.3g}"), stepsizes="practical")
    if math.isfinite(estimate.iterations) and 2 * estimate.iterations > settings.iterations:
        chosen = chosen.updated(iterations=int(float(f"{2 * estimate.iterations:.1e}")))
    return chosen.command("run")


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
