"""Shifting and scaling of features for the run only: the fitted model is the same, and the run much shorter."""

from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse


class Scaling(NamedTuple):
    """The mean that every node subtracts from its features, and the spread by which it divides them.

    With a' = (a - mean)/spread the same predictions are a'·v + b' for v = spread·w and b' = b + mean·w. A penalty
    v²/spread² keeps the problem the same. So any numbers are valid if all nodes use the same ones. They are computed by
    sums up a tree and down again, in 32 bits each.
    """

    mean: np.ndarray
    spread: np.ndarray
    numbers: int  # how many numbers the nodes exchanged

    @classmethod
    def none(cls, rows: Any) -> Self:
        """Return a scaling that leaves features unchanged."""
        return cls(np.zeros(rows.shape[1]), np.ones(rows.shape[1]), 0)

    @classmethod
    def of(cls, rows: Any, weights: np.ndarray, penalty: float, centred: bool) -> Self:
        """Return the mean and the spread of all rows. Sparse rows, and rows without an intercept, are not shifted.

        The penalty is added to the variance: otherwise features smaller than the penalty would become stiff. Without a
        penalty, a feature that is the same in all rows is not scaled.
        """
        share = weights / weights.sum()
        if sparse.issparse(rows):
            mean, square, centred = np.zeros(rows.shape[1]), share @ rows.multiply(rows), False
        else:
            mean = share @ rows if centred else np.zeros(rows.shape[1])
            square = share @ (rows - mean) ** 2
        # Rounded as they are sent. The sum of all weights is sent as well.
        constant = square + penalty <= (0 if penalty else rows.shape[0] * np.finfo(float).eps * np.abs(mean)) ** 2
        mean, spread = np.array([mean, np.sqrt(square + penalty)], np.float32).astype(float)
        spread = np.where(constant | (spread == 0), 1.0, spread)
        return cls(mean, spread, (1 + centred) * rows.shape[1] + 1)

    def apply(self, rows: Any) -> Any:
        """Return the shifted and scaled rows."""
        return rows @ sparse.diags_array(1 / self.spread) if sparse.issparse(rows) else (rows - self.mean) / self.spread

    def undo(self, models: np.ndarray, intercept: bool) -> np.ndarray:
        """Return models [outputs, features] for the original features, with the intercept last if there is one."""
        slopes = models[:, : len(self.spread)] / self.spread
        return np.column_stack([slopes, models[:, -1] - slopes @ self.mean]) if intercept else slopes

    def undo_all(self, x: np.ndarray, intercept: bool) -> np.ndarray:
        """Return the models of all nodes, [nodes, outputs, features], from iterates [nodes, features × outputs]."""
        features = len(self.spread) + intercept
        return np.stack([self.undo(row.reshape(features, -1).T, intercept) for row in x])
