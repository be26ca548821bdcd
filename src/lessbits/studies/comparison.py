"""Comparison of methods and quantizers on one problem and network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lessbits._internal.figures import title_of
from lessbits._internal.notebook import html_table
from lessbits._internal.terminal import as_text
from lessbits._internal.wording import counted, human
from lessbits.engines.checks import GOALS
from lessbits.engines.recording.trace import Trace
from lessbits.methods.registry import find_method
from lessbits.report.comparison_text import comparison_report
from lessbits.report.formats import write_report
from lessbits.report.seeds import group_runs
from lessbits.report.verdict import verdict
from lessbits.studies.options import RANKS

ENDINGS = ("reached", "missed", "diverged")
SPENT = ("iterations", "wire_bits_per_link", "bits_per_link", "epochs", "seconds", "simulated_seconds")


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: all runs, ranked by what they needed to reach the target.

    Attributes:
        rows: One dict per method and quantizer, the best first. Numbers are means over the seeds; `spread` has
            their standard deviations, if there are several seeds.
        traces: The runs, in the order of the rows; one per seed.
        refused: Combinations that cannot be run, with the reason.
        goal: What `until` was compared with.
        until: The target.
        rank: What runs are ranked by: "bits", or simulated "seconds".
    """

    rows: list[dict[str, Any]]
    traces: list[Trace]
    refused: dict[str, str]
    goal: str
    until: float
    rank: str = "bits"

    @property
    def best(self) -> dict[str, Any]:
        """The first row."""
        return self.rows[0]

    def verdict(self) -> str:
        """Return the result in one sentence."""
        return verdict(group_runs(self.traces), RANKS[self.rank])

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the traces, as values that JSON can represent."""
        return {
            "verdict": self.verdict(),
            "goal": self.goal,
            "until": self.until,
            "rank": self.rank,
            "runs": self.rows,
            "refused": self.refused,
            "settings": dict(self.traces[0].settings),
        }

    def to_pandas(self) -> Any:
        """Return the rows as a data frame."""
        import pandas

        return pandas.DataFrame(self.rows)

    def report(self, path: str | Path) -> None:
        """Write a report of all runs to a file: .html, .md, .png, .svg or .pdf."""
        write_report(self.traces, Path(path), x_axis=self.x_axis)

    @property
    def x_axis(self) -> str:
        """The horizontal axis that a report shows first."""
        return title_of(RANKS[self.rank])

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"Comparison({counted(len(self.rows), 'row')}: {self.verdict()})"

    def __str__(self) -> str:
        """Show the ranking and the verdict as text."""
        precision = 8 * self.traces[0].x.dtype.itemsize
        return as_text(lambda console: comparison_report(self.to_dict(), precision, console=console))

    def _repr_html_(self) -> str:
        """Show the verdict and the ranking in a notebook."""
        rows = [
            {
                "method": f"{row['method']} {row['option']} {row['messages'] or ''}".strip(),
                "quantizer": row["quantizer"],
                "ended": row["ended"],
                "iterations": f"{row['iterations']:,.0f}",
                self.goal: f"{row[self.goal]:.2e}",
                "bits per link": human(row["wire_bits_per_link"]),
                **({"seconds": f"{row['simulated_seconds']:.3g}"} if "simulated_seconds" in row else {}),
            }
            for row in self.rows
        ]
        return html_table(rows, self.verdict())


class ComparisonInterrupted(KeyboardInterrupt):
    """A comparison was interrupted.

    Attributes:
        comparison: The runs that had ended.
    """

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(f"interrupted after {counted(len(comparison.traces), 'run')}")
        self.comparison = comparison


def make_row(traces: Sequence[Trace], metrics: Sequence[str] = ()) -> dict[str, Any]:
    """Return the row of one method and quantizer, with the user's own metrics. The traces differ in their seed only."""
    first, ends = traces[0].settings, [trace.summary() for trace in traces]
    sizes = {**first, **first.get("step_sizes", {})}
    ended = ["diverged" if trace.diverged else "reached" if trace.converged else "missed" for trace in traces]
    columns = dict.fromkeys((*SPENT, *GOALS, *metrics))
    values = {name: [end[name] for end in ends] for name in columns if name in ends[0]}
    row = {
        "method": first["method"],
        "option": first["option"],
        "messages": first["messages"],
        "quantizer": first["quantizer"],
        "sizes": {name: sizes[name] for name in find_method(first["method"]).step_size_names},
        "ended": max(ended, key=ENDINGS.index),  # the worst of all seeds
        **{name: float(np.mean(numbers)) for name, numbers in values.items()},
    }
    chosen = [trace.provenance.get("chosen_with") or {} for trace in traces]
    for name in ("trials", "bits_per_link"):
        row[f"choosing_{name}"] = float(np.mean([each.get(name, 0) for each in chosen]))
    if len(traces) > 1:
        row["seeds"] = len(traces)
        row["reached"] = ended.count("reached")
        row["spread"] = {name: float(np.std(numbers, ddof=1)) for name, numbers in values.items()}
    return row


def rank(row: Mapping[str, Any], goal: str, column: str) -> tuple[int, float]:
    """Rank runs that reached the target by a column, then the others by how far they came."""
    return ENDINGS.index(row["ended"]), row[column if row["ended"] == "reached" else goal]
