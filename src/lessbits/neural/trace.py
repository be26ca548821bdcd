"""The records of a simulated training run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits.errors import check_name, check_number

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class NeuralTrace:
    """The records of one training run, and the models at its end. `trace[name]` is a column.

    Columns: step, exchanges, bytes (that a node has sent on all its links, mean over nodes), each metric of the mean
    model by its name, of the worst node with `_worst` behind it, disagreement (root mean square distance of nodes from
    the mean model), and seconds.

    Attributes:
        columns: The columns by name, all of the same length; the first record is the start.
        params: The mean model.
        models: The models of all nodes, with one row per node in front.
        diverged: Whether a metric of the mean model became NaN or infinite, which ends a run.
        larger: The metrics of which larger is better.
    """

    columns: Mapping[str, np.ndarray]
    params: Any
    models: Any
    diverged: bool
    larger: frozenset[str] = frozenset()

    def __getitem__(self, column: str) -> np.ndarray:
        """Return a column by name."""
        return self.columns[check_name("column", column, self.columns)]

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.columns["step"])

    def __repr__(self) -> str:
        """Show the last record."""
        last = ", ".join(f"{name} {column[-1]:.5g}" for name, column in self.columns.items())
        return f"NeuralTrace({len(self)} records; {last}{'; diverged' if self.diverged else ''})"

    def to_pandas(self) -> "pandas.DataFrame":
        """Return all columns as a table."""
        import pandas

        return pandas.DataFrame(dict(self.columns))

    def bytes_until(self, metric: str, level: float) -> float | None:
        """Return the bytes at the first record at which a metric is as good as `level`; None if it never is."""
        check_number("level", level)
        column = self[metric]
        reached = column >= level if metric.removesuffix("_worst") in self.larger else column <= level
        return float(self["bytes"][np.argmax(reached)]) if reached.any() else None

    def best(self, metric: str) -> float:
        """Return the best value of a metric in the run."""
        return float(
            np.nanmax(self[metric]) if metric.removesuffix("_worst") in self.larger else np.nanmin(self[metric])
        )
