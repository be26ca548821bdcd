"""Practical step sizes: those for which the method, with its noise, shrinks fastest in mean square on model quadratics.

Let all nodes share one Hessian with curvatures c from μ to L. Then the method falls apart into modes, one for each pair
of a curvature c and an eigenvalue λ of the network, each a linear recursion of three numbers:

    y  = x - η(cx - z)                                    gradient step (option A: y = z/c)
    h⁺ = h + α(y - h + noise)                             memory
    z⁺ = z - θλ(y + noise)                                dual step
    x⁺ = y, or corrected y + η(z⁺ - z)

Modes are coupled by the noise alone: its variance v is ω times the mean of (y - h)² over all modes. How many of them
have which curvature is not known, so the worst is assumed: that all have the one through which most noise returns (in
logistic regression with rare features nearly all are flat, and that is the worst). Messages that a node's neighbours
share bring variance λ²v into z, independent ones 2wλv (w the largest weight). A unit of noise that comes in returns, k
iterations later, as ω·mean(response²) of new noise; if r^-k times these add up to one, then the mean square shrinks by
r an iteration (or by the slowest mode's own rate, if that is slower). Nothing here is fitted: docs/fewest-bits.md
compares the promised iterations with those that runs need.

The noise of the quantizer `fading` does not depend on y - h, and shrinks by R² an iteration. Then so does the rest, if
no mode is slower; and the best step sizes are those for which the least of it returns, as messages then are shortest.
"""

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from lessbits.errors import InputError, check_name, check_positive
from lessbits.theory.theorems import StepSizes, TheoryInputs

NOISE_MARGIN = 1.2  # times typical noise: differences are not quite Gaussian
CURVATURES = 5  # log-spaced between μ and L
EIGENVALUES = 12  # between λ_min⁺ and λ_max, denser at the ends, as those of rings and tori are
WORST_CONDITION = 1e4  # slower modes would only hide what can be done for the others
TOLERANCE = 1e-4  # of the rate, as a share of what is left to 1; less on the coarse grid
COARSE_TOLERANCE = 1e-2
LARGEST_ETA = {"A": 1.0, "B": 1.0, "C": 1 / 2, "D": 1 / 3}  # times L: sampling noise needs room
EASE = 0.1  # weight of the mean mode beside the slowest, so that no step size is left to chance
ETAS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)  # the coarse grid: η over its largest value,
DUALS = (3.0, 2.0, 1.33, 1.0, 0.5, 0.2, 0.05, 0.005, 5e-4)  # ηθλ_max, for option A θλ_max/μ,
ALPHAS = (0.9, 0.5, 0.15)  # and α
DOWNHILL = {"maxiter": 120, "xatol": 1e-2, "fatol": 1e-4}


class Prediction(NamedTuple):
    """Step sizes, and the factor by which the mean square error shrinks an iteration."""

    sizes: StepSizes
    rate: float
    spread: float = 0.0  # of `fading`: the root mean square of what is sent, in spacings

    def iterations(self, reduction: float) -> float:
        """Return about how many iterations divide the squared error by `reduction`."""
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
    """Return by what the mean square error shrinks an iteration; above 1 if it grows.

    >>> ring = TheoryInputs(1, 1, lambda_max=4 / 3, lambda_min=0.0013, max_weight=1 / 3, omega=0.29)
    >>> round(mean_square_rate("B", ring, StepSizes(13.0, 0.063, 0.15), "broadcast", corrected=True), 2)
    0.94
    """
    return _rate(option, inputs, _Modes.of(inputs), sizes, messages, corrected)[0]


def practical_step_sizes(
    option: str,
    inputs: TheoryInputs,
    messages: str = "independent",
    corrected: bool = False,
    given: Mapping[str, float] | None = None,
    refine: bool = True,
) -> Prediction:
    """Return the step sizes with the smallest mean square rate: the best of a coarse grid, then downhill from it.

    Step sizes that are `given` stay as they are. Without `refine` the best of the coarse grid will do.
    """
    from scipy.optimize import minimize

    check_name("option", option, ("A", "B", "C", "D"))
    check_positive("the smoothness L", inputs.smoothness)
    if option == "A" and inputs.convexity <= 0:
        raise InputError(
            "option A needs strongly convex losses, but μ = 0: add regularization above 0, or take option B"
        )
    modes, given = _Modes.of(inputs), given or {}
    noisy = inputs.omega > 0 or inputs.fading > 0

    def sizes_at(point: np.ndarray) -> StepSizes:
        """Take the logarithms of η and of θ in their natural units, and the log-odds of α."""
        eta = LARGEST_ETA[option] / inputs.smoothness * min(1.0, math.exp(point[0]))
        eta = given.get("eta", eta)
        unit = inputs.convexity if option == "A" else 1 / eta
        alpha = 1 / (1 + math.exp(-point[2])) if noisy else 1.0
        return StepSizes(math.exp(point[1]) * unit / inputs.lambda_max, eta, alpha)._replace(**given)

    def cost(point: np.ndarray, tolerance: float = TOLERANCE) -> float:
        if inputs.fading:
            slowest, returned = _faded(option, inputs, modes, sizes_at(point), messages, corrected)
            return 50 + slowest if slowest >= inputs.fading else math.log(returned)
        rate, mean_time = _rate(option, inputs, modes, sizes_at(point), messages, corrected, tolerance)
        return 50 + rate if rate >= 1 else math.log(-1 / math.log(max(rate, 1e-12)) + EASE * mean_time)

    def promise(point: np.ndarray) -> Prediction:
        sizes = sizes_at(point)
        if inputs.fading:
            slowest, returned = _faded(option, inputs, modes, sizes, messages, corrected)
            return Prediction(sizes, max(slowest, inputs.fading), math.sqrt(returned / 12))
        return Prediction(sizes, _rate(option, inputs, modes, sizes, messages, corrected)[0])

    etas, alphas = (1.0,) if option == "A" else ETAS, ALPHAS if noisy else ALPHAS[:1]
    axes = np.log(etas), np.log(DUALS), [math.log(alpha / (1 - alpha)) for alpha in alphas]
    grid = np.array(list(product(*axes)))
    order = np.argsort([cost(point, COARSE_TOLERANCE) for point in grid], kind="stable")
    if not refine:
        return promise(grid[order[0]])
    found = [minimize(cost, grid[at], method="Nelder-Mead", options=DOWNHILL) for at in order[:3]]
    best = min(found, key=lambda end: float(end.fun)).x
    best = minimize(cost, best, method="Nelder-Mead", options=DOWNHILL).x  # afresh: the slowest mode's rate has kinks
    return promise(best)


