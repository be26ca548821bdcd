"""The paper's theorems as numbers: step sizes, rates, Lyapunov coefficients, iterations, and free compression.

All functions take numbers and return numbers. L and μ are `smoothness` and `convexity` (for options C and D the sample
smoothness), ω is `omega`. Of the network only λ_max, λ_min⁺ and the largest weighted degree D matter: D/2 stands where
the paper has max w_ij, because its variance bound has a gap (docs/theorems.md). Without D the formulas are the paper's.
"""

import math
from typing import NamedTuple

from lessbits.errors import InputError, check_kind, check_name, check_number, check_positive

MESSAGES = ("independent", "broadcast", "edge")
ROUNDING = 1e-3  # of constants that were computed in float32, or estimated


class TheoryInputs(NamedTuple):
    """The numbers that the theorems depend on.

    Attributes:
        smoothness: L of the losses; for options C and D, of single samples.
        convexity: μ, the strong convexity of the losses.
        lambda_max: The largest eigenvalue of the network's Laplacian W.
        lambda_min: λ_min⁺, the smallest eigenvalue of W above zero.
        max_weight: The largest weight, max w_ij.
        omega: ω, the variance bound of the quantizer.
        samples: m of option D: samples per node, counted in batches.
        noise: σ², the gradient noise of option C.
        fading: R² of the quantizer `fading`: the factor by which its variance shrinks per iteration; otherwise 0.
        weighted_degree: D, the largest sum of a node's weights; of independent messages, times the leverages of edges.
    """

    smoothness: float
    convexity: float
    lambda_max: float
    lambda_min: float
    max_weight: float
    omega: float
    samples: float = 1.0
    noise: float = 0.0
    fading: float = 0.0
    weighted_degree: float | None = None

    def as_published(self) -> "TheoryInputs":
        """Return the inputs for which all formulas are the paper's, with max w_ij, which its proofs do not give."""
        return self._replace(weighted_degree=None)

    @property
    def noise_weight(self) -> float:
        """The weight of a message's noise: half the largest weighted degree, D/2. Without D, the paper's max w_ij."""
        return self.max_weight if self.weighted_degree is None else self.weighted_degree / 2

    @property
    def condition_number(self) -> float:
        """κ = L/μ."""
        return self.smoothness / self.convexity

    @property
    def rho(self) -> float:
        """ρ = λ_max / λ_min⁺."""
        return self.lambda_max / self.lambda_min

    @property
    def rho_inf(self) -> float:
        """ρ_∞ = max w_ij / λ_min⁺ in the paper, and D/(2λ_min⁺) if D is known."""
        return self.noise_weight / self.lambda_min

    @property
    def spread(self) -> float:
        """λ_max + 6ωD, which occurs in every theorem; in the paper it is λ_max + 12ω max w_ij."""
        return self.lambda_max + 12 * self.omega * self.noise_weight


class StepSizes(NamedTuple):
    """The step sizes of Algorithm 1.

    Attributes:
        theta: θ, of the dual variable.
        eta: η, of the gradient.
        alpha: α, of the memory.
    """

    theta: float
    eta: float
    alpha: float


class LyapunovWeights(NamedTuple):
    """Coefficients of ‖X - X*‖², ‖H - X*‖² and Σ m_i B_{f_i}(w_i, x*), next to ‖Z - Z*‖²_{W†}.

    m_i is 1/p_i, the mean number of iterations between two updates of an anchor: samples of node i over the batch size.

    Attributes:
        iterate: Coefficient of ‖X - X*‖².
        memory: Coefficient of ‖H - X*‖².
        anchor: Coefficient of Σ m_i B_{f_i}(w_i, x*).
    """

    iterate: float
    memory: float
    anchor: float


def check_inputs(inputs: TheoryInputs) -> None:
    """Raise an `InputError` for constants that no problem, network or quantizer has."""
    check_kind("inputs", inputs, TheoryInputs, "see lessbits.theory")
    degree = () if inputs.weighted_degree is None else ("weighted_degree",)
    for name in ("smoothness", "lambda_max", "lambda_min", "max_weight", "samples", *degree):
        check_positive(name, getattr(inputs, name))
    for name in ("omega", "noise", "fading"):
        check_number(name, getattr(inputs, name), 0)
    check_number("convexity", inputs.convexity)  # a computed μ may be slightly below 0
    for lower, upper in (("convexity", "smoothness"), ("lambda_min", "lambda_max")):
        least, most = getattr(inputs, lower), getattr(inputs, upper)
        if least > (1 + ROUNDING) * most:
            raise InputError(f"{lower} is {least:g}, but {upper} is {most:g}, and must not be below it: swap the two")


