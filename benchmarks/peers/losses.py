"""Losses and gradients in plain NumPy: for the optimum and the suboptimality, and for the clients of Flower.

It imports nothing of lessbits, since Flower runs in an environment of its own.
"""

import numpy as np


class Loss:
    """The mean of the losses of some rows, plus (λ/2)‖x‖².

    Args:
        kind: "logistic", with labels -1 and 1, "softmax", with class numbers, or "least-squares".
        features: A matrix, dense or sparse.
        labels: One per row.
        regularization: λ.
        classes: How many classes there are; 1 unless the kind is "softmax".
    """

    def __init__(self, kind, features, labels, regularization, classes=1):
        self.kind, self.features, self.regularization, self.classes = kind, features, regularization, classes
        self.labels = labels.astype(int if kind == "softmax" else float)
        self.dim = features.shape[1] * classes

    def __call__(self, x):
        """Return the loss and its gradient."""
        x = np.asarray(x, float)
        value, slope = getattr(self, "_" + self.kind.replace("-", "_"))(self.features @ x.reshape(-1, self.classes))
        pull = np.asarray(self.features.T @ slope).reshape(-1) / len(self.labels)
        return value + self.regularization / 2 * (x @ x), pull + self.regularization * x

    def _logistic(self, scores):
        margins = self.labels[:, None] * scores
        return np.logaddexp(0, -margins).mean(), -self.labels[:, None] / (1 + np.exp(margins))

    def _softmax(self, scores):
        rows = np.arange(len(self.labels))
        scores = scores - scores.max(axis=1, keepdims=True)
        powers = np.exp(scores)
        totals = powers.sum(axis=1, keepdims=True)
        value = (np.log(totals[:, 0]) - scores[rows, self.labels]).mean()
        slope = powers / totals
        slope[rows, self.labels] -= 1
        return value, slope

    def _least_squares(self, scores):
        apart = scores - self.labels[:, None]
        return (apart**2).mean() / 2, apart


def minimum(loss):
    """Return the least value of a loss, by L-BFGS."""
    from scipy.optimize import minimize

    found = minimize(
        loss,
        np.zeros(loss.dim),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-16, "gtol": 1e-9, "maxcor": 30},
    )
    return float(found.fun)


def read_rows(file):
    """Return the features and the labels that `Task.write` wrote for NumPy."""
    labels = file.with_suffix(".labels.npy")
    if labels.exists():
        from scipy.sparse import load_npz

        return load_npz(file), np.load(labels)
    with np.load(file) as found:
        return found["features"], found["labels"]
