"""The assignment of rows to nodes, and the problem that the nodes then solve."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas
from scipy import sparse

from lessbits._internal.pytrees import put
from lessbits.errors import InputError
from lessbits.problems.design import Layout, node_size
from lessbits.problems.least_squares import LeastSquares
from lessbits.problems.logistic import Logistic
from lessbits.problems.softmax import Softmax
from lessbits.sklearn.scaling import Scaling

FEWEST_ROWS = 16  # nodes are padded to at least this many rows, because fewer would save no time
DIGITS = 3  # significant binary digits of the number of rows that nodes are padded to


@dataclass(frozen=True)
class DealtRows:
    """Rows with targets and weights, and the rows that each node holds."""

    rows: Any  # a NumPy array or a sparse matrix, [rows, features]
    targets: np.ndarray
    weights: np.ndarray
    parts: list[np.ndarray]  # the indices of each node's rows
    penalty: float  # of the mean of all losses

    def problem(
        self, kind: type[LeastSquares] | type[Logistic], classes: int, scaling: Scaling, intercept: bool
    ) -> LeastSquares | Logistic | Softmax:
        """Return the problem of the scaled rows, with a constant feature for the intercept, which has no penalty."""
        rows, penalty, parts = scaling.apply(self.rows), scaling.spread**-2, self.parts
        if intercept:
            stack = sparse.hstack if sparse.issparse(rows) else np.hstack
            rows, penalty = stack([rows, np.ones((rows.shape[0], 1))]), np.append(penalty, 0.0)
        rows = sparse.csr_matrix(rows) if sparse.issparse(rows) else rows
        features = [rows[part] for part in parts]
        layout = Layout.of(np.array([node_size(part) for part in features]))
        layout = layout._replace(samples=_padded_rows(layout.samples))
        problem = kind.assemble(features, [self.targets[part] for part in parts], self.penalty, layout=layout)
        share = np.zeros(problem.sample_weight.shape)
        for node, part in enumerate(parts):
            share[node, : len(part)] = self.weights[part] * len(parts) / self.weights.sum()
        penalties = put(np.tile(penalty, (len(parts), 1)), float)
        problem = replace(problem, sample_weight=put(share, float), penalty=penalties)
        return Softmax.with_classes(problem, classes) if isinstance(problem, Logistic) and classes > 2 else problem


def name_groups(groups: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted names of the sites, and the index of each row's site."""
    try:
        given = np.asarray(groups)
        missing = bool(pandas.isna(given).any())
        names, where = np.unique(given, return_inverse=True)
    except (TypeError, ValueError):
        raise InputError("groups are of several kinds, or missing: give one name or number for each row") from None
    if given.shape != (count,):
        raise InputError(f"groups has shape {given.shape}, but it must name one site for each of {count} rows")
    if missing:
        raise InputError("some rows have no site (NaN or None): leave them out, or name one")
    if len(names) < 2:
        raise InputError(f"groups names one site, {names[0]}, but nodes are at least two: give more sites")
    return names, where


def _padded_rows(rows: int) -> int:
    """Return the number of rows rounded up, so that fits on similar numbers, as in cross-validation, share a program.

    >>> [_padded_rows(rows) for rows in (1, 9, 17, 100, 101, 112)]
    [16, 16, 20, 112, 112, 112]
    """
    unit = 2 ** max(0, rows.bit_length() - DIGITS)
    return max(FEWEST_ROWS, -(-rows // unit) * unit)