def check_sizes(sizes: StepSizes) -> None:
    """Raise an `InputError` for step sizes that are no numbers from 0 on."""
    check_kind("sizes", sizes, StepSizes, "theory.step_sizes returns them")
    for name, size in sizes._asdict().items():
        check_number(name, size, 0)


def check_theorem(option: str, inputs: TheoryInputs) -> None:
    """Raise an `InputError` where no theorem holds: no such option, or losses that are not strongly convex."""
    check_name("option", option, ("A", "B", "C", "D"))
    check_inputs(inputs)
    if inputs.convexity <= 0:
        raise InputError(
            f"theory's step sizes need strong convexity, but μ = {inputs.convexity:g}: "
            "add regularization above 0, take practical step sizes, or give theta and eta"
        )


def step_sizes(option: str, inputs: TheoryInputs, target: float | None = None) -> StepSizes:
    """Return the step sizes of Theorems A to D (equations 36, 41, 47, 56).

    Args:
        option: "A", "B", "C" or "D".
        inputs: The numbers that the theorems depend on.
        target: Squared error ε to reach. If given, option C uses η of Corollary C (equation 50).

    >>> consensus_on_a_ring = TheoryInputs(1, 1, lambda_max=4 / 3, lambda_min=0.0013, max_weight=1 / 3, omega=0)
    >>> round(step_sizes("A", consensus_on_a_ring).theta, 4)
    0.75
    """
    check_theorem(option, inputs)
    if target is not None:
        check_positive("the target error", target)
    alpha = 1 / (1 + inputs.omega)
    theta = inputs.convexity / ((1 if option == "A" else 2) * inputs.spread)
    if option == "C":
        return StepSizes(theta, stochastic_eta(inputs, target), alpha)
    return StepSizes(theta, 1 / ((6 if option == "D" else 1) * inputs.smoothness), alpha)


def stochastic_eta(inputs: TheoryInputs, target: float | None) -> float:
    """Return η for which option C reaches E‖x̂ - x*‖² ≤ ε (equation 50).

    Args:
        inputs: The numbers that the theorems depend on.
        target: Squared error ε to reach; None for the largest η, 1/(2L).
    """
    largest = 1 / (2 * inputs.smoothness)
    if target is None or inputs.noise == 0:
        return largest
    check_positive("the target error", target)
    deviation = math.sqrt(inputs.noise)
    return min(
        largest,
        math.sqrt(target) / (4 * deviation * math.sqrt(inputs.omega + 1)),
        target * inputs.convexity * inputs.lambda_min / (16 * inputs.noise * inputs.spread),
    )


def rate(option: str, inputs: TheoryInputs, eta: float | None = None) -> float:
    """Return ρ_A … ρ_D. At theory's step sizes the Lyapunov function shrinks by 1 - rate per iteration, in expectation.

    The rate is never faster than that of fading noise.

    Args:
        option: "A", "B", "C" or "D".
        inputs: The numbers that the theorems depend on.
        eta: Step size of option C; by default 1/(2L).
    """
    check_theorem(option, inputs)
    if eta is not None:
        check_positive("eta", eta)
    condition = inputs.spread / (inputs.convexity * inputs.lambda_min)
    terms = [2 * (inputs.omega + 1)]
    if option == "C":
        terms.append(2 * condition / (stochastic_eta(inputs, None) if eta is None else eta))
    else:
        terms.append({"A": 1, "B": 2, "D": 12}[option] * inputs.smoothness * condition)
    if option == "D":
        terms.append(2 * inputs.samples)
    if inputs.fading:
        terms.append(1 / (1 - inputs.fading))
    return 1 / max(terms)


def noise_floor(inputs: TheoryInputs, eta: float) -> float:
    """Return 4η²σ²/ρ_C, a bound on the squared error at which option C stops (proof of Corollary C).

    Args:
        inputs: The numbers that the theorems depend on.
        eta: Step size η of the gradient.
    """
    check_inputs(inputs)
    check_positive("eta", eta)
    return 4 * eta**2 * inputs.noise / rate("C", inputs, eta)


