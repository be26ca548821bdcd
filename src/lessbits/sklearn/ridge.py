"""Ridge regression fitted by the nodes of a network."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from lessbits.errors import check_positive
from lessbits.problems.least_squares import LeastSquares
from lessbits.quantizers import Compressor
from lessbits.sklearn.fitting import Decentralized


class DecentralizedRidge(RegressorMixin, Decentralized):
    """Ridge regression whose rows stay at the nodes of a network: Σ_j (a_j·w + b - y_j)² + alpha‖w‖².

    The coefficients are those of scikit-learn's `Ridge`. The attributes, and the choice of step sizes, are those of
    `DecentralizedLogisticRegression`.

    Args:
        alpha: The penalty, above 0.
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
        tol: Stop when the root mean square distance of the nodes' models from the pooled solution is at most this.
        max_iter: The largest number of iterations.
        random_state: Seed of the assignment of rows, and of the run.

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
        tol: float = 1e-7,
        max_iter: int = 10_000,
        random_state: Any = None,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Fit the model.

        Args:
            X: Rows of features, dense or sparse.
            y: The target of each row.
            sample_weight: Weight of each row; by default 1.
            groups: The site that holds each row. Each site is then a node. By default rows are split at random.

        Returns:
            The fitted estimator itself.
        """
        check_positive("alpha", self.alpha)
        rows, targets = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        found = self._fit(
            LeastSquares, rows, np.asarray(targets, float), self.alpha, sample_weight=sample_weight, groups=groups
        )
        self.coef_ = found[0, : self.n_features_in_]
        self.intercept_ = float(found[0, -1]) if self.fit_intercept else 0.0
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return a·w + b of each row.

        Args:
            X: Rows of features, dense or sparse.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return rows @ self.coef_ + self.intercept_
