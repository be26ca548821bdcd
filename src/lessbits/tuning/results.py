"""The result of a search for step sizes: candidates with their outcomes, from best to worst."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lessbits._internal.notebook import html_table
from lessbits._internal.wording import human
from lessbits.engines.simulate.sweep import Budget, Outcome
from lessbits.methods.base import Method

SPREAD = ("iterations", "value", "bits_per_link", "wire_bits_per_link")  # columns whose range over seeds is shown

MAX_SHOWN = 20  # rows that a notebook shows


def spread(outcomes: list[Outcome] | tuple[Outcome, ...]) -> dict[str, float]:
    """Return the smallest and the largest of each column over the seeds, as columns; none for a single seed."""
    if len(outcomes) < 2:
        return {}
    names = SPREAD if all(outcome.encoded for outcome in outcomes) else SPREAD[:-1]
    found: dict[str, float] = {}
    for name in names:
        values = [float(getattr(outcome, name)) for outcome in outcomes]
        found |= {f"{name}_min": min(values), f"{name}_max": max(values)}
    return found


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
        """Return the candidate as a row of a table: means over the seeds and, for several seeds, their range."""
        ended = "reached" if self.reached else "diverged" if self.diverged else "beaten" if self.cut else "ended"
        encoded = ("wire_bits_per_link",) if all(outcome.encoded for outcome in self.outcomes) else ()
        columns = ("iterations", "value", "error", "bits_per_link", *encoded, "epochs")
        spent = {name: self.mean(name) for name in columns}
        return {**self.sizes, "ended": ended, **spent, **spread(self.outcomes)}


@dataclass(frozen=True)
class Tuning:
    """The result of a search.

    Attributes:
        method: The method with the best step sizes.
        candidates: All step sizes that were tried, with their outcomes, from best to worst.
        notes: Remarks about the search, such as a best value at an edge.
        budget: When each run ended.
        aim: What was minimized: "iterations", "bits" or "value".
        fixed: The step sizes that were not searched, with their values.
    """

    method: Method
    candidates: list[Candidate]
    notes: list[str]
    budget: Budget
    aim: str
    fixed: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Show the number of candidates and the best one."""
        best = self.best.row()
        sizes = ", ".join(f"{name}={size:.4g}" for name, size in self.best.sizes.items())
        ended = f"{best['ended']} after {best['iterations']:,.0f} iterations"
        return f"Tuning(best of {len(self.candidates)}: {sizes}, {ended})"

    def __str__(self) -> str:
        """Show the ranking as text, and what was held fixed."""
        from lessbits._internal.terminal import Terminal, as_text
        from lessbits.tuning.ranking_table import count_others, ranking_table

        names, rows = list(self.best.sizes), self.rows()

        def show(console: Terminal) -> None:
            console.print(ranking_table(f"Best of {len(rows)}, by {self.aim}", names, names, rows, self._goal))
            for line in (count_others(rows), *(f"Note: {note}." for note in self.notes), f"{self._fixed_in_words()}."):
                if line:
                    console.print(line)
            console.print(f"The best method, ready to run, is .method: {self.method!r}")

        return as_text(show)

    def _repr_html_(self) -> str:
        """Show the best candidates in a notebook."""
        rows = [
            {
                **{name: f"{row[name]:.4g}" for name in self.best.sizes},
                "ended": row["ended"],
                "iterations": f"{row['iterations']:,.0f}",
                self._goal: f"{row['value']:.2e}" if np.isfinite(row["value"]) else "",
                "nominal bits per link": human(row["bits_per_link"]) if np.isfinite(row["bits_per_link"]) else "",
                "epochs": f"{row['epochs']:.4g}" if np.isfinite(row["epochs"]) else "",
            }
            for row in self.rows()[:MAX_SHOWN]
        ]
        shown = f"The best {MAX_SHOWN} of " if len(self.candidates) > MAX_SHOWN else ""
        words = f"{shown}{len(self.candidates)} candidates, by {self.aim}. {self._fixed_in_words()}."
        return html_table(rows, words)

    @property
    def _goal(self) -> str:
        return self.budget.goal or "value"

    def _fixed_in_words(self) -> str:
        fixed = ", ".join(f"{name} = {size:.4g}" for name, size in self.fixed.items())
        return f"Held fixed: {fixed}" if fixed else "No step size was held fixed"

    @property
    def best(self) -> Candidate:
        """The best candidate."""
        return self.candidates[0]

    def rows(self) -> list[dict[str, Any]]:
        """Return all candidates as rows of a table, from best to worst."""
        return [candidate.row() for candidate in self.candidates]


class TuningInterrupted(KeyboardInterrupt):
    """A search was interrupted.

    Attributes:
        tuning: The candidates that had been run by then.
    """

    def __init__(self, tuning: Tuning) -> None:
        super().__init__(f"interrupted after {len(tuning.candidates)} candidates")
        self.tuning = tuning
