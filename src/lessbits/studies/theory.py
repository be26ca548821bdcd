"""What the theorems say about a problem, a network and a quantizer, for `lessbits theory`."""

from dataclasses import replace
from typing import Any

from lessbits import theory
from lessbits.config.build import build_parts
from lessbits.config.settings import Settings
from lessbits.engines.scoring import Lyapunov
from lessbits.errors import InputError
from lessbits.methods.base import Start
from lessbits.methods.gradients import Gradients
from lessbits.methods.prediction import predict_step_sizes, theory_inputs
from lessbits.methods.registry import find_method
from lessbits.methods.request import MethodRequest
from lessbits.networks.local import LocalNetwork
from lessbits.quantizers import Quantizer, make_quantizer

LARGEST_PSEUDO_INVERSE = 2000  # nodes up to which Ψ at the start is computed


def describe_theory(settings: Settings) -> dict[str, Any]:
    """Return what the theorems say about a problem, a network and a quantizer, for all four options."""
    problem, network, settings = build_parts(settings)
    quantizer = make_quantizer(settings.quantizer or "dit-4", problem.dim)
    if not isinstance(quantizer, Quantizer):
        raise InputError(
            f"theory needs an unbiased quantizer, but {quantizer.name} is biased: choose one such as dit-4 or rand-50"
        )
    Gradients("C", settings.batch_size).check(problem)
    gradients = Gradients("B", settings.batch_size)
    common = MethodRequest(problem, network, quantizer, gradients, settings.messages, settings.corrected)
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
        "free_omega": theory.free_omega(inputs.as_published() if common.messages in (None, "independent") else inputs),
        "proven_omega": theory.free_omega(inputs),
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
