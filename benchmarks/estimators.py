"""What the scikit-learn estimators need, with scaled features and without: iterations, bits, and how near they come."""

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from lessbits.sklearn import DecentralizedLogisticRegression


def main() -> None:
    for name, data, scaled in (
        ("iris", load_iris, False),
        ("iris", load_iris, True),
        ("breast-cancer, raw", load_breast_cancer, True),
    ):
        rows, labels = data(return_X_y=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = DecentralizedLogisticRegression(random_state=0, standardize=scaled).fit(rows, labels)
        pooled = LogisticRegression(tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(rows, labels)
        nodes = model.trace_.x.reshape(model.n_nodes_, rows.shape[1] + 1, -1).transpose(0, 2, 1)
        exact = np.column_stack([pooled.coef_, pooled.intercept_])
        distance = np.sqrt(((nodes - exact) ** 2).sum((1, 2)).mean())
        ended = "reached" if model.trace_.converged else "stopped"
        # To know the gradient: models up a spanning tree, their mean down, gradients and a number up, in 32 bits each.
        check = 32 * (model.n_nodes_ - 1) * (3 * exact.size + 1)
        how = "scaled" if scaled else "as they are"
        print(
            f"{name:>20}, features {how:<12} {ended} after {model.n_iter_:>6} iterations, "
            f"{model.bits_ / 1e3:>6.0f} kbit in all, {distance:.1e} from the pooled model, "
            f"{check / 1e3:.0f} kbit for one check of the gradient"
        )


if __name__ == "__main__":
    main()
