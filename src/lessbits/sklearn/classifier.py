"""Logistic regression fitted by the nodes of a network."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from lessbits.errors import InputError, check_positive
from lessbits.problems.logistic import Logistic
from lessbits.quantizers import Compressor
from lessbits.sklearn.dealing import Rows, Task
from lessbits.sklearn.fitting import Decentralized
from lessbits.sklearn.weighting import weigh_classes


class DecentralizedLogisticRegression(ClassifierMixin, Decentralized):
    """Logistic regression (softmax for more than two classes) whose rows stay at the nodes of a network.

    The coefficients are those of scikit-learn's `LogisticRegression` with the same `C` and `fit_intercept`, on all rows
    pooled. The fit is simulated in this process, and the messages are only counted. To send them, use
    `lessbits run --engine mpi`.

    Step sizes that are not given are chosen as follows. The intercept is not penalised, so a node's logistic loss has
    μ = 0, and the theorems, which need μ > 0, do not apply (ridge has a small μ). "tree" needs no μ: its first step is
    1/L, and later steps use the curvature measured so far. Other methods use practical step sizes for L and, in place
    of μ, the smallest curvature of the mean of all losses at zero. A trial run tests them first, and halves them while
    anything grows.

    Args:
        C: Inverse of the penalty, as in scikit-learn.
        class_weight: Weights of the classes, as in scikit-learn: a dict such as {0: 1, 1: 5}, "balanced" for weights
            that make all classes count the same, or None. They multiply `sample_weight`.
        n_nodes: The number of nodes to which rows are assigned at random, unless `fit` gets `groups`.
        network: The links between nodes, as in `lessbits.make_network`: a name such as "ring", "star" or "torus", a
            file, a networkx graph, a matrix or a `Network`.
        method: Name of the method, as in `lessbits.make_method`. The default, "tree", sends the fewest bits;
            "primal-dual" is the paper's.
        quantizer: The compressor of messages, as in `lessbits.make_method`.
        option: The gradients to take, as in `lessbits.make_method`.
        messages: The kind of messages, as in `lessbits.make_method`.
        batch_size: Samples in a batch per node, for options C and D.
        step_sizes: A dict such as {"theta": 1.0, "eta": 0.1}. Step sizes that it does not name are chosen.
        standardize: Whether nodes first agree on the means and spreads of the features, and work with scaled ones. If
            rows are sparse or there is no intercept, means are left out. This changes neither the penalty nor the
            result, only the speed.
        fit_intercept: Whether the model has an intercept.
        tol: Stop when the gradient is at most `tol` times that at the start, where all models are zero. The gradient is
            √(‖∇f(x̄)‖² + L²·d), with x̄ the mean of the nodes' models and d their mean squared distance from it: it is
            small only where the nodes agree on a model without slope. Nodes can compute it; the solution is not used.
        max_iter: The largest number of iterations (exchanges with neighbours).
        random_state: Seed of the assignment of rows, and of all random numbers of the run.
        verbose: 1 shows a progress bar (lines, if standard error is not a terminal), 0 nothing.

    Attributes:
        coef_: The coefficients.
        intercept_: The intercepts.
        classes_: The labels of the classes.
        n_iter_: The number of iterations run.
        trace_: The record of the run. Its columns refer to the scaled features. `trace_.x` has the model of each node,
            features × classes, with the intercept last.
        bits_: The bits of all messages on all links, including those for `standardize`.
        n_nodes_: The number of nodes.
        groups_: The names of the sites, in the order of the nodes, if `fit` got `groups`.

    >>> from sklearn.datasets import load_iris
    >>> rows, labels = load_iris(return_X_y=True)
    >>> sites = ["Basel", "Lausanne", "Bern", "Zug", "Chur"] * 30
    >>> model = DecentralizedLogisticRegression(random_state=0).fit(rows, labels, groups=sites)
    >>> model.n_nodes_, float(round(model.score(rows, labels), 2))
    (5, 0.97)
    """

    def __init__(
        self,
        C: float = 1.0,  # noqa: N803 (scikit-learn's name)
        *,
        class_weight: Mapping[Any, float] | str | None = None,
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
        self.C = C
        self.class_weight = class_weight
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
            y: The class of each row.
            sample_weight: Weight of each row; by default 1.
            groups: The site that holds each row. Each site is then a node. By default rows are split at random.
            X_val: Held-out rows. Their loss and accuracy are columns of `trace_`: `test_loss` (the mean of the negative
                log-likelihood, without the penalty) and `test_accuracy`. They change nothing else.
            y_val: The class of each held-out row.

        Returns:
            The fitted estimator itself.
        """
        check_positive("C", self.C)
        rows, labels = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        count = len(self.classes_)
        weights = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
        weights = weigh_classes(self.class_weight, self.classes_, numbers, weights)
        has_weight = [weights[numbers == number].sum() > 0 for number in range(count)]
        if sum(has_weight) == 1:
            (name,) = self.classes_[has_weight]
            raise InputError(f"the labels have one class only, {name}, but at least two are needed")
        if weights.any() and sum(has_weight) < count:
            (name, *_) = self.classes_[np.logical_not(has_weight)]
            raise InputError(f"the rows of class {name} have no weight, so it cannot be learnt: leave them out")
        held_out = self._held_out(X_val, y_val, self._targets)
        training = Rows.of(rows, self._targets(labels, "y"))
        found = self._fit(Task(Logistic, count, 1 / self.C), training, weights, groups, held_out)
        self.coef_ = found[:, : self.n_features_in_]
        self.intercept_ = found[:, -1] if self.fit_intercept else np.zeros(len(found))
        return self

    def _targets(self, labels: Any, name: str) -> np.ndarray:
        """Return the class numbers of labels or, for two classes, ±1."""
        number = {label: position for position, label in enumerate(self.classes_.tolist())}
        try:
            numbers = np.array([float(number[label]) for label in column_or_1d(labels).tolist()])
        except KeyError as error:
            raise InputError(f"{name} has the class {error.args[0]!r}, which y has not: leave its rows out") from None
        return 2 * numbers - 1 if len(number) == 2 else numbers

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return a·w + b of each row: [rows] for two classes, [rows, classes] for more.

        Args:
            X: Rows of features, dense or sparse.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = rows @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the most likely class of each row.

        Args:
            X: Rows of features, dense or sparse.
        """
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the probability of each class, [rows, classes].

        Args:
            X: Rows of features, dense or sparse.
        """
        scores = self.decision_function(X)
        return np.stack([expit(-scores), expit(scores)], axis=1) if scores.ndim == 1 else softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the logarithm of the probability of each class, [rows, classes].

        Args:
            X: Rows of features, dense or sparse.
        """
        scores = self.decision_function(X)
        binary = scores.ndim == 1
        return np.stack([log_expit(-scores), log_expit(scores)], axis=1) if binary else log_softmax(scores, axis=1)
