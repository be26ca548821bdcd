"""Search for step sizes on log grids, which grow while the best value is at an edge."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Unpack

import numpy as np

from lessbits._internal.hashing import fingerprint
from lessbits._internal.keyword_options import takes_options
from lessbits.engines.schedule import record_interval
from lessbits.engines.simulate.sweep import Budget, Outcome, SweepOptions, sweep
from lessbits.errors import InputError
from lessbits.methods.base import Method
from lessbits.networks import Network
from lessbits.problems.base import Problem
from lessbits.tuning.grid import GridSpec, extended, make_axes
from lessbits.tuning.options import TuneKeywords, TuneOptions
from lessbits.tuning.records import Records

NEAR = 2  # values on each side of the best along the other axes when a grid grows
MOST_ITERATIONS = 10_000  # of a run without a budget
MOST_GROWTH = 8  # how often a grid grows in each direction


@dataclass(frozen=True)
class Candidate:
    """Step sizes, and the outcomes of the runs with them, one per seed."""

    sizes: dict[str, float]
    outcomes: list[Outcome]

    @property
    def reached(self) -> bool:
        """Whether every run reached the target."""
        return all(outcome.reached for outcome in self.outcomes)

    @property
    def diverged(self) -> bool:
        """Whether any run diverged."""
        return any(outcome.diverged for outcome in self.outcomes)

    @property
    def cut(self) -> bool:
        """Whether any run was stopped because others had won."""
        return any(outcome.cut for outcome in self.outcomes)

    def mean(self, name: str) -> float:
        """Return the mean of a field of the outcomes over the seeds."""
        return float(np.mean([getattr(outcome, name) for outcome in self.outcomes]))

    def row(self) -> dict[str, Any]:
        """Return the candidate as a row of a table."""
        ended = "reached" if self.reached else "diverged" if self.diverged else "beaten" if self.cut else "ended"
        encoded = ("wire_bits_per_link",) if all(outcome.encoded for outcome in self.outcomes) else ()
        columns = ("iterations", "value", "error", "bits_per_link", *encoded, "epochs")
        spent = {name: self.mean(name) for name in columns}
        return {**self.sizes, "ended": ended, **spent}


@dataclass(frozen=True)
class Tuning:
    """The result of a search.

    Attributes:
        method: The method with the best step sizes.
        candidates: All step sizes that were tried, with their outcomes, from best to worst.
        notes: Remarks about the grid, such as a best value at an edge.
        budget: When each run ended.
        aim: What was minimized: "iterations", "bits" or "value".
    """

    method: Method
    candidates: list[Candidate]
    notes: list[str]
    budget: Budget
    aim: str

    def __repr__(self) -> str:
        """Show the number of candidates and the best one."""
        return f"Tuning(best of {len(self.candidates)}: {self.best.row()})"

    @property
    def best(self) -> Candidate:
        """The best candidate."""
        return self.candidates[0]

    def rows(self) -> list[dict[str, Any]]:
        """Return all candidates as rows of a table, from best to worst."""
        return [candidate.row() for candidate in self.candidates]


@takes_options(TuneOptions)
def tune(
    problem: Problem,
    network: Network,
    method: Method,
    grid: GridSpec | None = None,
    **options: Unpack[TuneKeywords],
) -> Tuning:
    """Search a method's step sizes for the fewest iterations or bits to a target, or the lowest value in a budget.

    Args:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        method: The method. Step sizes that are not searched are not changed.
        grid: Maps names of step sizes to the values to try, or to None for a log grid around the method's own value. By
            default the method's first step size is searched.
        **options: The fields of `TuneOptions`: aim, until, goal, budgets, seeds and so on.

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=10, dim=5), lessbits.make_network("star", nodes=10)
        >>> method = lessbits.primal_dual(problem, network, "exact", theta=1, eta=1)
        >>> found = lessbits.tune(problem, network, method, {"theta": [0.5, 1.0, 1.5]}, until=1e-3, grow=False)
        >>> found.best.sizes
        {'theta': 1.5}
    """
    if not isinstance(grid, Mapping | None):
        raise InputError(f"the grid is {grid!r}, but it maps names of step sizes to values, or to None")
    asked = TuneOptions(**options).checked()
    axes = make_axes(method, grid or dict.fromkeys(method.step_size_names[:1]), asked.per_decade)
    needed = _needed(method, problem, asked.epochs, asked.bits)
    iterations = asked.iterations
    if iterations is None:
        iterations = MOST_ITERATIONS if needed is None else 2 * needed
    budget = Budget(iterations, asked.epochs, asked.bits, asked.until, asked.goal)
    if asked.record_every is None:
        every = record_interval(method, problem, min(iterations, needed or iterations))
        asked = replace(asked, record_every=every)
    shared = _unswept(method, axes)
    identity = fingerprint(problem, network, shared, budget, asked.record_every, asked.aim == "bits")
    return _Search(problem, network, method, axes, budget, asked, Records(asked.out, identity)).run()


def _needed(method: Method, problem: Problem, epochs: float | None, bits: float | None) -> int | None:
    """Return about how many iterations spend a budget of epochs or bits. Return None without a budget."""
    ends = [] if epochs is None else [epochs / method.passes(problem)]
    if bits is not None:
        ends.append(bits / sum(compressor.bits(problem.dim) for compressor in method.compressors))
    return max(1, math.ceil(min(ends))) if ends else None


def _unswept(method: Method, axes: Mapping[str, Any]) -> Method:
    """Return the method with the searched step sizes set to one, which is the same for all candidates."""
    return replace(method, **dict.fromkeys(axes, 1.0))  # type: ignore[type-var]


@dataclass
class _Search:
    problem: Problem
    network: Network
    method: Method
    axes: dict[str, list[float]]
    budget: Budget
    options: TuneOptions
    records: Records
    grid: list[dict[str, float]] = field(default_factory=list)  # all candidates so far

    @property
    def aim(self) -> str:
        """What is minimized."""
        assert self.options.aim is not None
        return self.options.aim

    def run(self) -> Tuning:
        """Run the grid, and let it grow until its best value is not at an edge."""
        notes: list[str] = []
        grow = self.options.grow
        grown: dict[tuple[str, int], int] = {}
        self.grid = [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]
        while True:
            candidates = self._sweep()
            beside = self._untried_neighbours(candidates[0].sizes)
            if grow and beside:
                self.grid += beside
                continue
            edges = self._edges(candidates)
            more = [edge for edge in edges if grow and grown.get(edge, 0) < MOST_GROWTH]
            if not more:
                break
            for name, side in more:
                grown[name, side] = grown.get((name, side), 0) + 1
                self.grid += self._grow(name, side, candidates[0].sizes)
        for name, side in edges:
            where = "smallest" if side < 0 else "largest"
            why = "the grid may not grow" if not grow else f"the grid has grown {MOST_GROWTH} times"
            notes.append(f"the best {name} is the {where} tried, and {why}: a better one may lie beyond")
        if self.aim != "value" and not candidates[0].reached and not candidates[0].diverged:
            notes.append(f"none reached {self.budget.goal} {self.budget.until:g}: ranked by what they came to")
        best = replace(self.method, **candidates[0].sizes)  # type: ignore[type-var]
        return Tuning(best, candidates, notes, self.budget, self.aim)

    def _grow(self, name: str, side: int, best: Mapping[str, float]) -> list[dict[str, float]]:
        """Return candidates beyond an edge, near the best along the other axes, and add the new values to the axis."""
        longer = extended(self.axes[name], side)
        ranges = {}
        for other, values in self.axes.items():
            at = values.index(best[other])
            ranges[other] = values[max(0, at - NEAR) : at + NEAR + 1]
        ranges[name] = [value for value in longer if value not in self.axes[name]]
        self.axes[name] = longer
        return [dict(zip(ranges, values, strict=True)) for values in product(*ranges.values())]

    def _untried_neighbours(self, best: Mapping[str, float]) -> list[dict[str, float]]:
        """Return the candidates next to the best that are not in the grid yet."""
        ranges = {}
        for name, values in self.axes.items():
            at = values.index(best[name])
            ranges[name] = values[max(0, at - 1) : at + 2]
        beside = [dict(zip(ranges, values, strict=True)) for values in product(*ranges.values())]
        return [sizes for sizes in beside if sizes not in self.grid]

    def _sweep(self) -> list[Candidate]:
        """Run the candidates without a known outcome, and return all of them, ranked."""
        for seed in self.options.seeds:
            missing = [sizes for sizes in self.grid if self.records.get(sizes, seed, self._limit(seed)) is None]
            missing.sort(key=self._distance)
            if missing:
                self.options.say(f"{len(missing)} runs, seed {seed}")
                options = SweepOptions(
                    seed=seed,
                    record_every=self.options.record_every,
                    limit=partial(self._limit, seed),
                    finished=self.records.add,
                    width=self.options.width,
                    encoded=self.aim == "bits",
                )
                sweep(self.problem, self.network, self.method, missing, self.budget, options)
        last = {seed: self._limit(seed) for seed in self.options.seeds}
        candidates = [
            Candidate(sizes, [self._final(sizes, seed, last[seed]) for seed in self.options.seeds])
            for sizes in self.grid
        ]
        return sorted(candidates, key=self._rank)

    def _final(self, sizes: dict[str, float], seed: int, limit: int) -> Outcome:
        """Return an outcome as if the limit had been known from the start, so that results do not depend on timing."""
        outcome = self.records.known[self.records.key(sizes, seed)]
        if outcome.iterations < limit or (outcome.iterations == limit and not outcome.cut):
            return outcome
        columns = ("value", "error", "bits_per_link", "wire_bits_per_link", "epochs")
        unknown: dict[str, Any] = dict.fromkeys(columns, np.inf)
        return replace(outcome, reached=False, diverged=False, cut=True, iterations=limit, **unknown)

    def _distance(self, sizes: Mapping[str, float]) -> float:
        """Return the distance from the middle of the grid. Likely winners run first, so that others stop early."""
        total = 0.0
        for name, values in self.axes.items():
            total += abs(values.index(sizes[name]) - (len(values) - 1) / 2)
        return total

    def _limit(self, seed: int) -> int:
        """Return the iteration from which on a run has lost."""
        if self.aim == "value":
            return self.budget.iterations
        outcomes = [self.records.known.get(self.records.key(sizes, seed)) for sizes in self.grid]
        won = [outcome.iterations for outcome in outcomes if outcome is not None and outcome.reached]
        return min([self.budget.iterations, *(int(self.options.margin * count) + 1 for count in won)])

    def _rank(self, candidate: Candidate) -> tuple[float, ...]:
        """Rank candidates that reached the target by what they spent, then the others by what they reached."""
        if self.aim != "value" and candidate.reached:
            return (0, candidate.mean("iterations" if self.aim == "iterations" else "wire_bits_per_link"))
        if candidate.diverged:
            return (3, -candidate.mean("iterations"))
        if candidate.cut:  # with some seeds it may have reached the target
            return (2, -sum(outcome.reached for outcome in candidate.outcomes), candidate.mean("iterations"))
        value = candidate.mean("value")
        return (1, value) if np.isfinite(value) else (2, 0)

    def _edges(self, candidates: list[Candidate]) -> list[tuple[str, int]]:
        """Return the axes and sides where the best candidate is at an edge."""
        best = candidates[0]
        edges = []
        for name, values in self.axes.items():
            if best.diverged and values[0] > 0:
                edges.append((name, -1))  # nothing is stable: try smaller ones
            elif len(values) > 1:
                edges += [(name, side) for side, at in ((-1, 0), (1, -1)) if best.sizes[name] == values[at] > 0]
        return edges
