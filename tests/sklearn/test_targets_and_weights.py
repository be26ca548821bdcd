"""Several targets, no penalty, and weights of classes, as scikit-learn has them."""

import numpy as np
import pytest
from fits import CLOSE, DIABETES, IRIS, assert_same, pooled
from scipy import sparse
from sklearn.linear_model import LinearRegression, Ridge
from tiers import slow_but

from lessbits.errors import InputError
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge

ROWS, ONE = DIABETES
TWO = np.stack([ONE, 3 * ROWS[:, 2] - 10 * ROWS[:, 0] ** 2], axis=1)
WEIGHTS = np.linspace(0, 3, 442)


SPARSE = sparse.random(442, 40, density=0.05, random_state=0, format="csr")


@pytest.mark.parametrize(
    ("rows", "targets", "choice"),
    [
        (ROWS, TWO, {"alpha": 0.5}),
        pytest.param(ROWS, TWO, {"fit_intercept": False}, marks=pytest.mark.slow),
        pytest.param(SPARSE, TWO, {}, marks=pytest.mark.slow),
        pytest.param(ROWS, TWO, {"alpha": 30.0, "method": "primal-dual", "quantizer": "dit-8"}, marks=pytest.mark.slow),
    ],
    ids=["two", "no-intercept", "sparse", "primal-dual"],
)
def test_several_targets_are_as_in_scikit_learn(rows, targets, choice):
    model = DecentralizedRidge(random_state=1, tol=CLOSE, **choice).fit(rows, targets, sample_weight=WEIGHTS)
    same = {name: value for name, value in choice.items() if name in ("alpha", "fit_intercept")}
    exact = Ridge(tol=1e-14, **same).fit(rows, targets, sample_weight=WEIGHTS)
    assert_same(model, exact)
    np.testing.assert_allclose(model.predict(rows), exact.predict(rows), atol=1e-6)
    assert model.score(rows, targets) == pytest.approx(exact.score(rows, targets))
    assert model.trace_.x.shape == (10, (rows.shape[1] + model.fit_intercept) * targets.shape[1])


def test_one_column_is_one_target():
    one, column = (DecentralizedRidge(random_state=1, tol=0.1).fit(ROWS, y) for y in (ONE, ONE[:, None]))
    np.testing.assert_array_equal(column.coef_, one.coef_)
    assert column.predict(ROWS).shape == (442,)


def test_no_penalty_is_least_squares():
    model = DecentralizedRidge(alpha=0, random_state=1, tol=CLOSE).fit(ROWS, ONE)
    assert_same(model, LinearRegression().fit(ROWS, ONE), within=1e-4)  # coefficients of 800, condition 1e4
    solution = np.linalg.lstsq(np.column_stack([ROWS, np.ones(442)]), ONE, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, solution[:-1], atol=1e-4)


@pytest.mark.parametrize("alpha", [-1.0, float("inf"), float("nan"), "1", [1.0, 2.0]])
def test_other_penalties_are_refused(alpha):
    with pytest.raises(InputError, match=r"alpha is .* but it must be a (finite )?number at least 0"):
        DecentralizedRidge(alpha=alpha).fit(ROWS, TWO)


@pytest.mark.slow
def test_singular_least_squares_finds_a_solution():
    rows = np.column_stack([ROWS, ROWS[:, :1], np.full(442, 7.1), np.zeros(442)])  # twice the same, and constants
    model = DecentralizedRidge(alpha=0, random_state=1).fit(rows, ONE)
    exact = LinearRegression().fit(ROWS, ONE)
    np.testing.assert_allclose(model.predict(rows), exact.predict(ROWS), atol=1e-4)
    with pytest.raises(InputError, match="all features are zero"):
        DecentralizedRidge(alpha=0, fit_intercept=False).fit(np.zeros((442, 2)), ONE)


@pytest.mark.parametrize(
    "weights",
    slow_but([{2: 7}], ["balanced", {0: 1, 1: 5.0, 2: 0.5}, {2: 7}]),
    ids=["balanced", "all", "one"],
)
def test_weights_of_classes_are_as_in_scikit_learn(weights):
    rows, labels, each = IRIS[0][:120], IRIS[1][:120], np.linspace(0.5, 2, 120)
    model = DecentralizedLogisticRegression(class_weight=weights, random_state=0, tol=CLOSE)
    model.fit(rows, labels, sample_weight=each)
    assert_same(model, pooled(class_weight=weights).fit(rows, labels, sample_weight=each))


def test_a_class_of_weight_zero_is_named():
    with pytest.raises(InputError, match="the rows of class 1 have no weight"):
        DecentralizedLogisticRegression(class_weight={1: 0}).fit(*IRIS)
