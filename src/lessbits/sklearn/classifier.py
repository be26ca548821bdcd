"""Logistic regression fitted by nodes."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from lessbits.errors import InputError, check_positive
from lessbits.problems.logistic import Logistic
from lessbits.quantizers import Compressor
from lessbits.sklearn.fitting import Decentralized


class DecentralizedLogisticRegression(ClassifierMixin, Decentralized):
    """Logistic regression (softmax for more than two classes) whose rows stay at the nodes of a network.

    The coefficients are those of scikit-learn's `LogisticRegression` with the same `C` and `fit_intercept`, on all rows
    pooled. The fit is simulated in this process: what would be sent is counted, and `lessbits run --engine mpi` sends
    it.

    - `n_nodes`: rows are dealt at random to so many nodes, unless `fit` is given `groups`.
    - `network`: who talks to whom, as in `lessbits.make_network`: a name such as "ring", "star" or "torus", a file, a
      networkx graph, a matrix or a `Network`.
    - `method`, `quantizer`, `option`, `messages`, `batch_size`: as in `lessbits.make_method`. The default, "tree",
      sends the fewest bits; "primal-dual" is the paper's.
    - `step_sizes`: a dict such as {"theta": 1.0, "eta": 0.1}; those not given are chosen.
    - `standardize`: whether nodes first agree on means and spreads of the features (without the means if rows are
      sparse, or have no intercept), and work with scaled ones. That changes neither the penalty nor the result, but how
      fast it is found.
    - `tol`: stop when the nodes' models are as near to the pooled solution, root mean square.
    - `max_iter`: iterations (exchanges with neighbours) at most.
    - `random_state`: of the dealing, and of all that is random in the run.

    How step sizes are chosen: the intercept is not penalised, so a node's logistic loss has μ = 0, and the theorems,
    which need μ > 0, give none (ridge has a small one). "tree" needs no μ: it steps 1/L at first, then as far as it has
    learnt of the curvature. For the others they are the practical ones for L and, in place of μ, the smallest curvature
    of the mean of all losses at the solution, which the simulator knows; they are tried first, and halved while
    anything grows.

    After `fit`: `coef_`, `intercept_`, `classes_`, `n_iter_`; `trace_`, the record of the run, whose columns are about
    the scaled features (`trace_.x` has each node's own model, features × classes, the intercept last); `bits_`, of all
    messages on all links together, those for `standardize` too; `n_nodes_`; `groups_`, in the order of the nodes.

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
        self.C = C
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
        """Fit; `groups` names the site that holds each row, and each site is then a node."""
        check_positive("C", self.C)
        rows, labels = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        count = len(self.classes_)
        weights = _check_sample_weight(sample_weight, rows)
        weighty = [weights[numbers == number].sum() > 0 for number in range(count)]
        if sum(weighty) == 1:
            (name,) = self.classes_[weighty]
            raise InputError(f"the labels have one class only, {name}, but at least two are needed")
        if weights.any() and sum(weighty) < count:
            (name, *_) = self.classes_[np.logical_not(weighty)]
            raise InputError(f"the rows of class {name} have no weight, so it cannot be learnt: leave them out")
        targets = 2.0 * numbers - 1 if count == 2 else numbers.astype(float)
        found = self._fit(Logistic, rows, targets, 1 / self.C, count, sample_weight, groups)
        self.coef_ = found[:, : self.n_features_in_]
        self.intercept_ = found[:, -1] if self.fit_intercept else np.zeros(len(found))
        return self

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """a·w + b of each row, [rows], or [rows, classes] if these are more than two."""
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = rows @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The likeliest class of each row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """The probability of each class, [rows, classes]."""
        scores = self.decision_function(X)
        return np.stack([expit(-scores), expit(scores)], axis=1) if scores.ndim == 1 else softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Its logarithm."""
        scores = self.decision_function(X)
        both = scores.ndim == 1
        return np.stack([log_expit(-scores), log_expit(scores)], axis=1) if both else log_softmax(scores, axis=1)
