"""Practical step sizes of `edge-dual`: the mean-square analysis with silent links, a correction, and late messages.

As in `mean_square`, all nodes share one Hessian, and the method falls into modes, one for each pair of a curvature c
and an eigenvalue λ of the network. With g = 1 - ηc, and dual steps that come D iterations late, one mode is

    x_t = g u_t + ηz_t                                    gradient step
    s_t = -θλp x_(t-D) + noise                            what the edges add to the duals
    z_(t+1) = z_t + s_t,   u_(t+1) = x_t + γηs_t          dual step, correction
    h_(t+1) = h_t + αp(x_t - h_t) + noise                 memories

A link that speaks with probability q and then waits for messages speaks p = 1/(1/q + D) times per iteration. Noise has
two sources, and comes to a mode with the variance 2wλθ²p times their sum (w is the largest weight):

- The quantizer: ω times the mean of (x - h)² over all modes. The memories get α²p(ω + 1 - p) times this mean.
- Silence: whether a link speaks is a coin. This adds (1-q)/(1+qD)² times the mean of x², weighted by λ.

With s gradient steps from one exchange to the next, one step of this recursion is a round: in it g^s stands for g,
(1 - g^s)/c for η, and γη stays what it is. The rate per iteration is the s-th root of that of a round.

A unit of noise causes, k iterations later, a response whose square counts r^-k. If the noise that returns is less than
one unit, the mean square shrinks by r per iteration. By Parseval the sum is the mean of |response|² over the circle
|ζ| = √r, for the z-transform of the recursion. A mode is slower than r if its denominator winds around zero on that
circle. So delays cost nothing: no matrix grows with them.

Approximations: equal Hessians; every edge has the mean disagreement, and its coin is independent of what its memories
hold; with delays, edges are out of step with each other, and all messages are as late as the latest.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lessbits.errors import check_name, check_whole
from lessbits.theory.edges import OPTIONS, EdgeSizes, check_speaking
from lessbits.theory.mean_square import WORST_CONDITION
from lessbits.theory.theorems import TheoryInputs, check_inputs

CURVATURES = 4  # log-spaced between μ and L
EIGENVALUES = 6  # between λ_min⁺ and λ_max, denser at the ends
POINTS, POINTS_PER_DELAY, DENSER = 64, 2, 6.0  # on half the circle, denser near 1, where slow modes are
LARGEST_ETA = {"B": 1.8, "C": 1 / 2, "D": 1 / 3}  # times L; gradient descent diverges from 2 on
ETA_GRID = (1.0, 0.75, 0.55, 0.4, 0.28, 0.2, 0.12, 0.07, 0.04, 0.02, 0.01)  # times the largest η
DUAL_GRID = (3.0, 2.2, 1.6, 1.2, 0.9, 0.65, 0.45, 0.3, 0.2, 0.1, 0.03, 0.003)  # of ηθλ_max/p
GAIN_GRID = (0.0, 0.5, 1.0, 1.5, 2.5)  # of γp
ALPHA_GRID = (1.3, 0.9, 0.5, 0.25)  # of α(1+ω)
STEPS = (1.4, 1.3, 1.2, 1.2, 1.1, 1.1, 1.05)  # factors between neighbours in the finer searches
FINER = 30  # times the points where only one rate is wanted
LARGEST_TURN = 2.0  # between two points: beyond, a resonance may hide between them
SLOWEST, FASTEST, SOMEWHAT = math.log(1e-7), math.log(0.999), 0.3  # bounds of log(1 - rate), and a small step of it


class _Point(NamedTuple):
    """Step sizes, and the rate at which less than one unit of noise returns."""

    sizes: EdgeSizes
    rate: float


def _half_circle(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the upper half of the unit circle, and the weights of a mean over them."""
    even = np.linspace(0, 1, points + 1)
    angle = np.pi * np.sinh(DENSER * even) / math.sinh(DENSER)
    gaps = np.diff(angle) / (2 * np.pi)
    return np.exp(1j * angle), np.append(gaps, 0) + np.append(0, gaps)


