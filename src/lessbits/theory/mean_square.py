"""Practical step sizes: those for which the mean square error shrinks fastest on model quadratics, noise included.

Let all nodes share one Hessian with curvatures c from μ to L. Then the method decouples into modes, one for each pair
of a curvature c and an eigenvalue λ of the network. Each mode is a linear recursion of three numbers:

    y  = x - η(cx - z)                                    gradient step (option A: y = z/c)
    h⁺ = h + α(y - h + noise)                             memory
    z⁺ = z - θλ(y + noise)                                dual step
    x⁺ = y, or corrected y + η(z⁺ - z)

Modes are coupled only by the noise. Its variance v is ω times the mean of (y - h)² over all modes. The distribution of
curvatures is not known, so the worst case is assumed: all modes have the curvature that feeds back the most noise. (In
logistic regression with rare features nearly all modes are flat, which is the worst case.) Messages that neighbours
share add variance λ²v to z; independent ones add 2wλv, where w is the largest weight. A unit of noise causes, k
iterations later, new noise of ω·mean(response²). If these terms times r^-k add up to one, the mean square shrinks by r
per iteration, or by the slowest mode's own rate if that is slower. Nothing here is fitted: docs/fewest-bits.md compares
the predicted iterations with those that runs need.

The noise of the quantizer `fading` does not depend on y - h, and shrinks by R² per iteration. Then everything shrinks
at that rate, if no mode is slower. The best step sizes are those that feed back the least noise, because messages are
then shortest.
"""

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from lessbits.errors import InputError, check_name
from lessbits.theory.theorems import MESSAGES, StepSizes, TheoryInputs, check_inputs, check_sizes

NOISE_MARGIN = 1.2  # factor on the typical noise, because differences are not quite Gaussian
CURVATURES = 5  # log-spaced between μ and L
EIGENVALUES = 12  # between λ_min⁺ and λ_max, denser at the ends, as those of rings and tori are
WORST_CONDITION = 1e4  # modes that are slower still are left out: they would hide the others
TOLERANCE = 1e-4  # of the rate, relative to 1 minus the slowest rate
COARSE_TOLERANCE = 1e-2  # the same, on the coarse grid
LARGEST_ETA = {"A": 1.0, "B": 1.0, "C": 1 / 2, "D": 1 / 3}  # times L; smaller where gradients are stochastic
MEAN_MODE_WEIGHT = 0.1  # weight of the mean mode next to the slowest one, so that every step size matters
ETA_GRID = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)  # coarse grid of η, relative to its largest value
DUAL_GRID = (3.0, 2.0, 1.33, 1.0, 0.5, 0.2, 0.05, 0.005, 5e-4)  # coarse grid of ηθλ_max; for option A, of θλ_max/μ
ALPHA_GRID = (0.9, 0.5, 0.15)  # coarse grid of α
NELDER_MEAD_OPTIONS = {"maxiter": 120, "xatol": 1e-2, "fatol": 1e-4}


class Prediction(NamedTuple):
    """Predicted step sizes and their rate.

    Attributes:
        sizes: The step sizes.
        rate: The factor by which the mean square error shrinks per iteration.
        spread: For the quantizer `fading`, the root mean square of what is sent, in units of the grid spacing.
    """

    sizes: StepSizes
    rate: float
    spread: float = 0.0

    def iterations(self, reduction: float) -> float:
        """Return roughly how many iterations divide the squared error by `reduction`."""
        return math.log(max(reduction, 1)) / -math.log(self.rate) if self.rate < 1 else math.inf


class _Modes(NamedTuple):
    curvature: np.ndarray
    eigenvalue: np.ndarray

    @classmethod
    def of(cls, inputs: TheoryInputs) -> "_Modes":
        most = inputs.smoothness
        least = max(inputs.convexity, most / WORST_CONDITION)
        curvatures = np.geomspace(least, most, CURVATURES) if least < most else np.array([most])
        steps = (1 - np.cos(np.linspace(0, np.pi, EIGENVALUES))) / 2
        eigenvalues = inputs.lambda_min + (inputs.lambda_max - inputs.lambda_min) * steps
        return cls(*(axis.ravel() for axis in np.meshgrid(curvatures, eigenvalues, indexing="ij")))


