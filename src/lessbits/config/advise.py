"""What theory says about a setting, and how far it can be compressed for free."""

import math
from typing import Any

from lessbits import theory
from lessbits.config.build import build_parts
from lessbits.config.settings import Settings
from lessbits.engines.scoring import Lyapunov
from lessbits.errors import InputError
from lessbits.methods.base import Start
from lessbits.networks import Network
from lessbits.networks.local import LocalNetwork
from lessbits.problems import Problem
from lessbits.quantizers import Exact, Quantizer, make_quantizer
from lessbits.tuning.estimates import check_question
from lessbits.tuning.stepsizes import predict_step_sizes, primal_dual, theory_inputs
from lessbits.tuning.trials import fewest_expected

LARGEST_PSEUDO_INVERSE = 2000  # nodes up to which Ψ at the start is computed

ROUNDING = 1e-9


def _setting(settings: Settings, problem: Problem, network: Network, quantizer: Quantizer) -> theory.TheoryInputs:
    return theory_inputs(problem, network, quantizer, settings.option or "B", _messages(settings), settings.batch_size)


def _messages(settings: Settings) -> str:
    """Resolved by `build_parts`."""
    return settings.messages or "independent"


def _only_primal_dual(settings: Settings) -> None:
    if settings.method != "primal-dual":
        raise InputError(f"method is {settings.method!r}, but the theorems are about primal-dual: leave method out")


def describe_theory(settings: Settings) -> dict[str, Any]:
    """Return what the theorems say of a problem, a network and a quantizer, for all four options."""
    _only_primal_dual(settings)
    problem, network, settings = build_parts(settings)
    quantizer = make_quantizer(settings.quantizer or "dit-4", problem.dim)
    if not isinstance(quantizer, Quantizer):
        raise InputError(
            f"theory needs an unbiased quantizer, but {quantizer.name} is biased: choose one such as dit-4 or rand-50"
        )
    options = {}
    for option in ("A", "B", "C", "D"):
        inputs = _setting(settings.updated(option=option), problem, network, quantizer)
        sizes = theory.step_sizes(option, inputs, settings.until if settings.goal == "error" else None)
        options[option] = {
            "smoothness": inputs.smoothness,
            **sizes._asdict(),
            "rate": theory.rate(option, inputs, sizes.eta),
            "practical_theta": predict_step_sizes(
                problem, network, quantizer, option, _messages(settings), settings.batch_size, settings.corrected
            ).sizes.theta,
            "noise_floor": theory.noise_floor(inputs, sizes.eta) if option == "C" else 0.0,
            "iterations": _proven_iterations(option, inputs, sizes, problem, network, settings),
        }
    inputs = _setting(settings.updated(option="B"), problem, network, quantizer)
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
        "options": options,
        "settings": settings.model_dump(),
    }


def _proven_iterations(
    option: str,
    inputs: theory.TheoryInputs,
    sizes: theory.StepSizes,
    problem: Problem,
    network: Network,
    settings: Settings,
) -> int | None:
    """Return after how many iterations the theorems promise the target error; None without a target."""
    if settings.until is None or settings.goal != "error" or network.nodes > LARGEST_PSEUDO_INVERSE:
        return None
    weights = theory.lyapunov_coefficients(option, inputs, sizes)
    measure = Lyapunov.of(problem, network, weights, settings.batch_size)
    method = primal_dual(problem, network, settings.quantizer or "dit-4", option=option, theta=1, eta=1)
    start = float(measure(method.init(problem, LocalNetwork.of(network), Start()), problem))
    return theory.iterations(option, inputs, settings.until, start / problem.nodes)


def advise(settings: Settings) -> dict[str, Any]:
    """Return how far one can compress for free, and what is expected to send the fewest bits, with the command."""
    check_question(settings, "advise chooses step sizes")
    free = free_compression(settings)
    problem, network, _ = build_parts(settings)
    return {**free, "fewest": fewest_expected(settings, problem, network)}


def free_compression(settings: Settings) -> dict[str, Any]:
    """Return the largest ω that is free here, and the shortest messages of each kind within it."""
    _only_primal_dual(settings)
    problem, network, settings = build_parts(settings)
    if problem.convexity <= 0:
        raise InputError(
            "advice on compression needs strongly convex losses, but μ = 0 here: add regularization above 0"
        )
    inputs = _setting(settings.updated(option="B"), problem, network, Exact())
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
            {"family": family, **_choice(name, problem.dim, inputs, _messages(settings))}
            for family, name in names.items()
            if name is not None
        ],
        "recommended": _recommended(free, problem.dim, inputs, _messages(settings)),
        "settings": settings.model_dump(),
    }


def _choice(name: str, dim: int, inputs: theory.TheoryInputs, messages: str) -> dict[str, Any]:
    """What a quantizer costs and saves."""
    quantizer = make_quantizer(name, dim)
    assert isinstance(quantizer, Quantizer)
    # Algorithm 1 sends two messages a link where the exact method sends one.
    sent = (2 if messages == "independent" else 1) * quantizer.bits(dim)
    omega = quantizer.omega(dim)
    saved = Exact().bits(dim) / sent
    slowdown = theory.noise_inflation(inputs._replace(omega=omega), messages)
    return {
        "quantizer": name,
        "omega": omega,
        "bits": sent,
        "bits_saved": saved,  # in an iteration
        "iterations_at_most": slowdown,  # times those of exact messages
        "bits_saved_in_all": saved / slowdown,
    }


def _recommended(free: float, dim: int, inputs: theory.TheoryInputs, messages: str) -> dict[str, Any] | None:
    """The rand-K or dit-K within the bound that is expected to need the fewest bits in all; None if there is none."""
    names = [f"dit-{k}" for k in range(1, 24)] + [name for name in [_sparsest(free, dim)] if name is not None]
    choices = [_choice(name, dim, inputs, messages) for name in names]
    allowed = [choice for choice in choices if choice["omega"] <= free * (1 + ROUNDING)]
    return max(allowed, key=lambda choice: choice["bits_saved_in_all"], default=None)


def _sparsest(omega: float, dim: int) -> str | None:
    """rand-K with the smallest k such that d/k - 1 ≤ ω, up to rounding: the bound may be a whole number."""
    kept = max(1, math.ceil(dim / (1 + omega) * (1 - ROUNDING)))
    return f"rand-{kept}" if kept < dim else None


def _coarsest(omega: float, dim: int) -> str | None:
    """dit-K with the smallest k such that ω(dit-K) ≤ ω."""
    for k in range(1, 24):
        name = f"dit-{k}"
        quantizer = make_quantizer(name, dim)
        if isinstance(quantizer, Quantizer) and quantizer.omega(dim) <= omega * (1 + ROUNDING):
            return name
    return None
