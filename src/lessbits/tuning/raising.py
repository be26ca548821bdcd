"""Practical step sizes that are raised in trial runs, as far as these get faster.

The analysis knows the curvature of the worst node alone, and is careful about noise. So what it predicts is only where
a search starts: one step size after the other is moved by a factor, as long as a trial run gets faster. Nodes do not
know the solution, nor what they will be asked to reach. They judge a trial (judging.py) by f(x̄), and by f(x̄) +
(μ/2)·disagreement, which is smallest where all agree on the solution. Averages of vectors that nodes need for this are
counted, as float32 numbers on the links of a tree.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.methods.base import Method
from lessbits.methods.choosing import ChosenWith
from lessbits.methods.request import MethodRequest
from lessbits.problems import Outside
from lessbits.problems.curvature import felt_curvature, steepest_curvature
from lessbits.tuning.judging import faster, rises, settled, stuck
from lessbits.tuning.stability import STABILITY_ITERATIONS, Trial, halve_until_stable, try_step_sizes

RAISING_ITERATIONS = 500  # of a trial
LONG_ITERATIONS = 2000  # of the last trials, where a run is slow
MOST_MOVES = 16  # trials of one length besides the first
AVERAGED_BITS = 32  # of a coordinate in an average of all nodes
FAR, NEAR = 4.0, 2.0  # factors: θ first moves far
LONGEST = 1.8  # gradient step, over the curvature at the solution: gradient descent needs less than 2
ALIKE = 1.01  # ratio of curvatures that were measured at nearby points
SLOWER = 1.1  # by which a run may be slower if its step sizes are half as large: they are safer


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
    shorter = search.shorten(best)
    if shorter is not best or not settled(search.measures[0]):
        best = search.start(shorter, LONG_ITERATIONS)
        best = search.climb(best, "momentum", (1 / NEAR,))  # more of it pays in long runs
    best = search.climb(best, "eta", (1 / NEAR,))
    shorter = search.shorten(best)  # smaller steps may have come nearer to the solution
    if shorter is not best:
        best = search.start(shorter, search.iterations)
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
    """Trial runs of one request, and what was measured in the best so far."""

    def __init__(self, kind: type[Method], request: MethodRequest, seed: int, spent: ChosenWith) -> None:
        self.kind, self.request, self.seed, self.spent = kind, request, seed, spent
        derived = {size.name for size in kind.step_sizes if size.derived}
        self.free = kind.undecided(request) | (derived - set(request.given))
        self.measures, self.apart = np.zeros((2, 1)), False
        self.left, self.iterations = MOST_MOVES, RAISING_ITERATIONS
        self.lowest, self.point = 0.0, np.zeros(request.problem.dim)  # losses are less that at the origin

    def start(self, method: Method, iterations: int) -> Method:
        """Return the first step sizes that are stable in trials of this length, which the next ones have too."""
        self.iterations, self.left = iterations, MOST_MOVES
        found = halve_until_stable(self.kind, self.request, method, self.seed, self.spent, iterations)
        self.spent = found.spent
        self.measures, self.apart = self._measures(found.trial), self._stays_apart(found.trial)
        return found.method

    def shorten(self, best: Method) -> Method:
        """Return the method with gradient steps that are not too long where the trial with the lowest loss ended.

        Losses may be flatter on the way than at the solution. There a node whose steps are too long swings for ever,
        so little that a trial may not show it. It swings to where its loss is just flat enough for its steps, so a
        trial that swings says little of the solution. With momentum this bound does not hold.
        """
        if "momentum" in self.kind.step_size_names:
            return best
        problem = self.request.problem
        if isinstance(problem, PartitionedProblem):
            curvature = steepest_curvature(problem.here, self.point, problem.transport)
        else:
            curvature = steepest_curvature(problem, self.point)
        length = curvature * float(best.eta)  # type: ignore[attr-defined]
        shorter = move(best, "eta", LONGEST / length, self.free) if length > ALIKE * LONGEST else None
        return shorter or best

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
        measures, apart = self._measures(trial), self._stays_apart(trial)
        better = faster(measures, self.measures, slower) if apart == self.apart else self.apart
        if not trial.stable or not better:
            return False
        self.measures, self.apart = measures, apart
        return True

    def _stays_apart(self, trial: Trial) -> bool:
        """Return whether nodes do not come together. In short trials of slow runs they still leave a common start."""
        long = self.iterations > RAISING_ITERATIONS
        return rises(trial.disagreements) or (long and stuck(trial.disagreements))

    def _measures(self, trial: Trial) -> np.ndarray:
        """Return what a trial is judged by, at each record, and count what nodes average for it."""
        assert self.request.felt_convexity is not None
        if float(trial.losses[-1]) < self.lowest:
            self.lowest, self.point = float(trial.losses[-1]), np.asarray(trial.x).mean(axis=0)
        self.spent = self.spent.plus(_averages(self.request, len(trial.losses)))
        return np.stack([trial.losses + self.request.felt_convexity / 2 * trial.disagreements, trial.losses])


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
