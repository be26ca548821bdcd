"""What the paper proves, as numbers: step sizes, rates, Lyapunov coefficients, iterations, and free compression.

Numbers in, numbers out. L and μ are `smoothness` and `convexity` (for options C and D the sample smoothness), ω is
`omega`, and of the network only λ_max, λ_min⁺ and the largest weight matter.
"""

import math
from typing import NamedTuple

from lessbits.errors import InputError, check_name, check_positive


class Setting(NamedTuple):
    """What the theorems depend on."""

    smoothness: float  # L
    convexity: float  # μ
    lambda_max: float
    lambda_min: float  # λ_min⁺
    max_weight: float
    omega: float
    samples: float = 1.0  # m of option D: samples a node, in batches
    noise: float = 0.0  # σ² of option C
    fading: float = 0.0  # R² of the quantizer `fading`: by what its variance shrinks an iteration

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
        """ρ_∞ = max w_ij / λ_min⁺."""
        return self.max_weight / self.lambda_min

    @property
    def spread(self) -> float:
        """λ_max + 12ω max w_ij, which every theorem divides by."""
        return self.lambda_max + 12 * self.omega * self.max_weight


class StepSizes(NamedTuple):
    """θ, η and α of Algorithm 1."""

    theta: float
    eta: float
    alpha: float


class LyapunovWeights(NamedTuple):
    """Coefficients of ‖X - X*‖², ‖H - X*‖² and Σ m_i B_{f_i}(w_i, x*), next to ‖Z - Z*‖²_{W†}.

    m_i is 1/p_i, the mean number of iterations between two moves of an anchor: samples of node i over the batch size.
    """

    iterate: float
    memory: float
    anchor: float


def _check(option: str, setting: Setting) -> None:
    check_name("option", option, ("A", "B", "C", "D"))
    if setting.convexity <= 0:
        raise InputError(
            f"theory's step sizes need strong convexity, but μ = {setting.convexity:g}: "
            "add regularization above 0, take practical step sizes, or give theta and eta"
        )
    check_positive("the smoothness L", setting.smoothness)


def step_sizes(option: str, setting: Setting, target: float | None = None) -> StepSizes:
    """Theorems A to D (equations 36, 41, 47, 56); option C takes η of Corollary C (50) if a target ε is given.

    >>> consensus_on_a_ring = Setting(1, 1, lambda_max=4 / 3, lambda_min=0.0013, max_weight=1 / 3, omega=0)
    >>> round(step_sizes("A", consensus_on_a_ring).theta, 4)
    0.75
    """
    _check(option, setting)
    alpha = 1 / (1 + setting.omega)
    theta = setting.convexity / ((1 if option == "A" else 2) * setting.spread)
    if option == "C":
        return StepSizes(theta, stochastic_eta(setting, target), alpha)
    return StepSizes(theta, 1 / ((6 if option == "D" else 1) * setting.smoothness), alpha)


def stochastic_eta(setting: Setting, target: float | None) -> float:
    """Equation 50: η for which option C reaches E‖x̂ - x*‖² ≤ ε; 1/(2L) without a target."""
    largest = 1 / (2 * setting.smoothness)
    if target is None or setting.noise == 0:
        return largest
    check_positive("the target error", target)
    deviation = math.sqrt(setting.noise)
    return min(
        largest,
        math.sqrt(target) / (4 * deviation * math.sqrt(setting.omega + 1)),
        target * setting.convexity * setting.lambda_min / (16 * setting.noise * setting.spread),
    )


def rate(option: str, setting: Setting, eta: float | None = None) -> float:
    """ρ_A … ρ_D: at theory's step sizes the Lyapunov function shrinks by 1 - rate an iteration, in expectation.

    `eta` is option C's step size, 1/(2L) if not given. Noise that fades by itself leaves no faster rate than its own.
    """
    _check(option, setting)
    condition = setting.spread / (setting.convexity * setting.lambda_min)
    terms = [2 * (setting.omega + 1)]
    if option == "C":
        terms.append(2 * condition / (stochastic_eta(setting, None) if eta is None else eta))
    else:
        terms.append({"A": 1, "B": 2, "D": 12}[option] * setting.smoothness * condition)
    if option == "D":
        terms.append(2 * setting.samples)
    if setting.fading:
        terms.append(1 / (1 - setting.fading))
    return 1 / max(terms)