def mean_square_rate(option: str, inputs: TheoryInputs, sizes: StepSizes, messages: str, corrected: bool) -> float:
    """Return the factor by which the mean square error shrinks per iteration; above 1 if it grows.

    Args:
        option: "A", "B", "C" or "D".
        inputs: Constants of the problem, the network and the quantizer.
        sizes: The step sizes.
        messages: "independent", "broadcast" or "edge".
        corrected: Whether the method is corrected.

    >>> ring = TheoryInputs(1, 1, lambda_max=4 / 3, lambda_min=0.0013, max_weight=1 / 3, omega=0.29)
    >>> round(mean_square_rate("B", ring, StepSizes(13.0, 0.063, 0.15), "broadcast", corrected=True), 2)
    0.94
    """
    check_name("option", option, LARGEST_ETA)
    check_name("messages", messages, MESSAGES)
    check_inputs(inputs)
    check_sizes(sizes)
    return _rate(option, inputs, _Modes.of(inputs), sizes, messages, corrected)[0]


def practical_step_sizes(
    option: str,
    inputs: TheoryInputs,
    messages: str = "independent",
    corrected: bool = False,
    given: Mapping[str, float] | None = None,
    refine: bool = True,
) -> Prediction:
    """Return the step sizes with the smallest mean square rate, by a coarse grid and then a Nelder-Mead search.

    `option`, `inputs`, `messages` and `corrected` are as in `mean_square_rate`. Step sizes in `given` stay fixed;
    LEAD's `gamma` fixes θ = γ/(2η). Without `refine`, the result is the best of the coarse grid.
    """
    from scipy.optimize import minimize

    check_name("option", option, LARGEST_ETA)
    check_name("messages", messages, MESSAGES)
    check_inputs(inputs)
    if option == "A" and inputs.convexity <= 0:
        raise InputError(
            "option A needs strongly convex losses, but μ = 0: add regularization above 0, or take option B"
        )
    modes, given = _Modes.of(inputs), dict(given or {})
    gamma = given.pop("gamma", None)
    noisy = inputs.omega > 0 or inputs.fading > 0

    def sizes_at(point: np.ndarray) -> StepSizes:
        """Return step sizes from the logarithms of η and θ in natural units, and the log-odds of α."""
        eta = LARGEST_ETA[option] / inputs.smoothness * math.exp(min(0.0, point[0]))
        eta = given.get("eta", eta)
        unit = inputs.convexity if option == "A" else 1 / eta
        alpha = 1 / (1 + math.exp(-point[2])) if noisy else 1.0
        theta = math.exp(point[1]) * unit / inputs.lambda_max if gamma is None else gamma / (2 * eta)
        return StepSizes(theta, eta, alpha)._replace(**given)

    def cost(point: np.ndarray, tolerance: float = TOLERANCE) -> float:
        if inputs.fading:
            slowest, returned = _fading_rate(option, inputs, modes, sizes_at(point), messages, corrected)
            return 50 + slowest if slowest >= inputs.fading else math.log(returned)
        rate, mean_time = _rate(option, inputs, modes, sizes_at(point), messages, corrected, tolerance)
        return 50 + rate if rate >= 1 else math.log(-1 / math.log(max(rate, 1e-12)) + MEAN_MODE_WEIGHT * mean_time)

    def predict(point: np.ndarray) -> Prediction:
        sizes = sizes_at(point)
        if inputs.fading:
            slowest, returned = _fading_rate(option, inputs, modes, sizes, messages, corrected)
            return Prediction(sizes, max(slowest, inputs.fading), math.sqrt(returned / 12))
        return Prediction(sizes, _rate(option, inputs, modes, sizes, messages, corrected)[0])

    etas, alphas = (1.0,) if option == "A" else ETA_GRID, ALPHA_GRID if noisy else ALPHA_GRID[:1]
    axes = np.log(etas), np.log(DUAL_GRID), [math.log(alpha / (1 - alpha)) for alpha in alphas]
    grid = np.array(list(product(*axes)))
    order = np.argsort([cost(point, COARSE_TOLERANCE) for point in grid], kind="stable")
    if not refine:
        return predict(grid[order[0]])
    found = [minimize(cost, grid[at], method="Nelder-Mead", options=NELDER_MEAD_OPTIONS) for at in order[:3]]
    best = min(found, key=lambda end: float(end.fun)).x
    # Restarted, because the slowest mode's rate has kinks.
    best = minimize(cost, best, method="Nelder-Mead", options=NELDER_MEAD_OPTIONS).x
    return predict(best)


