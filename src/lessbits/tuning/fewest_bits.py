"""What sends the fewest bits: methods, quantizers, messages and step sizes, in three stages.

First what is expected (expected.py). The best of these, and `tree` at several finenesses, are then run. The winners are
refined: quantizers a little coarser and finer, and step sizes around theirs. On ill-conditioned problems practical step
sizes may be far off, as they know no more than the worst node's smoothness; so there the search begins farther away,
and tries `accelerated` too.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lessbits.engines.simulate.sweep import Budget, Outcome, SweepOptions, sweep
from lessbits.errors import InputError
from lessbits.methods.base import Method
from lessbits.methods.common import ill_conditioned
from lessbits.methods.registry import all_methods, find_method
from lessbits.networks import Network
from lessbits.problems import Problem
from lessbits.tuning import lattice
from lessbits.tuning.estimates import Choice, Constraints, estimate_bits, fading_choices, predictable_choices

RUN = 3  # choices of primal-dual of each kind, with a scale or fading, that are run after the first stage
REFINED = 2  # choices of other methods that are refined after the second
AROUND = (-2, -1, 0, 1, 2)  # tenths of a decade around a step size
FAR = (-10, -5, 0, 5, 10)  # where practical step sizes may be far off
LOST = 1.5  # times the iterations of another
PASSES = 4  # over all step sizes, while that helps
MOST_ITERATIONS = 10_000


@dataclass(frozen=True)
class Attempt:
    """What a choice needed, one outcome a seed."""

    choice: Choice
    sizes: dict[str, float]
    outcomes: tuple[Outcome, ...]

    @property
    def reached(self) -> bool:
        """Whether every run reached the target; there may be none, if no step sizes are stable."""
        return bool(self.outcomes) and all(outcome.reached for outcome in self.outcomes)

    @property
    def bits(self) -> float:
        """Encoded bits a link, mean over the seeds; infinite if a run did not reach the target."""
        return float(np.mean([outcome.wire_bits_per_link for outcome in self.outcomes])) if self.reached else math.inf

    @property
    def enough(self) -> int | None:
        """Iterations after which a run with the same messages has lost to this one; None if that is not known."""
        return math.ceil(LOST * max(outcome.iterations for outcome in self.outcomes)) if self.reached else None

    @property
    def rank(self) -> tuple[float, float]:
        """Order by bits; those that did not reach the target by how near they came."""
        near = [outcome.value if not outcome.diverged else math.inf for outcome in self.outcomes]
        return self.bits, float(np.mean(near)) if near else math.inf

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table."""
        iterations = float(np.mean([outcome.iterations for outcome in self.outcomes])) if self.outcomes else math.inf
        return {**self.choice._asdict(), **self.sizes, "iterations": iterations, "wire_bits_per_link": self.bits}