class _Model(NamedTuple):
    """The modes, and how often links speak."""

    inputs: TheoryInputs
    curvature: np.ndarray
    eigenvalue: np.ndarray
    circle: tuple[np.ndarray, np.ndarray]
    delay: int
    speaking: float
    silence: float
    local_steps: int

    @classmethod
    def of(cls, inputs: TheoryInputs, speaking: float, delay: int, local_steps: int, finer: int = 1) -> "_Model":
        delay = -(-delay // local_steps)  # in rounds
        most = inputs.smoothness
        least = max(inputs.convexity, most / WORST_CONDITION)
        steps = (1 - np.cos(np.linspace(0, np.pi, EIGENVALUES))) / 2
        return cls(
            inputs,
            np.geomspace(least, most, CURVATURES) if least < most else np.array([most]),
            inputs.lambda_min + (inputs.lambda_max - inputs.lambda_min) * steps,
            _half_circle(finer * (POINTS + POINTS_PER_DELAY * delay)),
            delay,
            1 / (1 / speaking + delay),
            (1 - speaking) / (1 + speaking * delay) ** 2,
            local_steps,
        )

    def gradient_steps(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what the gradient steps of a round leave of an iterate, what they add of z, and γη as a share of it.

        Each has a row per (η, θ, γ), and a column per curvature.
        """
        eta, _, gamma = (column[:, None] for column in sizes.T)
        gain = 1 - eta * self.curvature
        if self.local_steps == 1:
            return gain, eta + 0 * gain, gamma + 0 * gain
        gain = gain**self.local_steps
        reach = (1 - gain) / self.curvature
        return gain, reach, gamma * eta / reach

    def returned(self, sizes: np.ndarray, alphas: np.ndarray, rate: float, mean_mode: bool) -> np.ndarray:
        """Return the noise that comes back from one unit, for each row (η, θ, γ) and each α.

        It is infinite where a mode is slower than the rate. The mean over all nodes is left out without `mean_mode`.
        """
        gain, eta, gamma = (each[:, :, None, None] for each in self.gradient_steps(sizes))
        theta, point = sizes[:, 1, None, None, None], math.sqrt(rate) * self.circle[0]
        pull = (1 + gain * gamma) - gain * gamma / point
        lag = point ** -(self.delay + 1)
        strength = eta * theta * self.speaking * self.eigenvalue[:, None]
        denominator = (1 - 1 / point) * (1 - gain / point) + strength * (pull * lag)
        turns = np.angle(denominator[..., 1:] / denominator[..., :-1])
        resolved = np.abs(turns).max(-1) < LARGEST_TURN
        fast = ((np.abs(turns.sum(-1)) < 1) & resolved & (denominator[..., 0].real > 0)).all((1, 2))
        if mean_mode:
            fast &= (gain[:, :, 0, 0] ** 2 < rate).all(1)
        if self.delay:
            fast &= self._fast_in_step(sizes, rate)
        noise = 2 * self.inputs.max_weight * self.eigenvalue[:, None] * (eta * theta) ** 2
        response = noise * np.abs(pull / (denominator * point)) ** 2 * self.circle[1]
        weights = self.eigenvalue / self.eigenvalue.sum()
        seen_silent = (response.sum(-1) * weights).sum(-1)[..., None]
        if self.inputs.omega == 0:
            total = self.silence * seen_silent + 0 * alphas
        else:
            slow = 1 - self.speaking * alphas
            kept = rate - slow**2
            own = self.speaking * (self.inputs.omega + 1 - self.speaking) * alphas**2 / np.where(kept > 0, kept, 1)
            good = (kept > 0) & (own < 1)
            behind = np.abs((point - 1) / (point - slow[:, None])) ** 2
            seen = response.mean(2) @ behind.T
            total = self.inputs.omega * seen / np.where(good, 1 - own, 1) + self.silence * seen_silent
            total = np.where(good, total, np.inf)
        total = self.speaking * rate**-self.delay * total.max(1)
        return np.where(fast[:, None], total, np.inf)

    def _fast_in_step(self, sizes: np.ndarray, rate: float) -> np.ndarray:
        """Return whether modes are fast enough if all edges speak at once, every D + 1 iterations, as they may."""
        gain, eta, gamma = (each[:, :, None] for each in self.gradient_steps(sizes))
        theta, period = sizes[:, 1, None, None], self.delay + 1
        pull = theta * self.eigenvalue
        # From (u, z) at the start of a round to its end: D + 1 gradient steps with one z, then the dual step.
        u_u, z_u = gain**period - gamma * eta * pull * gain, -pull * gain
        u_z, z_z = (1 - gain**period) / self.curvature[:, None] - gamma * eta * pull * eta, 1 - pull * eta
        trace, determinant, radius = u_u + z_z, u_u * z_z - u_z * z_u, rate ** (period / 2)
        return ((determinant < radius**2) & (np.abs(trace) * radius < radius**2 + determinant)).all((1, 2))

    def fastest(
        self, sizes: np.ndarray, alphas: np.ndarray, mean_mode: bool, halvings: int = 9, around: float | None = None
    ) -> _Point | None:
        """Return the candidate with the smallest rate: bisection, dropping candidates that are slower.

        With `around`, a rate, only those that are somewhat faster count.
        """
        low, high, best = SLOWEST, FASTEST, None
        if around is not None:
            low = math.log(1 - around)
            high = min(FASTEST, low + SOMEWHAT)
        for _ in range(halvings):
            middle = (low + high) / 2
            rate = 1 - math.exp(middle)
            returned = self.returned(sizes, alphas, rate, mean_mode)
            good = returned.min(1) < 1
            if not good.any():
                high = middle
                continue
            sizes, returned, low = sizes[good], returned[good], middle
            row, column = np.unravel_index(returned.argmin(), returned.shape)
            eta, theta, gamma = (float(size) for size in sizes[row])
            best = _Point(EdgeSizes(theta, eta, float(alphas[column]), gamma), rate)
        return best


def edge_rate(
    inputs: TheoryInputs, sizes: EdgeSizes, speaking: float = 1.0, delay: int = 0, local_steps: int = 1
) -> float:
    """Return the factor by which the mean square error is predicted to shrink per iteration; 1 if it does not.

    Args:
        inputs: Constants of the problem, the network (`max_weight` is the largest weight) and the quantizer.
        sizes: The step sizes.
        speaking: The probability that a link speaks in an iteration with exchanges.
        delay: The iterations that messages come late, at most.
        local_steps: Gradient steps from one exchange to the next.
    """
    _check(inputs, speaking, delay, local_steps)
    rows, alphas = np.array([[sizes.eta, sizes.theta, sizes.gamma]]), np.array([sizes.alpha])
    model = _Model.of(inputs, speaking, delay, local_steps, finer=FINER)
    found = model.fastest(rows, alphas, mean_mode=True, halvings=30)
    return found.rate ** (1 / local_steps) if found else 1.0


def edge_step_sizes(
    inputs: TheoryInputs,
    speaking: float = 1.0,
    delay: int = 0,
    option: str = "B",
    given: Mapping[str, float] | None = None,
    local_steps: int = 1,
) -> EdgeSizes:
    """Return the step sizes with the smallest predicted rate, by a grid that gets finer.

    The mean over all nodes moves as in gradient descent, whatever edges do. Where it is the slowest, η is as large as
    it may be, and the others are those for which the nodes come to agree fastest.

    Args:
        inputs: Constants of the problem, the network (`max_weight` is the largest weight) and the quantizer.
        speaking: The probability that a link speaks in an iteration with exchanges.
        delay: The iterations that messages come late, at most.
        option: "B", "C" or "D"; the largest η depends on it.
        given: Step sizes that stay as they are, by name.
        local_steps: Gradient steps from one exchange to the next.

    >>> ring = TheoryInputs(1, 0.05, lambda_max=4 / 3, lambda_min=0.05, max_weight=1 / 3, omega=0.2)
    >>> edge_step_sizes(ring, speaking=0.3).gamma > edge_step_sizes(ring).gamma > 0
    True
    """
    _check(inputs, speaking, delay, local_steps)
    check_name("option", option, OPTIONS)
    model, given = _Model.of(inputs, speaking, delay, local_steps), dict(given or {})
    largest = LARGEST_ETA[option] / inputs.smoothness
    alphas = np.minimum(1, np.array(ALPHA_GRID) / (1 + inputs.omega)) if inputs.omega > 0 else np.ones(1)
    axes = np.multiply(ETA_GRID, largest), np.array(DUAL_GRID), np.array(GAIN_GRID)
    sizes = None
    for mean_mode in (True, False):
        found = model.fastest(*_grid(model, axes, alphas, given), mean_mode)
        if found is None:
            break
        for step in STEPS:
            found = _finer(model, found, step, largest, given, mean_mode)
        sizes = found.sizes
        given.setdefault("eta", sizes.eta)
    if sizes is None:  # such as η given too large: a small dual step is the best guess
        rows, alphas = _grid(model, (axes[0][-1:], axes[1][-1:], np.ones(1)), alphas[-1:], given)
        eta, theta, gamma = (float(size) for size in rows[0])
        sizes = EdgeSizes(theta, eta, float(alphas[0]), gamma)
    return sizes


def _finer(
    model: _Model, found: _Point, step: float, largest: float, given: Mapping[str, float], mean_mode: bool
) -> _Point:
    """Return the best of step sizes around those found."""
    theta, eta, alpha, gamma = found.sizes
    around = np.array([1 / step, 1.0, step])
    etas, often = np.minimum(eta * around, largest), model.speaking / model.local_steps
    strengths = eta * theta * model.inputs.lambda_max / often * around
    gains = gamma * often * around if gamma else np.array([0, 0.1 * (step - 1)])
    alphas = np.minimum(alpha * around, 1) if model.inputs.omega > 0 else np.ones(1)
    rows = _grid(model, (etas, strengths, gains), alphas, given)
    return model.fastest(*rows, mean_mode, halvings=5, around=found.rate) or found


def _grid(
    model: _Model, axes: tuple[np.ndarray, np.ndarray, np.ndarray], alphas: np.ndarray, given: Mapping[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (η, θ, γ) from axes of η, ηθλ_max/p and γp, and the axis of α; what is given stays.

    Local steps bring an iterate up to as many times further, and p is divided by their number.
    """
    often = model.speaking / model.local_steps
    etas = np.array([given["eta"]]) if "eta" in given else axes[0]
    eta, strength, gain = (axis.ravel() for axis in np.meshgrid(etas, *axes[1:], indexing="ij"))
    theta = strength * often / (eta * model.inputs.lambda_max)
    rows = np.stack([eta, given.get("theta", theta) + 0 * eta, given.get("gamma", gain / often) + 0 * eta])
    return np.unique(rows.T, axis=0), np.array([given["alpha"]]) if "alpha" in given else alphas


def _check(inputs: TheoryInputs, speaking: float, delay: int, local_steps: int) -> None:
    check_inputs(inputs)
    check_speaking(speaking)
    check_whole("delay", delay, 0)
    check_whole("local_steps", local_steps, 1)
