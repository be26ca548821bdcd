"""What the tests of estimators share: data, and the comparison with scikit-learn's models."""

import numpy as np
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression

IRIS, DIABETES = load_iris(return_X_y=True), load_diabetes(return_X_y=True)
SITES = np.arange(442) % 5  # of the rows of DIABETES
CLOSE = 1e-11  # a tolerance at which coefficients agree to 1e-6; at the default it is 1e-5


def pooled(**choices):
    """Return scikit-learn's classifier, to its last digits."""
    return LogisticRegression(tol=1e-12, max_iter=10_000, solver="newton-cholesky", **choices)


def assert_same(model, other, within=1e-6):
    """Compare coefficients and intercepts."""
    assert model.coef_.shape == other.coef_.shape
    assert np.shape(model.intercept_) == np.shape(other.intercept_)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=within)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=within)