@dataclass
class FewestBits:
    """A search for the fewest bits to a target."""

    problem: Problem
    network: Network
    until: float
    goal: str = "error"
    seeds: Sequence[int] = (0,)
    iterations: int = MOST_ITERATIONS
    progress: Callable[[str], None] | None = None
    option: str = "B"
    batch_size: int = 1
    refused: list[InputError] = field(default_factory=list)
    tried: dict[tuple[Any, ...], Attempt] = field(default_factory=dict)

    def search(self, methods: Sequence[str] | None = None, kept: Constraints | None = None) -> list[Attempt]:
        """Estimate, run and refine; return all that was run, best first.

        `methods` are searched, or those that may send the fewest bits; `kept` is not changed.
        """
        kept = (kept or Constraints())._replace(option=self.option, batch_size=self.batch_size)
        kinds = [find_method(name) for name in methods] if methods else self._candidates(kept)
        for kind in kinds:
            try:
                if kind.predictable:
                    self._predicted(kind, kept)
                elif kind.guarded:
                    self._guarded(kind, kept.quantizer)
                else:
                    self._other(kind, kept.quantizer)
            except InputError as error:  # it cannot use the quantizer; perhaps others can
                self.refused.append(error)
        if not self.tried:
            raise self.refused[0]
        return sorted(self.tried.values(), key=lambda each: each.rank)

    def _candidates(self, kept: Constraints) -> list[type[Method]]:
        """Return the methods to search, where none is named."""
        kinds = [kind for kind in all_methods() if kind.may_send_fewest_bits(self.problem)]
        return [kind for kind in kinds if kind.predictable] if kept.binds_messages() else kinds

    def _predicted(self, kind: type[Method], kept: Constraints) -> None:
        """A method that the mean-square analysis is about: predict first, and run what is best."""
        groups = [predictable_choices(kind.name, self.problem.dim, kept)]
        if kept.quantizer is None:
            groups.append(fading_choices(kind.name, self.problem, self.network, kept))
        self._say(f"{kind.name}: what {sum(map(len, groups))} choices of quantizer and messages may need")
        for choices in filter(None, groups):
            hopeful = [each.choice for each in estimate_bits(self.problem, self.network, 1e6, choices)[:RUN]]
            self._say(f"{kind.name}: {len(hopeful)} runs with practical step sizes")
            best = min((self.run(choice) for choice in hopeful), key=lambda each: each.rank)
            near = [] if kept.quantizer else _neighbours(best.choice)
            self._say(f"{kind.name}: {len(near)} runs with a coarser or finer quantizer")
            best = min([best, *(self.run(choice) for choice in near)], key=lambda each: each.rank)
            self.refine(best, kind.step_size_names, FAR if ill_conditioned(self.problem) else ())

    def _guarded(self, kind: type[Method], quantizer: str | None) -> None:
        """A method that notices too large steps itself: what matters is the quantizer."""
        names = kind.quantizers_to_try(self.problem.dim) if quantizer is None else [quantizer]
        self._say(f"{kind.name}: {len(names)} runs")
        best = min((self.run(self._choice(kind.name, name)) for name in names), key=lambda each: each.rank)
        if quantizer is None:
            near = _with_levels(best.choice.quantizer, (0.5, 0.63, 0.8, 1.25, 1.6, 2))
            self._say(f"{kind.name}: {len(near)} runs with a coarser or finer quantizer")
            others = [self.run(self._choice(kind.name, name)) for name in near]
            best = min([best, *others], key=lambda each: each.rank)
        self.refine(best, kind.step_size_names)

    def _other(self, kind: type[Method], quantizer: str | None) -> None:
        """Any other method: all its step sizes, from far away too, as practical ones may be poor."""
        names = kind.quantizers_to_try(self.problem.dim) if quantizer is None else [quantizer]
        self._say(f"{kind.name}: {len(names)} runs with practical step sizes")
        runs = [self.run(self._choice(kind.name, name)) for name in names]
        best = sorted(runs, key=lambda each: each.rank)
        better = [self.refine(each, tuple(each.sizes), FAR) for each in best[: 2 * REFINED]]
        for each in sorted(better, key=lambda each: each.rank)[:REFINED]:
            near = [self.adopt(choice, each.sizes) for choice in _neighbours(each.choice)] if quantizer is None else []
            self.refine(min([each, *near], key=lambda each: each.rank), tuple(each.sizes))

    def _choice(self, method: str, quantizer: str) -> Choice:
        return Choice(method, quantizer, option=self.option, batch_size=self.batch_size)

    def run(self, choice: Choice) -> Attempt:
        """Run a choice with practical step sizes."""
        try:
            method: Any = choice.make(self.problem, self.network)
            sizes = {name: float(getattr(method, name)) for name in method.step_size_names}
            return self._sweep(choice, method, [sizes])[0]
        except InputError as error:  # no stable step sizes, or a quantizer that the method cannot use
            self.refused.append(error)
            return Attempt(choice, {}, ())

    def adopt(self, choice: Choice, sizes: dict[str, float]) -> Attempt:
        """Run a choice with the step sizes of another."""
        return self._sweep(choice, choice.make(self.problem, self.network, **sizes), [dict(sizes)])[0]

    def refine(self, start: Attempt, names: Sequence[str], far: Sequence[int] = ()) -> Attempt:
        """Try step sizes around those of a run, one name after the other, and keep the best of each.

        `far` are tenths of a decade to try first.
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
        grid = [_moved(best.sizes, name, offset) for offset in offsets]
        method = best.choice.make(self.problem, self.network, **best.sizes)
        return self._sweep(best.choice, method, grid, best.enough)

    def _sweep(
        self, choice: Choice, method: Method, grid: list[dict[str, float]], enough: int | None = None
    ) -> list[Attempt]:
        """Run what is not known yet, up to `enough` iterations."""
        budget = Budget(min(self.iterations, enough or self.iterations), until=self.until, goal=self.goal)
        keys = [(choice, *sorted(sizes.items())) for sizes in grid]
        missing = [sizes for key, sizes in zip(keys, grid, strict=True) if key not in self.tried]
        outcomes = [
            sweep(self.problem, self.network, method, missing, budget, SweepOptions(seed, 1, encoded=True))
            if missing
            else []
            for seed in self.seeds
        ]
        for sizes, *by_seed in zip(missing, *outcomes, strict=True):
            self.tried[choice, *sorted(sizes.items())] = Attempt(choice, sizes, tuple(by_seed))
        return [self.tried[key] for key in keys]

    def _say(self, text: str) -> None:
        if self.progress is not None:
            self.progress(text)


def _moved(sizes: dict[str, float], name: str, tenths: int) -> dict[str, float]:
    """Return step sizes with one moved; θ moves against η, as the dual step's stability depends on their product."""
    moved = {**sizes, name: _beside(name, sizes[name], tenths)}
    if name == "eta" and "theta" in sizes:
        moved["theta"] = _beside("theta", sizes["theta"], -tenths)
    return moved


def _beside(name: str, size: float, tenths: int) -> float:
    """Return a step size so many tenths of a decade away; of momentum, what it lacks to 1 is what counts."""
    if name == "momentum":
        return max(0.0, 1 - _beside("", 1 - size, tenths))
    return lattice(round(10 * math.log10(size)) + tenths, 10)


def _neighbours(choice: Choice) -> list[Choice]:
    """Return the same choice with a few more and a few less levels, or coordinates."""
    if choice.quantizer.startswith("fading:"):
        first, factor = map(float, choice.quantizer.split(":")[1:])
        pairs = [(first * 1.4, factor), (first / 1.4, factor), (first, factor**1.15), (first, factor ** (1 / 1.15))]
        return [choice._replace(quantizer=f"fading:{one:.3g}:{min(other, 0.99999):.5g}") for one, other in pairs]
    return [choice._replace(quantizer=name) for name in _with_levels(choice.quantizer, (0.8, 1.25))]


def _with_levels(quantizer: str, factors: Sequence[float]) -> list[str]:
    """Return quantizers with so many times the levels or coordinates; none if the name has no number.

    >>> _with_levels("dither:10", (0.8, 1.25)), _with_levels("ternary", (2,))
    (['dither:8', 'dither:12'], [])
    """
    kind, number = re.fullmatch(r"(.*?)(\d*)", quantizer).groups()  # type: ignore[union-attr]
    levels = dict.fromkeys(max(1, round(int(number) * factor)) for factor in factors) if number else ()
    return [f"{kind}{level}" for level in levels]
