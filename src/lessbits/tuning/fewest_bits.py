"""Search for the fewest bits over methods, quantizers, messages and step sizes, in three stages.

1. Estimate the bits of all choices that can be predicted (estimates.py).
2. Run the best of these with practical step sizes, and the other methods with several quantizers.
3. Refine the winners: try slightly coarser and finer quantizers, and step sizes around theirs.

Practical step sizes come from short trials, so they may be off on ill-conditioned problems.
There the search of step sizes starts with a wider range, and includes `accelerated` and `proximal`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lessbits._internal.hashing import fingerprint
from lessbits.engines.simulate.sweep import Budget, Outcome, SweepOptions, sweep
from lessbits.errors import InputError
from lessbits.methods.base import Method
from lessbits.methods.common import ill_conditioned
from lessbits.methods.registry import all_methods, find_method
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.problems.computed import loss_marks
from lessbits.tuning.attempts import LOST, Attempt, moved, neighbours, with_levels
from lessbits.tuning.estimates import (
    FIRST_SPACING,
    Choice,
    Constraints,
    estimate_bits,
    fading_choices,
    moved_distance,
    predictable_choices,
)
from lessbits.tuning.records import Records, stored_in
from lessbits.tuning.runs import as_if_limited

RUN = 3  # choices of primal-dual of each kind (scaled or fading) that are run after the first stage
REFINED = 2  # choices of other methods that are refined after the second stage
AROUND = (-2, -1, 0, 1, 2)  # offsets from a step size, in tenths of a decade
FAR = (-10, -5, 0, 5, 10)  # likewise, where practical step sizes may be far off
SHRINKS = (2, 4, 8)  # factors e^-s by which spacings of `fading` shrink in the time of the best run so far
PASSES = 4  # at most, over all step sizes, while they improve
MOST_ITERATIONS = 10_000


@dataclass
class FewestBits:
    """A search for the fewest bits to a target.

    Attributes:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        until: The target value of the goal.
        goal: What `until` is compared with: "error", "suboptimality" or "consensus".
        seeds: Seeds that every choice is run with.
        iterations: Largest number of iterations of a run.
        progress: Callback that takes lines about what is being run.
        option: The gradients: "A", "B", "C" or "D".
        batch_size: Samples of a stochastic gradient.
        out: Folder where every outcome is stored. A later search for the same target reuses them.
        refused: Errors of the choices that could not be run.
        tried: All attempts so far, by choice and step sizes.
    """

    problem: Problem
    network: Network
    until: float
    goal: str = "error"
    seeds: Sequence[int] = (0,)
    iterations: int = MOST_ITERATIONS
    progress: Callable[[str], None] | None = None
    option: str = "B"
    batch_size: int = 1
    out: Path | None = None
    refused: list[InputError] = field(default_factory=list)
    tried: dict[tuple[Any, ...], Attempt] = field(default_factory=dict)

    def search(self, methods: Sequence[str] | None = None, kept: Constraints | None = None) -> list[Attempt]:
        """Estimate, run and refine; return all attempts, best first.

        Args:
            methods: Names of the methods to search; by default those that may send the fewest bits.
            kept: What the search must not change.
        """
        kept = (kept or Constraints())._replace(option=self.option, batch_size=self.batch_size)
        kinds = [find_method(name) for name in methods] if methods else self._candidates(kept)
        if self.out is not None:
            self._say(stored_in(self.out))
        for kind in kinds:
            try:
                if kind.predictable:
                    self._predicted(kind, kept)
                elif kind.for_target:
                    self._for_target(kind, kept.quantizer)
                elif kind.guarded:
                    self._guarded(kind, kept.quantizer)
                else:
                    self._other(kind, kept.quantizer)
            except InputError as error:  # the method cannot use the quantizer; others may
                self.refused.append(error)
        if not self.tried:
            raise self.refused[0]
        return self.ranked()

    def ranked(self) -> list[Attempt]:
        """Return all attempts so far, best first."""
        return sorted(self.tried.values(), key=lambda each: each.rank)

    def _candidates(self, kept: Constraints) -> list[type[Method]]:
        """Return the methods to search if none are named."""
        kinds = [kind for kind in all_methods() if kind.may_send_fewest_bits(self.problem)]
        kinds = [kind for kind in kinds if self.network.is_star or not kind.needs_star]
        if self.goal != "error":  # which targets of methods are
            kinds = [kind for kind in kinds if not kind.for_target]
        return [kind for kind in kinds if kind.predictable] if kept.binds_messages() else kinds

    def _predicted(self, kind: type[Method], kept: Constraints) -> None:
        """Search a method that the mean-square analysis covers: run the choices with the best predictions."""
        groups = [predictable_choices(kind.name, self.problem.dim, kept)]
        if kept.quantizer is None:
            groups.append(fading_choices(kind.name, self.problem, self.network, kept))
        self._say(f"{kind.name}: what {sum(map(len, groups))} choices of quantizer and messages may need")
        for choices in filter(None, groups):
            promising = [each.choice for each in estimate_bits(self.problem, self.network, 1e6, choices)[:RUN]]
            self._say(f"{kind.name}: {len(promising)} runs with practical step sizes")
            best = min((self.run(choice) for choice in promising), key=lambda each: each.rank)
            near = [] if kept.quantizer else neighbours(best.choice)
            self._say(f"{kind.name}: {len(near)} runs with a coarser or finer quantizer")
            best = min([best, *(self.run(choice) for choice in near)], key=lambda each: each.rank)
            self.refine(best, kind.step_size_names, FAR if ill_conditioned(self.problem) else ())

    def _guarded(self, kind: type[Method], quantizer: str | None) -> None:
        """Search a method that detects too large steps by itself: the quantizer matters most."""
        names = kind.quantizers_to_try(self.problem.dim) if quantizer is None else [quantizer]
        self._say(f"{kind.name}: {len(names)} runs")
        best = min((self.run(self._choice(kind.name, name)) for name in names), key=lambda each: each.rank)
        if quantizer is None:
            near = with_levels(best.choice.quantizer, (0.5, 0.63, 0.8, 1.25, 1.6, 2))
            self._say(f"{kind.name}: {len(near)} runs with a coarser or finer quantizer")
            others = [self.run(self._choice(kind.name, name)) for name in near]
            best = min([best, *others], key=lambda each: each.rank)
        self.refine(best, kind.step_size_names)

    def _for_target(self, kind: type[Method], quantizer: str | None) -> None:
        """Run a method that is made for the target: there is nothing to refine."""
        names = kind.quantizers_to_try(self.problem.dim) if quantizer is None else [quantizer]
        self._say(f"{kind.name}: {len(names)} runs")
        for name in names:
            self.run(self._choice(kind.name, name))

    def _other(self, kind: type[Method], quantizer: str | None) -> None:
        """Search any other method: all its step sizes over a wide range, as practical ones may be poor."""
        names = kind.quantizers_to_try(self.problem.dim) if quantizer is None else [quantizer]
        self._say(f"{kind.name}: {len(names)} runs with practical step sizes")
        runs = [self.run(self._choice(kind.name, name)) for name in names]
        best = sorted(runs, key=lambda each: each.rank)
        better = [self.refine(each, tuple(each.sizes), FAR) for each in best[: 2 * REFINED]]
        for each in sorted(better, key=lambda each: each.rank)[:REFINED]:
            near = [self.adopt(choice, each.sizes) for choice in neighbours(each.choice)] if quantizer is None else []
            self.refine(min([each, *near], key=lambda each: each.rank), tuple(each.sizes))
        if quantizer is None and kind.fades:
            self._faded(kind, min(better, key=lambda each: each.rank))

    def _faded(self, kind: type[Method], scaled: Attempt) -> None:
        """Search spacings that fade in about the time that messages with scales need."""
        distance = moved_distance(kind.name, self.problem, self.network, Constraints(option=self.option))
        if scaled.enough is None or distance == 0:
            return
        first, length = FIRST_SPACING * distance, scaled.enough / LOST
        names = [f"fading:{first:.3g}:{max(math.exp(-each / length), 0.5):.5g}" for each in SHRINKS]
        self._say(f"{kind.name}: {len(names)} runs with spacings that fade")
        best = min((self.run(self._choice(kind.name, name)) for name in names), key=lambda each: each.rank)
        best = self.refine(best, tuple(best.sizes), FAR)
        for _ in range(PASSES if best.reached else 0):
            near = [self.adopt(choice, best.sizes) for choice in neighbours(best.choice)]
            finer = self.refine(min([best, *near], key=lambda each: each.rank), tuple(best.sizes))
            if finer is best:
                break
            best = finer

    def _choice(self, method: str, quantizer: str) -> Choice:
        return Choice(method, quantizer, option=self.option, batch_size=self.batch_size)

    def run(self, choice: Choice) -> Attempt:
        """Run a choice with practical step sizes."""
        try:
            method: Any = self._make(choice)
            sizes = {name: float(getattr(method, name)) for name in method.step_size_names}
            return self._sweep(choice, method, [sizes])[0]
        except InputError as error:  # no stable step sizes, or a quantizer that the method cannot use
            self.refused.append(error)
            return Attempt(choice, {}, ())

    def adopt(self, choice: Choice, sizes: dict[str, float]) -> Attempt:
        """Run a choice with the step sizes of another."""
        return self._sweep(choice, self._make(choice, **sizes), [dict(sizes)])[0]

    def _make(self, choice: Choice, **sizes: float) -> Method:
        """Return the method of a choice, for the target if it is made for one."""
        return choice.make(self.problem, self.network, None, self.until if self.goal == "error" else None, **sizes)

    def refine(self, start: Attempt, names: Sequence[str], far: Sequence[int] = ()) -> Attempt:
        """Try step sizes around those of an attempt, one name after the other, and return the best attempt.

        Args:
            start: The attempt to improve.
            names: Step sizes to change.
            far: Offsets to try first, in tenths of a decade.
        """
        best = start
        for offsets in [far, *[AROUND] * PASSES] if far else [AROUND] * PASSES:
            before = best
            for name in names:
                if best.sizes.get(name, 0) > 0:
                    best = min([best, *self._around(best, name, offsets)], key=lambda each: each.rank)
            if best is before and offsets is not far:
                break
        return best

    def _around(self, best: Attempt, name: str, offsets: Sequence[int]) -> list[Attempt]:
        self._say(f"{best.choice.method} with {best.choice.quantizer}: {len(offsets)} values of {name}")
        method = self._make(best.choice, **best.sizes)
        grid = [moved(method, best.sizes, name, offset) for offset in offsets]
        return self._sweep(best.choice, method, grid, best.enough)

    def _sweep(
        self, choice: Choice, method: Method, grid: list[dict[str, float]], enough: int | None = None
    ) -> list[Attempt]:
        """Return the attempts of a grid. Those not known yet are run, for up to `enough` iterations."""
        keys = [(choice, *sorted(sizes.items())) for sizes in grid]
        missing = {key: sizes for key, sizes in zip(keys, grid, strict=True) if key not in self.tried}
        if missing:
            limit = min(self.iterations, enough or self.iterations)
            by_seed = [self._outcomes(method, list(missing.values()), limit, seed) for seed in self.seeds]
            for key, sizes, *outcomes in zip(missing, missing.values(), *by_seed, strict=True):
                self.tried[key] = Attempt(choice, sizes, tuple(outcomes))
        return [self.tried[key] for key in keys]

    def _outcomes(self, method: Method, grid: list[dict[str, float]], limit: int, seed: int) -> list[Outcome]:
        """Return the outcomes of a grid. Those not in the folder are run, and stored there as soon as they end."""
        shared = replace(method, **dict.fromkeys(method.step_size_names, 1.0))  # type: ignore[type-var]
        mark = fingerprint(self._mark, shared, self.iterations, self.until, self.goal)
        records = Records(self.out, mark)
        missing = [sizes for sizes in grid if records.get(sizes, seed, limit) is None]

        def store(outcome: Outcome) -> None:
            # One that was stopped early does not answer for a longer run.
            cut = limit < self.iterations and not (outcome.reached or outcome.diverged)
            records.add(replace(outcome, cut=cut))

        if missing:
            options = SweepOptions(seed, 1, finished=store, encoded=True)
            budget = Budget(limit, until=self.until, goal=self.goal)
            sweep(self.problem, self.network, method, missing, budget, options)
        known = [records.known[records.key(sizes, seed)] for sizes in grid]
        return [outcome if outcome.iterations <= limit else as_if_limited(outcome, limit) for outcome in known]

    @cached_property
    def _mark(self) -> str:
        """The fingerprint of the problem and the network, which all outcomes share."""
        return fingerprint(self.problem, self.network, *loss_marks(self.problem))

    def _say(self, text: str) -> None:
        if self.progress is not None:
            self.progress(text)
