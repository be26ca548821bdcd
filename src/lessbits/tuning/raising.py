"""Practical step sizes that are raised in trial runs, as far as these get faster.

The analysis knows the curvature of the worst node alone, and is careful about noise. So what it predicts is only where
a search starts: one step size after the other is moved by a factor, as long as a trial run gets faster. Nodes do not
know the solution. They judge a trial by f(x̄) + (μ/2)·disagreement, which is smallest where all agree on the solution.
Of two runs the faster is the one that stays first below what both reach. Averages of vectors that nodes need for this
are counted, as float32 numbers on the links of a tree.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.methods.base import Method
from lessbits.methods.choosing import ChosenWith
from lessbits.methods.request import MethodRequest
from lessbits.problems import Outside
from lessbits.problems.curvature import felt_curvature
from lessbits.tuning.stability import STABILITY_ITERATIONS, Trial, halve_until_stable, try_step_sizes

RAISING_ITERATIONS = 500  # of a trial
LONG_ITERATIONS = 2000  # of the last trials, where a run is slow
MOST_MOVES = 16  # trials of one length besides the first
AVERAGED_BITS = 32  # of a coordinate in an average of all nodes
FAR, NEAR = 4.0, 2.0  # factors: θ first moves far
END = 0.1  # share of the records at the end whose largest value is what a run has come to
SLOWER = 1.1  # by which a run may be slower if its step sizes are half as large: they are safer
SETTLED = 1e-6  # share of all changes that is left when a run has come to its end
RISING = 2.0  # growth of the squared disagreement from the second quarter of a run to its end
ROUNDING = 1e-5  # of a loss in float32; in float64 the square of it


def measure_curvature(kind: type[Method], request: MethodRequest) -> tuple[MethodRequest, ChosenWith]:
    """Return the request with the curvature of the mean loss, for methods that are raised, and the cost of it."""
    if not _can_raise(kind, request):
        return request, ChosenWith()
    problem = request.problem
    if isinstance(problem, PartitionedProblem):
        curvature, averaged = felt_curvature(problem.here, problem.transport)
    else:
        curvature, averaged = felt_curvature(problem)
    felt = min(max(curvature, problem.typical_convexity), problem.smoothness)
    return replace(request, felt_convexity=felt), _averages(request, averaged)


def raise_step_sizes(
    kind: type[Method], request: MethodRequest, method: Method, seed: int, spent: ChosenWith
) -> tuple[Method, ChosenWith]:
    """Move step sizes that were not given while trial runs get faster, and return the best, and the cost so far.

    In the end, longer trials must be stable too, and smaller step sizes are taken if
    they are faster there, or hardly slower.
    """
    search, first = _Search(kind, request, seed, spent), kind.step_size_names[0]
    best = search.start(method, RAISING_ITERATIONS)
    for name, factor in ((first, FAR), ("momentum", NEAR), ("eta", NEAR), (first, NEAR), ("alpha", FAR)):
        best = search.climb(best, name, (factor, 1 / factor))
    best = search.start(best, STABILITY_ITERATIONS)
    if not settled(search.merit):
        best = search.start(best, LONG_ITERATIONS)
    if "momentum" not in kind.step_size_names:  # else long steps and momentum belong together
        best = search.climb(best, "eta", (1 / NEAR,))
    smaller = move(best, first, 1 / NEAR, search.free)
    if smaller is not None and search.is_better(smaller, SLOWER):
        best = search.climb(smaller, first, (1 / NEAR,))
    return best, search.spent


def _can_raise(kind: type[Method], request: MethodRequest) -> bool:
    """Return whether trial runs can be compared: with full gradients, without faults, where losses are known.

    For an average of vectors there is nothing to raise: all nodes have the same curvature, and the analysis is right.
    """
    problem = request.problem
    here = problem.here if isinstance(problem, PartitionedProblem) else problem
    comparable = problem.has_losses and not (problem.averages or problem.endless or isinstance(here, Outside))
    return kind.raised and comparable and request.gradients.option == "B" and request.faults is None


def _averages(request: MethodRequest, count: int) -> ChosenWith:
    """Return the cost of averages of vectors over all nodes: up a tree, and down again."""
    return ChosenWith(bits_per_link=float(count * AVERAGED_BITS * request.problem.dim))


class _Search:
    """Trial runs of one request, and the merit of the best so far."""

    def __init__(self, kind: type[Method], request: MethodRequest, seed: int, spent: ChosenWith) -> None:
        self.kind, self.request, self.seed, self.spent = kind, request, seed, spent
        derived = {size.name for size in kind.step_sizes if size.derived}
        self.free = kind.undecided(request) | (derived - set(request.given))
        self.merit, self.rising, self.left, self.iterations = np.zeros(1), False, MOST_MOVES, RAISING_ITERATIONS

    def start(self, method: Method, iterations: int) -> Method:
        """Return the first step sizes that are stable in trials of this length, which the next ones have too."""
        self.iterations, self.left = iterations, MOST_MOVES
        found = halve_until_stable(self.kind, self.request, method, self.seed, self.spent, iterations)
        self.spent = found.spent
        self.merit, self.rising = self._merit(found.trial), rises(found.trial.disagreements)
        return found.method

    def climb(self, best: Method, name: str, factors: Sequence[float]) -> Method:
        """Move one step size by the first factor while trials get faster or, if it never does, by the next."""
        moved = best
        for factor in factors:
            while self.left and (candidate := move(moved, name, factor, self.free)) is not None:
                if not self.is_better(candidate):
                    break
                moved = candidate
            if moved is not best:
                break
        return moved

    def is_better(self, method: Method, slower: float = 1.0) -> bool:
        """Try step sizes, and return whether they are better than the best so far; then they are the best."""
        self.left -= 1
        request = self.request
        trial = try_step_sizes(request.problem, request.network, method, self.seed, None, self.iterations)
        self.spent = self.spent.plus(trial.cost)
        merit, rising = self._merit(trial), rises(trial.disagreements)
        better = faster(merit, self.merit, slower) if rising == self.rising else self.rising
        if not trial.stable or not better:
            return False
        self.merit, self.rising = merit, rising
        return True

    def _merit(self, trial: Trial) -> np.ndarray:
        """Return what a trial is judged by, at each record, and count what nodes average for it."""
        assert self.request.felt_convexity is not None
        self.spent = self.spent.plus(_averages(self.request, len(trial.losses)))
        return trial.losses + self.request.felt_convexity / 2 * trial.disagreements


def rises(disagreements: np.ndarray) -> bool:
    """Return whether nodes are further apart in the end than in the second quarter of a run, whatever they do between.

    Such a run loses to one in which they are not. Where messages are coarse, they may be so for a moment.

    >>> rises(0.9 ** np.arange(100)), rises(0.9 ** np.arange(100) + 1e-4 * 1.1 ** np.arange(100))
    (False, True)
    """
    count = len(disagreements)
    last = float(disagreements[count - max(1, int(END * count)) :].max())
    before = float(disagreements[count // 4 : count // 2].max(initial=0.0))
    return last > max(RISING * before, ROUNDING**2 * float(disagreements.max()))


def settled(merit: np.ndarray) -> bool:
    """Return whether the first half of a run has all but a millionth of its changes, or what rounding leaves.

    >>> settled(0.5 ** np.arange(100)), settled(0.99 ** np.arange(100))
    (True, False)
    """
    resolution = max(SETTLED, _resolution(merit))
    return bool(np.ptp(merit[len(merit) // 2 :]) <= resolution * np.ptp(merit))


def _resolution(merit: np.ndarray) -> float:
    return ROUNDING if merit.dtype == np.float32 else ROUNDING**2


def faster(new: np.ndarray, old: np.ndarray, slower: float = 1.0) -> bool:
    """Return whether one run is below what both come to, and stays there, before another is.

    With `slower` it may take as many times as long. A run that came to its end in its first half, and ended higher than
    the other by more than rounding, has stalled: it loses.

    >>> slow, fast = 0.9 ** np.arange(50), 0.8 ** np.arange(50)
    >>> faster(fast, slow), faster(slow, fast), faster(slow, slow)
    (True, False, False)
    """
    if not np.isfinite(new).all():
        return False
    ends = [float(values[-max(1, int(END * len(values))) :].max()) for values in (new, old)]
    rounding = _resolution(new) * float(np.ptp(old))
    below = [np.flatnonzero(values > max(ends) + rounding).max(initial=-1) for values in (new, old)]
    higher = int(ends[1] > ends[0])
    if abs(ends[0] - ends[1]) > rounding and below[higher] < len(new) // 2:
        return higher == 1
    return bool(below[0] < slower * below[1])


def move(method: Method, name: str, factor: float, free: set[str]) -> Method | None:
    """Return the method with a step size moved, and others that depend on it; None if nothing changes.

    θ moves opposite to η, as the stability of the dual step depends on their product. Where 1 - β moves, η moves
    opposite to it: gradient steps may be longer with more momentum.
    """
    if name not in free or name not in method.step_size_names:
        return None
    sizes = {each: float(getattr(method, each)) for each in method.step_size_names}
    size, kind = sizes[name], method.step_size(name).kind
    changed = {name: size * factor}
    if kind == "memory":
        changed = {name: min(1.0, size * factor)}
    elif kind == "momentum":
        factor = min(factor, 1 / (1 - size))
        changed = {name: 1 - (1 - size) * factor, "eta": sizes["eta"] / factor}
    if "eta" in changed and "theta" in sizes:
        changed["theta"] = sizes["theta"] * sizes["eta"] / changed["eta"]
    changed = {each: new for each, new in changed.items() if each in free and new != sizes[each]}
    return replace(method, **changed) if name in changed else None  # type: ignore[type-var]
