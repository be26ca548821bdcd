"""Features shifted and scaled for the run alone: the model that is fitted stays the same, and is found much sooner."""

from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse


class Scaling(NamedTuple):
    """What every node subtracts from its features and divides them by.

    With a' = (a - mean)/spread the same predictions are a'·v + b' for v = spread·w and b' = b + mean·w; a penalty
    v²/spread² keeps it the same problem. So any numbers do, as long as all nodes take the same: sums up a tree and
    down again bring them, in 32 bits each.
    """

    mean: np.ndarray
    spread: np.ndarray
    numbers: int  # that nodes have agreed on

    @classmethod
    def none(cls, rows: Any) -> Self:
        """Take features as they are."""
        return cls(np.zeros(rows.shape[1]), np.ones(rows.shape[1]), 0)

    @classmethod
    def of(cls, rows: Any, weights: np.ndarray, penalty: float, centred: bool) -> Self:
        """Take the mean of all rows (sparse rows, and rows without an intercept, keep their zero) and their spread.

        The penalty is part of the spread: features smaller than that are held by it, and would become stiff.
        """
        share = weights / weights.sum()
        if sparse.issparse(rows):
            mean, square, centred = np.zeros(rows.shape[1]), share @ rows.multiply(rows), False
        else:
            mean = share @ rows if centred else np.zeros(rows.shape[1])
            square = share @ (rows - mean) ** 2
        # As they travel; besides these, the sum of all weights.
        mean, spread = np.array([mean, np.sqrt(square + penalty)], np.float32).astype(float)
        return cls(mean, spread, (1 + centred) * rows.shape[1] + 1)

    def apply(self, rows: Any) -> Any:
        """Shift and scale."""
        return rows @ sparse.diags_array(1 / self.spread) if sparse.issparse(rows) else (rows - self.mean) / self.spread

    def undo(self, models: np.ndarray, intercept: bool) -> np.ndarray:
        """Return models [outputs, features] of the features as they were, the intercept last if there is one."""
        slopes = models[:, : len(self.spread)] / self.spread
        return np.column_stack([slopes, models[:, -1] - slopes @ self.mean]) if intercept else slopes

    def undo_all(self, x: np.ndarray, intercept: bool) -> np.ndarray:
        """Return the models of all nodes, [nodes, outputs, features], from iterates [nodes, features × outputs]."""
        features = len(self.spread) + intercept
        return np.stack([self.undo(row.reshape(features, -1).T, intercept) for row in x])

    @property
    def stretch(self) -> float:
        """How many times farther a model may be from another than the scaled ones are, at most, and at least 1."""
        return float(np.sqrt(1 + (self.spread**-2).max() + ((self.mean / self.spread) ** 2).sum()))