def _rate(
    option: str,
    inputs: TheoryInputs,
    modes: _Modes,
    sizes: StepSizes,
    messages: str,
    corrected: bool,
    tolerance: float = TOLERANCE,
) -> tuple[float, float]:
    """Return the mean square rate, and the mean number of iterations in which one mode shrinks by a factor e."""
    from scipy.optimize import brentq

    step, observed = _recursion(option, modes, sizes, corrected)
    mode_rates = _mode_rates(option, inputs, modes, sizes, step)
    slowest = float(mode_rates.max()) ** 2
    if slowest >= 1:
        return slowest, math.inf
    mean_time = float(np.mean(-0.5 / np.log(np.maximum(mode_rates, 1e-6))))
    if inputs.omega == 0:
        return slowest, mean_time
    returned = _noise_feedback(step, observed, _noise_effects(inputs, modes, sizes, messages, corrected))
    if (most := inputs.omega * returned(1.0)) >= 1:
        return 1 + most, math.inf

    def excess(rate: float) -> float:
        """Return a number above zero if less than one unit of noise returns; nearly linear in the rate."""
        return -1.0 if rate <= slowest else 1 / max(inputs.omega * returned(rate), 1e-12) - 1

    return brentq(excess, slowest, 1.0, xtol=tolerance * (1 - slowest)), mean_time


def _fading_rate(
    option: str, inputs: TheoryInputs, modes: _Modes, sizes: StepSizes, messages: str, corrected: bool
) -> tuple[float, float]:
    """Return the slowest mode's own rate, and the mean square of y - h for fading noise of variance one."""
    step, observed = _recursion(option, modes, sizes, corrected)
    slowest = float(_mode_rates(option, inputs, modes, sizes, step).max()) ** 2
    if slowest >= inputs.fading:
        return slowest, math.inf
    effects = _noise_effects(inputs, modes, sizes, messages, corrected)
    return slowest, _noise_feedback(step, observed, effects)(inputs.fading)


def _mode_rates(option: str, inputs: TheoryInputs, modes: _Modes, sizes: StepSizes, step: np.ndarray) -> np.ndarray:
    """Return the factor by which each mode shrinks per iteration without noise."""
    mode_rates = np.abs(np.linalg.eigvals(step[:, :2, :2])).max(axis=1)
    if option != "A":
        mode_rates = np.concatenate([mode_rates, np.abs(1 - sizes.eta * modes.curvature)])  # of the mean over all nodes
    if inputs.omega > 0 or inputs.fading > 0:
        mode_rates = np.append(mode_rates, 1 - sizes.alpha)  # the memory's own rate
    return mode_rates


def _noise_feedback(
    step: np.ndarray, observed: np.ndarray, effects: np.ndarray, eigenvalues: int = EIGENVALUES
) -> Callable[[float], float]:
    """Return a function of the rate r: Σ_k r^-k mean(response²) for a unit of noise, at the worst curvature.

    The sum is the solution of a linear equation of covariances.
    """
    count = len(step)
    covariance_step = np.einsum("mij,mkl->mikjl", step, step).reshape(count, 9, 9)
    start = np.einsum("mki,mkj->mij", effects, effects).reshape(count, 9, 1)
    weight = np.einsum("mi,mj->mij", observed, observed).reshape(count, 9, 1)
    unit = np.eye(9)

    def at(rate: float) -> float:
        try:
            found = (weight * np.linalg.solve(rate * unit - covariance_step, start)).sum(axis=(1, 2))
        except np.linalg.LinAlgError:  # a mode does not shrink faster than this rate
            return math.inf
        return float(found.reshape(-1, EIGENVALUES).mean(axis=1).max()) if found.min() >= 0 else math.inf

    return at


def _recursion(option: str, modes: _Modes, sizes: StepSizes, corrected: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices of one iteration of (x, z, h), and the rows that map it to y - h."""
    curvature, count = modes.curvature, len(modes.curvature)
    y = np.zeros((count, 3))
    if option == "A":
        y[:, 1] = 1 / curvature
    else:
        y[:, 0], y[:, 1] = 1 - sizes.eta * curvature, sizes.eta
    pull = -sizes.theta * modes.eigenvalue[:, None] * y
    step = np.stack([y + sizes.eta * pull if corrected else y, pull, sizes.alpha * y], axis=1)
    step[:, 1, 1] += 1
    step[:, 2, 2] += 1 - sizes.alpha
    observed = y.copy()
    observed[:, 2] -= 1
    return step, observed


def _noise_effects(inputs: TheoryInputs, modes: _Modes, sizes: StepSizes, messages: str, corrected: bool) -> np.ndarray:
    """Return the effect of one unit of each independent noise on (x, z, h): [modes, noises, 3]."""
    shared = messages == "broadcast"
    strength = modes.eigenvalue if shared else np.sqrt(2 * inputs.max_weight * modes.eigenvalue)
    dual = np.zeros((len(strength), 3))
    dual[:, 1] = -sizes.theta * strength
    dual[:, 0] = sizes.eta * dual[:, 1] if corrected else 0
    if shared:
        dual[:, 2] = sizes.alpha
        return dual[:, None]
    memory = np.zeros_like(dual)
    memory[:, 2] = sizes.alpha
    return np.stack([dual, memory], axis=1)
