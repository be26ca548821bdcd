"""Proven step sizes of `edge-dual`, whose links may be silent (the proof is in docs/edges-theory.md).

    x_i ← x_i - η(∇f_i(x_i) - Σ_j y_ij)                              options B, C, D
    on an edge that speaks: q_ij = Q(x_i - h_ij), both ways
        δ = θ w_ij ((h_ij + q_ij) - (h_ji + q_ji)),  y_ij ← y_ij - δ,  h_ij ← h_ij + α q_ij
        x_i ← x_i - γηδ

Let every edge speak with probability p in each iteration, whatever happened before; edges may be silent together. Let
z_i = Σ_j y_ij, Λ = λ_max, D the largest weighted degree, and β the contraction of the gradient step. Then

    Ψ = ‖Z - Z*‖²_{W†} + A(pθ/η)‖X - X*‖² + C Σ_ij w_ij ‖h_ij - x*‖²

shrinks by 1 - rate per iteration, in expectation. Without a correction (γ = 0):

    θ = β/(η(Λ + 2ωD + pλ_min)),      rate = min(βpλ_min/(Λ + 2ωD + pλ_min), p/(2(1+ω)))

With a correction, γ = 1/(Ap) and A = 1 - β/2 (exact messages: A = 1):

    θ = min(Ap/Λ, β/(8ωD))/η,         rate = min(β/2, pηθλ_min, p/(2(1+ω)))       (exact messages: β in place of β/2)

α is 1/(2(1+ω)), and 1 for exact messages. So without a correction as many *messages* suffice as without silence: the
rate is proportional to p, but for the term pλ_min, which is in its favour.
"""

from typing import NamedTuple

from lessbits.errors import InputError, check_name, check_number
from lessbits.theory.theorems import TheoryInputs, check_theorem

OPTIONS = ("B", "C", "D")


class EdgeSizes(NamedTuple):
    """The step sizes of `edge-dual`.

    Attributes:
        theta: θ, of the duals.
        eta: η, of the gradient.
        alpha: α, of the memories.
        gamma: γ, the gain of the correction; 0 for none.
    """

    theta: float
    eta: float
    alpha: float
    gamma: float


class EdgeProof(NamedTuple):
    """Step sizes with a proof.

    Attributes:
        sizes: The step sizes.
        rate: Ψ shrinks by 1 - rate per iteration, in expectation; with option C, down to a floor.
        iterate: Coefficient of ‖X - X*‖² in Ψ.
        memory: Coefficient of Σ_ij w_ij ‖h_ij - x*‖² in Ψ.
    """

    sizes: EdgeSizes
    rate: float
    iterate: float
    memory: float


def check_speaking(speaking: float) -> None:
    """Raise an `InputError` for a probability that is not above 0 and at most 1."""
    check_number("speaking", speaking, 0, 1)
    if speaking == 0:
        raise InputError("speaking is 0, but a link must speak now and then: give a probability above 0, at most 1")


def proven_edge_sizes(
    inputs: TheoryInputs, speaking: float = 1.0, option: str = "B", corrected: bool | None = None
) -> EdgeProof:
    """Return step sizes for which Ψ is proven to shrink, and how fast.

    Args:
        inputs: The numbers that the theorems depend on, with the largest weighted degree.
        speaking: The probability p that a link speaks in an iteration.
        option: "B", "C" or "D".
        corrected: Whether to correct the iterate (γ = 1/p, roughly) or not (γ = 0); by default the faster of the two.

    >>> ring = TheoryInputs(1, 0.1, lambda_max=4 / 3, lambda_min=0.05, max_weight=1 / 3, omega=0, weighted_degree=2 / 3)
    >>> proven_edge_sizes(ring, speaking=0.5).sizes.gamma
    2.0
    """
    check_name("option", option, OPTIONS)
    check_theorem(option, inputs)
    check_speaking(speaking)
    if corrected is None:
        return max((proven_edge_sizes(inputs, speaking, option, form) for form in (False, True)), key=lambda x: x.rate)
    eta, bend = gradient_step(inputs, option)
    noise = inputs.omega * 2 * inputs.noise_weight  # ωD
    alpha = 1 / (2 * (1 + inputs.omega)) if inputs.omega > 0 else 1.0
    if corrected:
        share = bend / 2 if noise > 0 else 0.0  # of the contraction, to pay for the noise
        left = 1 - share
        gamma, least = 1 / (left * speaking), bend - share
        strength = left * speaking / inputs.lambda_max  # ηθ
        if noise > 0:
            strength = min(strength, bend / (8 * noise))
    else:
        spread = inputs.lambda_max + 2 * noise
        strength = bend / (spread + speaking * inputs.lambda_min)
        gamma, least, left = 0.0, bend, 1 - strength * spread
    rates = [least, speaking * strength * inputs.lambda_min]
    if noise > 0:
        rates.append(speaking * alpha)
    if option == "D":
        rates.append(1 / (2 * inputs.samples))
    theta = strength / eta
    noise_paid = (2 if corrected else 1) * 2 * theta**2 * inputs.omega / alpha
    return EdgeProof(EdgeSizes(theta, eta, alpha, gamma), min(rates), left * speaking * theta / eta, noise_paid)


def gradient_step(inputs: TheoryInputs, option: str) -> tuple[float, float]:
    """Return η, and β: a gradient step brings ‖x - x*‖² to at most 1 - β of it, but for noise and anchors."""
    smooth, convex = inputs.smoothness, inputs.convexity
    if option == "B":
        eta = 2 / (smooth + convex)
        return eta, eta * convex * (2 - eta * convex)
    eta = 1 / ((2 if option == "C" else 6) * smooth)
    return eta, eta * convex