def _rate(
    option: str,
    inputs: TheoryInputs,
    modes: _Modes,
    sizes: StepSizes,
    messages: str,
    corrected: bool,
    tolerance: float = TOLERANCE,
) -> tuple[float, float]:
    """Return the mean square rate, and the mean number of iterations in which a mode alone shrinks e times."""
    from scipy.optimize import brentq

    step, seen = _recursion(option, modes, sizes, corrected)
    own = _own(option, inputs, modes, sizes, step)
    slowest = float(own.max()) ** 2
    if slowest >= 1:
        return slowest, math.inf
    mean_time = float(np.mean(-0.5 / np.log(np.maximum(own, 1e-6))))
    if inputs.omega == 0:
        return slowest, mean_time
    returned = _returned(step, seen, _kicks(inputs, modes, sizes, messages, corrected))
    if (most := inputs.omega * returned(1.0)) >= 1:
        return 1 + most, math.inf

    def excess(rate: float) -> float:
        """Above zero where less than one unit returns; nearly straight, as noise returns like 1/(rate - slowest)."""
        return -1.0 if rate <= slowest else 1 / max(inputs.omega * returned(rate), 1e-12) - 1

    return brentq(excess, slowest, 1.0, xtol=tolerance * (1 - slowest)), mean_time


def _faded(
    option: str, inputs: TheoryInputs, modes: _Modes, sizes: StepSizes, messages: str, corrected: bool
) -> tuple[float, float]:
    """Return the slowest mode's own rate, and the mean square of y - h for noise of variance one that fades."""
    step, seen = _recursion(option, modes, sizes, corrected)
    slowest = float(_own(option, inputs, modes, sizes, step).max()) ** 2
    if slowest >= inputs.fading:
        return slowest, math.inf
    return slowest, _returned(step, seen, _kicks(inputs, modes, sizes, messages, corrected))(inputs.fading)


def _own(option: str, inputs: TheoryInputs, modes: _Modes, sizes: StepSizes, step: np.ndarray) -> np.ndarray:
    """Return by what each mode shrinks an iteration without noise."""
    own = np.abs(np.linalg.eigvals(step[:, :2, :2])).max(axis=1)
    if option != "A":
        own = np.concatenate([own, np.abs(1 - sizes.eta * modes.curvature)])  # of the mean over all nodes
    if inputs.omega > 0 or inputs.fading > 0:
        own = np.append(own, 1 - sizes.alpha)  # the memory follows at its own pace
    return own


def _returned(
    step: np.ndarray, seen: np.ndarray, kicks: np.ndarray, eigenvalues: int = EIGENVALUES
) -> Callable[[float], float]:
    """Σ_k r^-k mean(response²) of the worst curvature: a unit of noise, by a linear equation of covariances."""
    count = len(step)
    twice = np.einsum("mij,mkl->mikjl", step, step).reshape(count, 9, 9)
    start = np.einsum("mki,mkj->mij", kicks, kicks).reshape(count, 9, 1)
    weight = np.einsum("mi,mj->mij", seen, seen).reshape(count, 9, 1)
    unit = np.eye(9)

    def at(rate: float) -> float:
        try:
            found = (weight * np.linalg.solve(rate * unit - twice, start)).sum(axis=(1, 2))
        except np.linalg.LinAlgError:  # a mode does not shrink faster than that
            return math.inf
        return float(found.reshape(-1, EIGENVALUES).mean(axis=1).max()) if found.min() >= 0 else math.inf

    return at


def _recursion(option: str, modes: _Modes, sizes: StepSizes, corrected: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices of one iteration of (x, z, h), and the rows that give y - h."""
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
    seen = y.copy()
    seen[:, 2] -= 1
    return step, seen


def _kicks(inputs: TheoryInputs, modes: _Modes, sizes: StepSizes, messages: str, corrected: bool) -> np.ndarray:
    """Return what a unit of each independent noise does to (x, z, h): [modes, noises, 3]."""
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
