"""The assignment of rows to nodes, the problem that the nodes then solve, and what held-out rows are scored by."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas
from scipy import sparse

from lessbits._internal.pytrees import put
from lessbits.datasets.sites import strip_names
from lessbits.errors import InputError
from lessbits.problems.design import Layout, node_size
from lessbits.problems.held_out import HeldOutAccuracy, HeldOutLoss
from lessbits.problems.least_squares import LeastSquares
from lessbits.problems.logistic import Logistic
from lessbits.problems.multi_target import MultiTargetLeastSquares
from lessbits.problems.softmax import Softmax
from lessbits.sklearn.scaling import Scaling

FEWEST_ROWS = 16  # nodes are padded to at least this many rows, because fewer would save no time
DIGITS = 3  # significant binary digits of the number of rows that nodes are padded to
DENSE_FROM = 0.1  # sparse rows with at least this share of nonzero entries are made dense

FittedProblem = LeastSquares | MultiTargetLeastSquares | Logistic | Softmax


class Task(NamedTuple):
    """The loss to fit."""

    kind: type[LeastSquares] | type[Logistic]
    outputs: int  # the number of classes, or of targets
    penalty: float  # of the sum of all losses

    def problem(self, features: list[Any], targets: list[np.ndarray], regularization: float) -> LeastSquares | Logistic:
        """Return the problem of each node's rows, with one output: the only one, or the first."""
        layout = Layout.of(np.array([node_size(part) for part in features]))
        layout = layout._replace(samples=_padded_rows(layout.samples))
        first = [part if part.ndim == 1 else part[:, 0] for part in targets]
        return self.kind.assemble(features, first, regularization, layout=layout)

    def with_outputs(self, problem: LeastSquares | Logistic, targets: list[np.ndarray]) -> FittedProblem:
        """Return the same problem with all classes or targets."""
        if isinstance(problem, Logistic):
            return Softmax.with_classes(problem, self.outputs) if self.outputs > 2 else problem
        return MultiTargetLeastSquares.with_targets(problem, targets) if self.outputs > 1 else problem


class Rows(NamedTuple):
    """Rows with their targets."""

    features: Any  # a NumPy array or a sparse matrix, [rows, features]
    targets: np.ndarray  # [rows], or [rows, targets]

    @classmethod
    def of(cls, features: Any, targets: np.ndarray) -> "Rows":
        """Take rows that are checked. Sparse ones that are nearly full are made dense."""
        if sparse.issparse(features) and features.nnz >= DENSE_FROM * np.prod(features.shape):
            features = features.toarray()
        return cls(features, targets)

    def scaled(self, scaling: Scaling, intercept: bool) -> Any:
        """Return the scaled features, with a constant one for the intercept."""
        rows = scaling.apply(self.features)
        if intercept:
            stack = sparse.hstack if sparse.issparse(rows) else np.hstack
            rows = stack([rows, np.ones((rows.shape[0], 1))])
        return sparse.csr_matrix(rows) if sparse.issparse(rows) else rows


@dataclass(frozen=True)
class DealtRows:
    """Rows and their weights, and the rows that each node holds."""

    rows: Rows
    weights: np.ndarray
    parts: list[np.ndarray]  # the indices of each node's rows

    def penalty(self, task: Task) -> float:
        """Return the penalty of the mean of all losses."""
        return task.penalty / self.weights.sum()

    def problem(self, task: Task, scaling: Scaling, intercept: bool) -> FittedProblem:
        """Return the problem of the scaled rows, in which the intercept has no penalty."""
        rows, penalty, parts = self.rows.scaled(scaling, intercept), scaling.spread**-2, self.parts
        if intercept:
            penalty = np.append(penalty, 0.0)
        targets = [self.rows.targets[part] for part in parts]
        problem = task.problem([rows[part] for part in parts], targets, self.penalty(task))
        share = np.zeros(problem.sample_weight.shape)
        for node, part in enumerate(parts):
            share[node, : len(part)] = self.weights[part] * len(parts) / self.weights.sum()
        penalties = put(np.tile(penalty, (len(parts), 1)), float)
        problem = replace(problem, sample_weight=put(share, float), penalty=penalties)
        return task.with_outputs(problem, targets)


def held_out_columns(task: Task, rows: Rows | None, scaling: Scaling, intercept: bool) -> dict[str, Any]:
    """Return the metrics of held-out rows, functions of the mean of the nodes' models, by the name of their column."""
    if rows is None:
        return {}
    problem = task.problem([rows.scaled(scaling, intercept)], [rows.targets], 0.0)
    samples: Any = task.with_outputs(problem, [rows.targets])
    loss = {"test_loss": HeldOutLoss(samples)}
    return {**loss, "test_accuracy": HeldOutAccuracy(samples)} if task.kind is Logistic else loss


def name_groups(groups: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted names of the sites, and the index of each row's site."""
    try:
        given = np.asarray(groups)
        missing = bool(pandas.isna(given).any())
        if given.shape == (count,):
            given = strip_names(given, "groups")
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
