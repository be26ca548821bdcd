"""The runs of a search for step sizes: those that are not known yet are run, and all are ranked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from lessbits.engines.simulate.sweep import Budget, Outcome, SweepOptions, sweep
from lessbits.methods.base import Method
from lessbits.networks import Network
from lessbits.problems.base import Problem
from lessbits.tuning.options import TuneOptions
from lessbits.tuning.records import Records, stored_in
from lessbits.tuning.results import Candidate, Tuning

Sizes = dict[str, float]


@dataclass
class Runs:
    """The candidates of a search, and their outcomes."""

    problem: Problem
    network: Network
    method: Method
    budget: Budget
    options: TuneOptions
    records: Records
    candidates: list[Sizes] = field(default_factory=list)  # all so far
    told: bool = False  # whether the user was told where outcomes are stored

    @property
    def aim(self) -> str:
        """What is minimized."""
        assert self.options.aim is not None
        return self.options.aim

    def add(self, more: Sequence[Sizes], distance: Callable[[Sizes], float]) -> list[Candidate]:
        """Add candidates, run those without a known outcome, and return all candidates, ranked.

        Those at a small distance run first: if they are likely to win, the others are stopped early.
        """
        self.candidates += [sizes for sizes in more if sizes not in self.candidates]
        for seed in self.options.seeds:
            missing = [sizes for sizes in self.candidates if self.records.get(sizes, seed, self._limit(seed)) is None]
            missing.sort(key=distance)
            if missing:
                self._say_where()
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
        return self.ranked()

    def _say_where(self) -> None:
        """Say once where outcomes are stored."""
        if self.options.out is not None and not self.told:
            self.options.say(stored_in(self.options.out))
        self.told = True

    def ranked(self) -> list[Candidate]:
        """Return the candidates whose outcomes are known for all seeds, from best to worst."""
        seeds, known = self.options.seeds, self.records.known
        last = {seed: self._limit(seed) for seed in seeds}
        complete = [
            Candidate(sizes, [as_if_limited(known[self.records.key(sizes, seed)], last[seed]) for seed in seeds])
            for sizes in self.candidates
            if all(self.records.key(sizes, seed) in known for seed in seeds)
        ]
        return sorted(complete, key=self._rank)

    def result(self, notes: list[str]) -> Tuning:
        """Return the candidates so far as the result of the search."""
        candidates = self.ranked()
        notes = list(notes)
        if self.aim != "value" and not candidates[0].reached and not candidates[0].diverged:
            notes.append(f"none reached {self.budget.goal} {self.budget.until:g}: ranked by what they came to")
        best = candidates[0].sizes
        fixed = {name: float(getattr(self.method, name)) for name in self.method.step_size_names if name not in best}
        return Tuning(replace(self.method, **best), candidates, notes, self.budget, self.aim, fixed)  # type: ignore[type-var]

    def _limit(self, seed: int) -> int:
        """Return the iteration from which on a run has lost."""
        if self.aim == "value":
            return self.budget.iterations
        outcomes = [self.records.known.get(self.records.key(sizes, seed)) for sizes in self.candidates]
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


def as_if_limited(outcome: Outcome, limit: int) -> Outcome:
    """Return an outcome as if the limit had been known from the start, so that results do not depend on timing."""
    if outcome.iterations < limit or (outcome.iterations == limit and not outcome.cut):
        return outcome
    columns = ("value", "error", "bits_per_link", "wire_bits_per_link", "epochs")
    unknown: Mapping[str, Any] = dict.fromkeys(columns, np.inf)
    return replace(outcome, reached=False, diverged=False, cut=True, iterations=limit, **unknown)