def iterations(option: str, inputs: TheoryInputs, target: float, start: float) -> int:
    """Return the iterations after which (1/n) E‖X - X*‖² ≤ ε is proven (equation 51 for option C).

    Options B and D: ‖X - X*‖² ≤ Ψ·η/(θ(1 - ημ/2)). Option A bounds x⁺ by the dual: μ²‖X⁺ - X*‖² ≤ ‖Z - Z*‖² ≤ λ_max Ψ.

    Args:
        option: "A", "B", "C" or "D".
        inputs: The numbers that the theorems depend on.
        target: Squared error ε to reach.
        start: The Lyapunov function at the start, Ψ⁰, divided by n.
    """
    check_positive("the target error", target)
    check_number("start, the Lyapunov function at the start,", start, 0)
    sizes = step_sizes(option, inputs, target if option == "C" else None)
    if option == "A":
        factor = inputs.lambda_max / inputs.convexity**2
    elif option == "C":
        factor = 4 * sizes.eta / sizes.theta  # half of ε is left to the noise
    else:
        factor = sizes.eta / (sizes.theta * (1 - sizes.eta * inputs.convexity / 2))
    proven_rate = rate(option, inputs, sizes.eta)
    shrinking = math.ceil(math.log(max(factor * start / target, 1)) / proven_rate)
    return shrinking + 1 if option == "A" else shrinking  # option A computes x from the previous iteration's z


def lyapunov_coefficients(option: str, inputs: TheoryInputs, sizes: StepSizes) -> LyapunovWeights:
    """Return the weights of Ψ_A … Ψ_D.

    Args:
        option: "A", "B", "C" or "D".
        inputs: The numbers that the theorems depend on.
        sizes: The step sizes.
    """
    check_name("option", option, ("A", "B", "C", "D"))
    check_inputs(inputs)
    check_sizes(sizes)
    iterate = 0.0 if option == "A" else (1 - sizes.eta * inputs.convexity / 2) * sizes.theta / sizes.eta
    memory = 8 * sizes.theta**2 * inputs.omega * inputs.noise_weight / sizes.alpha
    anchor = 8 * inputs.smoothness * sizes.eta * sizes.theta if option == "D" else 0.0
    return LyapunovWeights(iterate, memory, anchor)


def free_omega(inputs: TheoryInputs) -> float:
    """Return min(ρ/ρ_∞, κρ). Up to this ω, compression is free up to a constant factor in iterations (equation 11).

    Args:
        inputs: The numbers of the theorems; the paper's bound is that of `inputs.as_published()`.
    """
    check_inputs(inputs)
    return min(inputs.rho / inputs.rho_inf, inputs.condition_number * inputs.rho)


def noise_inflation(inputs: TheoryInputs, messages: str = "independent") -> float:
    """Return the factor by which quantization divides the tuned θ at η = 1/L, and multiplies the iterations.

    Noise acts like a larger λ_max: by 3ω max w_ij if it is independent on each link, by 3ωλ_max if neighbours share it.
    A fit to tuned step sizes on ring and star gives 2.4 to 2.9 in place of 3.

    Args:
        inputs: The numbers that the theorems depend on.
        messages: "independent", "broadcast" or "edge".
    """
    check_inputs(inputs)
    check_name("messages", messages, MESSAGES)
    return 1 + 3 * inputs.omega * (1 if messages == "broadcast" else inputs.max_weight / inputs.lambda_max)


def corrected_step_sizes(inputs: TheoryInputs) -> StepSizes:
    """Return the step sizes of LEAD's Theorem 1, for the corrected method with θ = γ/(2η).

    The theorem has ωλ_max. The noise of all messages weighs at most ω times the largest weighted degree: no more.

    Args:
        inputs: The numbers that the theorems depend on.
    """
    check_theorem("B", inputs)
    eta = 2 / (inputs.convexity + inputs.smoothness)
    if inputs.omega == 0:
        return StepSizes(min(1.0, 2 / inputs.lambda_max) / (2 * eta), eta, 1.0)
    bend = inputs.convexity * eta * (2 - inputs.convexity * eta)
    noise, largest = inputs.omega, inputs.lambda_max
    gamma = 0.5 * min(2 / ((3 * noise + 1) * largest), 2 * bend / ((2 - bend) * noise * largest))
    reach = noise * largest * gamma
    alpha = (reach + 2) / (4 * (1 + noise)) * min((2 - largest * gamma) / (4 - largest * gamma), bend)
    return StepSizes(gamma / (2 * eta), eta, alpha)
