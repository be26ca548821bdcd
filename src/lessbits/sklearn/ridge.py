"""Ridge regression fitted by the nodes of a network."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, validate_data

from lessbits.errors import InputError, check_number
from lessbits.problems.least_squares import LeastSquares
from lessbits.quantizers import Compressor
from lessbits.sklearn.dealing import Rows, Task
from lessbits.sklearn.fitting import Decentralized


class DecentralizedRidge(RegressorMixin, Decentralized):
    """Ridge regression whose rows stay at the nodes of a network: Σ_j (a_j·w + b - y_j)² + alpha‖w‖².

    The coefficients are those of scikit-learn's `Ridge`. The attributes, and the choice of step sizes, are those of
    `DecentralizedLogisticRegression`.

    Args:
        alpha: The penalty. With 0 this is least squares; if it has several solutions, the fit finds one of them.
        n_nodes: The number of nodes to which rows are assigned at random, unless `fit` gets `groups`.
        network: The links between nodes, as in `lessbits.make_network`.
        method: Name of the method, as in `lessbits.make_method`.
        quantizer: The compressor of messages.
        option: The gradients to take.
        messages: The kind of messages.
        batch_size: Samples in a batch per node, for options C and D.
        step_sizes: Step sizes by name. Those that it does not name are chosen.
        standardize: Whether nodes scale the features first.
        fit_intercept: Whether the model has an intercept.
        tol: Stop when the gradient is at most `tol` times that at the start, as in `DecentralizedLogisticRegression`.
        max_iter: The largest number of iterations.
        random_state: Seed of the assignment of rows, and of the run.
        verbose: 1 shows a progress bar, 0 nothing.

    >>> from sklearn.datasets import load_diabetes
    >>> rows, targets = load_diabetes(return_X_y=True)
    >>> model = DecentralizedRidge(alpha=0.1, n_nodes=4, random_state=0).fit(rows, targets)
    >>> print(f"{model.score(rows, targets):.3f}")
    0.513
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        n_nodes: int = 10,
        network: Any = "ring",
        method: str = "tree",
        quantizer: str | Compressor | None = None,
        option: str | None = None,
        messages: str | None = None,
        batch_size: int = 1,
        step_sizes: Mapping[str, float] | None = None,
        standardize: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_iter: int = 10_000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.n_nodes = n_nodes
        self.network = network
        self.method = method
        self.quantizer = quantizer
        self.option = option
        self.messages = messages
        self.batch_size = batch_size
        self.step_sizes = step_sizes
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        X_val: Any = None,  # noqa: N803
        y_val: Any = None,
    ) -> Self:
        """Fit the model.

        Args:
            X: Rows of features, dense or sparse.
            y: The target of each row, or several, [rows, targets].
            sample_weight: Weight of each row; by default 1.
            groups: The site that holds each row. Each site is then a node. By default rows are split at random.
            X_val: Held-out rows. Their loss is a column of `trace_`, `test_loss`: the mean of half the squared
                residual, summed over the targets, without the penalty. They change nothing else.
            y_val: The target or targets of each held-out row.

        Returns:
            The fitted estimator itself.
        """
        check_number("alpha", self.alpha, 0)
        rows, targets = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, multi_output=True
        )
        targets = _one_or_several(targets)

        def read(given: Any, name: str) -> np.ndarray:
            """Return held-out targets."""
            found = _one_or_several(check_array(given, ensure_2d=False, dtype=np.float64, input_name=name))
            if found.shape[1:] != targets.shape[1:]:
                raise InputError(f"{name} has shape {found.shape}, but y has {targets.shape}: give the same targets")
            return found

        weights = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
        task = Task(LeastSquares, 1 if targets.ndim == 1 else targets.shape[1], self.alpha)
        found = self._fit(task, Rows.of(rows, targets), weights, groups, self._held_out(X_val, y_val, read))
        single = targets.ndim == 1
        self.coef_ = found[0, : self.n_features_in_] if single else found[:, : self.n_features_in_]
        self.intercept_ = 0.0
        if self.fit_intercept:
            self.intercept_ = float(found[0, -1]) if single else found[:, -1]
        return self

    def __sklearn_tags__(self) -> Any:
        """Declare that there may be several targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return a·w + b of each row: [rows], or [rows, targets].

        Args:
            X: Rows of features, dense or sparse.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return rows @ self.coef_.T + self.intercept_


def _one_or_several(targets: Any) -> np.ndarray:
    """Return targets as floats, [rows] if there is one, else [rows, targets]."""
    given = np.asarray(targets, float)
    return given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
