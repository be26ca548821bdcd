"""Held-out rows: their loss and accuracy along the run, which they do not change."""

import numpy as np
import pytest
import sklearn
from fits import DIABETES, IRIS
from scipy import sparse
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from lessbits.errors import InputError
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge

FLOWERS = np.array(["setosa", "versicolor", "virginica"])[IRIS[1]]
TRAIN, TEST, NAMES, TEST_NAMES = train_test_split(IRIS[0], FLOWERS, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [FLOWERS[[0, 50, 100]], FLOWERS[[50, 100]]], ids=["three", "two"])
def test_the_columns_are_loss_and_accuracy_of_the_held_out_rows(classes):
    train, test = np.isin(NAMES, classes), np.isin(TEST_NAMES, classes)
    data, held_out = (TRAIN[train], NAMES[train]), {"X_val": TEST[test], "y_val": TEST_NAMES[test]}
    model = DecentralizedLogisticRegression(random_state=0).fit(*data, **held_out)
    trace = model.trace_
    assert trace["test_accuracy"][-1] == pytest.approx(model.score(*held_out.values()))
    expected = log_loss(held_out["y_val"], model.predict_proba(held_out["X_val"]))
    assert trace["test_loss"][[0, -1]] == pytest.approx([np.log(len(classes)), expected])
    plain = DecentralizedLogisticRegression(random_state=0).fit(*data)
    np.testing.assert_allclose(plain.coef_, model.coef_, atol=1e-12)
    assert "test_loss" not in plain.trace_.columns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("targets", "kind"),
    [(1, sparse.csr_matrix), (2, np.asarray)],
    ids=["one, sparse", "two"],
)
def test_the_loss_of_ridge_is_half_the_squared_error_of_all_targets(targets, kind):
    rows, y = DIABETES[0], np.stack([DIABETES[1]] * targets, axis=1).squeeze()
    model = DecentralizedRidge(random_state=0, tol=1e-3).fit(rows, y, X_val=kind(rows[:40]), y_val=y[:40])
    expected = mean_squared_error(y[:40], model.predict(rows[:40])) / 2 * targets
    assert model.trace_["test_loss"][-1] == pytest.approx(expected)
    assert "test_accuracy" not in model.trace_.columns


@pytest.mark.slow
def test_held_out_rows_are_routed_and_transformed():
    with sklearn.config_context(enable_metadata_routing=True):
        ridge = DecentralizedRidge(random_state=0, tol=0.5).set_fit_request(X_val=True, y_val=True)
        steps = [("scale", StandardScaler()), ("ridge", ridge)]
        pipeline = Pipeline(steps, transform_input=["X_val"])
        held_out = {"X_val": DIABETES[0][:50], "y_val": DIABETES[1][:50]}
        pipeline.fit(*DIABETES, **held_out)
        expected = mean_squared_error(held_out["y_val"], pipeline.predict(held_out["X_val"])) / 2
        assert pipeline[-1].trace_["test_loss"][-1] == pytest.approx(expected)
        search = GridSearchCV(ridge, {"alpha": [0.1, 10.0]}, cv=2).fit(*DIABETES, **held_out)
        assert "test_loss" in search.best_estimator_.trace_.columns


@pytest.mark.parametrize(
    ("held_out", "says"),
    [
        ({"X_val": TEST}, "X_val was given without y_val"),
        ({"y_val": TEST_NAMES}, "y_val was given without X_val"),
        ({"X_val": TEST, "y_val": TEST_NAMES[:-1]}, "X_val has 38 rows and y_val 37"),
        ({"X_val": TEST, "y_val": ["rose"] * 38}, "y_val has the class 'rose', which y has not"),
        ({"X_val": TEST[:, :3], "y_val": TEST_NAMES}, "X has 3 features"),
    ],
)
def test_held_out_rows_that_do_not_fit_are_refused(held_out, says):
    with pytest.raises(ValueError, match=says):
        DecentralizedLogisticRegression().fit(TRAIN, NAMES, **held_out)
    if "rose" in says:
        targets = {"X_val": DIABETES[0], "y_val": np.ones((442, 2))}
        with pytest.raises(InputError, match=r"y_val has shape \(442, 2\), but y has \(442,\)"):
            DecentralizedRidge().fit(*DIABETES, **targets)
