"""The search for schedules: L-BFGS over the step sizes and spacings of all iterations, for several numbers of them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.quick_programs import quick_jit
from lessbits.theory.schedule_modes import Modes, Schedule, course, entropies, expected_course, smooth_entropy

LEAST_ROOM = 0.02  # share of the target that is left to the noise at least
STARTED_ROOM = 0.9  # share of the target above which the error from the start is penalized
PENALTY = 50.0  # for that, and for levels that are too large, in kbit per factor e at least
DEARER = 5.0  # how much more than what this factor takes in iterations the penalty is at least
LEVEL_BITS = 2.0  # of a coordinate of a message, about
SHARES = (0.55, 0.25, 0.1)  # of the iterations that constant step sizes need: where searches start
LONGER = (1.0, 2.0)  # where they start if no schedule that is found reaches the target
LATE, HELD_BACK = 0.1, 2.0  # factors e by which target and levels may be missed: the first is met in the end
STEPS = (120, 600)  # of L-BFGS: for each number of iterations, and at the end
FLATNESS = 1e-6  # relative decrease of the bits at which L-BFGS ends
LENGTHS = (0.7, 1.4, 0.87, 1.15)  # factors on the number of iterations that are tried in turn
LONGEST = 500  # iterations of a schedule
DEVIATIONS = 2.0  # standard deviations of the error, as a margin
WORSE = 1.2  # factor of the bits that the margin may cost
OCTAVE_STEPS = 16  # spacings in an octave, as `fading` has them
BOUNDS = ((-12.0, 0.0), (-12.0, 0.0), (-6.0, 8.0), (-60.0, 20.0))  # of the rows of a point


def find_schedule(modes: Modes, target: float, header: float, most_level: float) -> Schedule:
    """Return the schedule with the fewest bits for which the model expects a squared error below `target`.

    Every iteration is stable by itself: η ≤ 1/L and ηθ ≤ 1/λ_max. So the run does not explode where the model is wrong.
    On rings this costs no bits.

    Args:
        modes: The modes.
        target: E‖x_i - x*‖² to reach, mean over the nodes.
        header: Bits of a message besides its levels.
        most_level: The largest level of a message. A quantizer takes a coarser grid than the schedule's beyond it.
    """
    with jax.enable_x64(True):
        search = _Search(modes, target, header, most_level)
        best = search.best_from(SHARES)
        if best.missed > 1:  # with limits from the start, L-BFGS finds schedules that are a tenth worse
            search.limit = search.finest
            best = min(search.best_from(SHARES), search.best_from(LONGER), key=_cost)
        # Errors of runs vary: they should be below the target in nearly all.
        expected = expected_course(modes, search.schedule(best.point))
        search.target = target * target / (target + DEVIATIONS * expected.deviation)
        end = search.descend(best.point, STEPS[1])
        if end.cost > WORSE * best.cost:  # the lower target has led L-BFGS astray
            search.target, end = target, best
        return _on_grid(modes, search.schedule(end.point), target)


class _Found(NamedTuple):
    """A point, its cost, and how far it misses its limits: too far above 1."""

    cost: float
    missed: float
    point: np.ndarray


def _cost(found: _Found) -> float:
    return found.cost


class _Search:
    """Schedules as points: rows log(ηL), log(ηθλ_max), log-odds of α, and log Δ up to a common factor."""

    def __init__(self, modes: Modes, target: float, header: float, most_level: float) -> None:
        self.modes = Modes(*(jnp.asarray(each) for each in modes))  # type: ignore[arg-type]
        self.target, self.header = target, header
        # The largest of d normal numbers is about √(2 ln d) deviations, hardly ever one more.
        self.finest = math.log(most_level / (math.sqrt(2 * math.log(max(modes.dim, 2))) + 1))
        self.limit = math.inf  # of log(σ/Δ)
        self.smoothness, self.largest = float(modes.curvature.max()), float(modes.eigenvalue.max())
        self.connected = float(modes.eigenvalue[modes.eigenvalue > 0].min() / self.largest)
        conditioned = max(float(modes.curvature.min() / self.smoothness), 4 / LONGEST)
        self.fold = 1 / (2 * min(math.sqrt(self.connected), conditioned))  # iterations for a factor e of the error
        kbit = self.fold * (LEVEL_BITS * modes.dim + header) / 1000
        self.penalty = max(PENALTY, DEARER * kbit)
        self.table = jnp.asarray(entropies())
        self.judge = quick_jit(jax.value_and_grad(self.cost, has_aux=True))

    def start(self, share: float) -> np.ndarray:
        """Return a point to start from: Nesterov's method for the network, for a share of what it needs."""
        momentum = min(1.0, 2 * math.sqrt(self.connected))
        first = float(self.modes.dim * jnp.max(self.modes.start**2))
        folds = math.log(max(first / self.target, math.e))
        count = min(max(2, round(share * folds * self.fold)), LONGEST)
        levels = math.log(max(momentum, 1e-3)), math.log(0.9), -1.0
        return np.array([*(np.full(count, level) for level in levels), np.linspace(0, -folds / 2, count)])

    def sizes(self, point: Any) -> tuple[jax.Array, ...]:
        """Return θ, η, α and log Δ of each iteration."""
        eta, dual, odds, spacing = point
        eta = jnp.exp(eta) / self.smoothness
        return jnp.exp(dual) / (eta * self.largest), eta, jax.nn.sigmoid(odds), spacing

    def cost(self, point: jax.Array, count: jax.Array, target: Any, limit: Any) -> tuple[jax.Array, jax.Array]:
        """Return kbit per link of the first `count` iterations, with the spacings that the target asks for.

        A target that is missed adds to it, and so do log(σ/Δ) above `limit`. How far the target and the limit of
        quantizers are missed is returned, too: above 1 if it is too far.
        """
        sizes = self.sizes(point)
        *squares, first, second = course(self.modes, sizes, count)
        started, noisy = (self.error(each) for each in squares)
        square = room(started, target) / noisy
        ratio = 0.5 * jnp.log(first + square * second) - (sizes[3] + 0.5 * jnp.log(square))[:, None]
        bits = self.modes.dim * smooth_entropy(ratio, self.table) @ self.modes.links + self.header
        here = jnp.arange(point.shape[1]) < count
        late = jnp.maximum(jnp.log(started / (STARTED_ROOM * target)), 0)

        def beyond(most: Any) -> jax.Array:
            return jnp.sum(jnp.where(here, jnp.maximum(ratio - most, 0).max(axis=1), 0))

        cost = jnp.sum(jnp.where(here, bits, 0)) / 1000 + self.penalty * (late + beyond(limit))
        return cost, late / LATE + beyond(self.finest) / HELD_BACK

    def error(self, squares: jax.Array) -> jax.Array:
        """Return E‖x_i - x*‖² from the mean squares of coordinates of each mode."""
        return self.modes.dim * jnp.sum(self.modes.share * squares)

    def best_from(self, shares: Sequence[float]) -> _Found:
        """Return the best that is found from some starts, with more and with fewer iterations."""
        best = min((self.descend(self.start(share), STEPS[0]) for share in shares), key=_cost)
        for factor in LENGTHS:
            while True:
                length = best.point.shape[1]
                changed = min(max(1, round(length * factor)), LONGEST)
                tried = self.descend(_stretched(best.point, changed), STEPS[0]) if changed != length else best
                if tried.cost >= best.cost:
                    break
                best = tried
        return best

    def descend(self, point: np.ndarray, steps: int) -> _Found:
        """Return what L-BFGS finds in so many steps."""
        from scipy.optimize import minimize

        rows, count = point.shape
        # Programs are compiled for powers of two only: iterations beyond `count` have no effect.
        padded = np.pad(point, ((0, 0), (0, 2 ** math.ceil(math.log2(count)) - count)), mode="edge")
        lower, upper = (np.array(side)[:, None] for side in zip(*BOUNDS, strict=True))

        def judged(flat: np.ndarray) -> tuple[float, np.ndarray]:
            padded[:, :count] = flat.reshape(rows, count)
            (cost, _), slope = self.judge(padded, count, self.target, self.limit)
            if not (np.isfinite(cost) and np.isfinite(slope).all()):
                return 1e9, np.zeros_like(flat)
            return float(cost), np.asarray(slope)[:, :count].ravel()

        options = {"maxiter": steps, "maxcor": 20, "maxfun": 2 * steps, "ftol": FLATNESS}
        limits = [limit for limit in BOUNDS for _ in range(count)]
        start = np.clip(point, lower, upper).ravel()
        end = minimize(judged, start, jac=True, method="L-BFGS-B", bounds=limits, options=options)
        padded[:, :count] = end.x.reshape(rows, count)
        (cost, missed), _ = self.judge(padded, count, self.target, self.limit)
        return _Found(float(cost), float(missed), padded[:, :count].copy())

    def schedule(self, point: np.ndarray) -> Schedule:
        """Return the schedule of a point."""
        sizes = self.sizes(jnp.asarray(point))
        started, noisy = (self.error(each) for each in course(self.modes, sizes, jnp.asarray(point.shape[1]))[:2])
        factor = jnp.sqrt(room(started, self.target) / noisy)
        return Schedule(*(np.asarray(each) for each in (*sizes[:3], factor * jnp.exp(sizes[3]))))


def _on_grid(modes: Modes, schedule: Schedule, target: float) -> Schedule:
    """Round the spacings to the values that quantizers have; all are made a little finer until the target is kept."""
    for lowered in np.arange(0, 1, 1 / 4):
        steps = np.round(OCTAVE_STEPS * np.log2(schedule.spacing) - lowered)
        rounded = schedule._replace(spacing=2 ** (steps / OCTAVE_STEPS))
        expected = expected_course(modes, rounded)
        if expected.error + DEVIATIONS * expected.deviation <= target:
            break
    return rounded


def room(started: jax.Array, target: Any) -> jax.Array:
    """Return the error that is left to the noise: the target less the error from the start, but above zero."""
    least, left = LEAST_ROOM * target, target - started
    return jnp.where(left > least, left, least * jnp.exp(jnp.clip(left / least - 1, -50, 0)))


def _stretched(point: np.ndarray, length: int) -> np.ndarray:
    """Return the same course in another number of iterations."""
    old, new = (np.linspace(0, 1, count) for count in (point.shape[1], length))
    return np.array([np.interp(new, old, row) for row in point])