def noise_floor(setting: Setting, eta: float) -> float:
    """4η²σ²/ρ_C: the squared error at which option C stops, at most (proof of Corollary C)."""
    return 4 * eta**2 * setting.noise / rate("C", setting, eta)


def iterations(option: str, setting: Setting, target: float, start: float) -> int:
    """Iterations after which (1/n) E‖X - X*‖² ≤ ε is proven, from Ψ⁰ = `start` divided by n (51 for option C).

    Options B and D: ‖X - X*‖² ≤ Ψ·η/(θ(1 - ημ/2)). Option A bounds x⁺ by the dual: μ²‖X⁺ - X*‖² ≤ ‖Z - Z*‖² ≤ λ_max Ψ.
    """
    check_positive("the target error", target)
    sizes = step_sizes(option, setting, target if option == "C" else None)
    if option == "A":
        factor = setting.lambda_max / setting.convexity**2
    elif option == "C":
        factor = 4 * sizes.eta / sizes.theta  # half of ε is left to the noise
    else:
        factor = sizes.eta / (sizes.theta * (1 - sizes.eta * setting.convexity / 2))
    speed = rate(option, setting, sizes.eta)
    shrinking = math.ceil(math.log(max(factor * start / target, 1)) / speed)
    return shrinking + 1 if option == "A" else shrinking  # option A's x comes from the z of the iteration before


def lyapunov_coefficients(option: str, setting: Setting, sizes: StepSizes) -> LyapunovWeights:
    """The weights of Ψ_A … Ψ_D."""
    check_name("option", option, ("A", "B", "C", "D"))
    iterate = 0.0 if option == "A" else (1 - sizes.eta * setting.convexity / 2) * sizes.theta / sizes.eta
    memory = 8 * sizes.theta**2 * setting.omega * setting.max_weight / sizes.alpha
    anchor = 8 * setting.smoothness * sizes.eta * sizes.theta if option == "D" else 0.0
    return LyapunovWeights(iterate, memory, anchor)


def free_omega(setting: Setting) -> float:
    """Equation 11: up to ω = min(ρ/ρ_∞, κρ) compression costs no more iterations, up to a constant."""
    return min(setting.rho / setting.rho_inf, setting.condition_number * setting.rho)


def noise_inflation(setting: Setting, messages: str = "independent") -> float:
    """How many times smaller tuned θ is at η = 1/L, and more iterations are needed, than without quantization.

    Noise acts like a larger λ_max: by 3ω max w_ij if it is independent on each link, by 3ωλ_max if a node's neighbours
    share it. Tuned step sizes on ring and star fit 2.4 to 2.9 in place of 3.
    """
    weight = setting.lambda_max if messages == "broadcast" else setting.max_weight
    return 1 + 3 * setting.omega * weight / setting.lambda_max


def corrected_step_sizes(setting: Setting) -> StepSizes:
    """Theorem 1 of LEAD, for the corrected method with θ = γ/(2η).

    Proven for broadcast messages, whose noise is at most ωλ_max in the proof; that of independent and edge messages is
    at most ω times the largest weighted degree, which is no larger.
    """
    _check("B", setting)
    eta = 2 / (setting.convexity + setting.smoothness)
    if setting.omega == 0:
        return StepSizes(min(1.0, 2 / setting.lambda_max) / (2 * eta), eta, 1.0)
    bend = setting.convexity * eta * (2 - setting.convexity * eta)
    noise, largest = setting.omega, setting.lambda_max
    gamma = 0.5 * min(2 / ((3 * noise + 1) * largest), 2 * bend / ((2 - bend) * noise * largest))
    reach = noise * largest * gamma
    alpha = (reach + 2) / (4 * (1 + noise)) * min((2 - largest * gamma) / (4 - largest * gamma), bend)
    return StepSizes(gamma / (2 * eta), eta, alpha)
