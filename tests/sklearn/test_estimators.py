"""The estimators: scikit-learn's own checks, its coefficients, and parameters that are refused."""

import numpy as np
import pytest
from fits import CLOSE, DIABETES, IRIS, assert_same, pooled
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from tiers import slow_but

from lessbits.errors import InputError
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge


def checks():
    """All of ridge, and those of classifiers alone: the others are slow, and ask what those of ridge ask."""
    for estimator in (DecentralizedRidge(), DecentralizedLogisticRegression()):
        for _, check in estimator_checks_generator(estimator, mark="xfail"):
            name = getattr(check, "func", check).__name__
            quick = isinstance(estimator, DecentralizedRidge) and "regressor" in name and "train" not in name
            marks = () if quick else pytest.mark.slow
            yield pytest.param(estimator, check, marks=marks, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.filterwarnings("ignore:not converged after 1000 iterations")  # of weights from 0.0001 to 1000
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_s_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    rows, labels = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(rows), labels


WEIGHTS = np.linspace(0, 3, 442)
EDGE = {"alpha": 30.0, "fit_intercept": False, "method": "primal-dual", "messages": "edge", "quantizer": "natural"}


CHOICES = [
    {},
    {"C": 0.05, "network": "star", "n_nodes": 6},
    {"fit_intercept": False, "quantizer": "dit-8"},
    {"standardize": False},
    {"method": "primal-dual", "quantizer": "dit-4", "max_iter": 200_000, "C": 0.1},
    {"method": "primal-dual", "messages": "broadcast", "network": "complete", "C": 0.01, "max_iter": 50_000},
    {"method": "primal-dual", "option": "D", "batch_size": 8, "C": 0.003, "max_iter": 200_000},
]


@pytest.mark.parametrize("choice", slow_but([CHOICES[0]], CHOICES))
def test_logistic_coefficients_are_scikit_learn_s(cancer, choice):
    model = DecentralizedLogisticRegression(random_state=1, tol=CLOSE, **choice).fit(*cancer)
    same = {name: value for name, value in choice.items() if name in ("C", "fit_intercept")}
    exact = pooled(**same).fit(*cancer)
    assert_same(model, exact)
    assert model.score(*cancer) == exact.score(*cancer)
    np.testing.assert_allclose(model.predict_proba(cancer[0]), exact.predict_proba(cancer[0]), atol=1e-6)
    logarithm = model.predict_log_proba(cancer[0])
    np.testing.assert_allclose(logarithm, exact.predict_log_proba(cancer[0]), atol=1e-4)


@pytest.mark.slow
def test_three_classes_are_a_softmax_as_scikit_learn_s():
    model, exact = DecentralizedLogisticRegression(random_state=1, tol=CLOSE).fit(*IRIS), pooled().fit(*IRIS)
    assert_same(model, exact)
    assert model.coef_.shape == (3, 4)
    np.testing.assert_allclose(model.predict_proba(IRIS[0]), exact.predict_proba(IRIS[0]), atol=1e-6)
    np.testing.assert_allclose(model.predict_log_proba(IRIS[0]), exact.predict_log_proba(IRIS[0]), atol=1e-4)


@pytest.mark.parametrize("choice", [{}, {"alpha": 0.01}, EDGE])
def test_ridge_coefficients_are_scikit_learn_s(choice):
    model = DecentralizedRidge(random_state=1, tol=CLOSE, **choice).fit(*DIABETES, sample_weight=WEIGHTS)
    same = {name: value for name, value in choice.items() if name in ("alpha", "fit_intercept")}
    exact = Ridge(solver="cholesky", **same).fit(*DIABETES, sample_weight=WEIGHTS)
    assert_same(model, exact)
    np.testing.assert_allclose(model.predict(DIABETES[0]), exact.predict(DIABETES[0]), atol=1e-6)


@pytest.mark.slow
def test_sparse_rows_give_the_same_model():
    random = np.random.default_rng(0)
    rows = sparse.random(300, 40, density=0.05, random_state=0, format="csr")
    labels = np.where(rows @ random.normal(size=40) + 0.1 * random.normal(size=300) > 0, "yes", "no")
    model = DecentralizedLogisticRegression(random_state=0, n_nodes=5, tol=CLOSE).fit(rows, labels)
    exact = pooled().fit(rows.toarray(), labels)
    assert_same(model, exact)
    assert list(model.predict(rows)) == list(exact.predict(rows.toarray()))


@pytest.mark.parametrize(
    ("choice", "groups", "says"),
    [
        ({}, ["a", "b"], "groups has shape"),
        ({}, ["a"] * 150, "one site, a"),
        ({}, [None] * 75 + ["a"] * 75, "of several kinds, or missing"),
        ({}, [float("nan")] * 75 + [1.0] * 75, "some rows have no site"),
        ({"n_nodes": 2.5}, None, "n_nodes is 2.5, but it must be a whole number"),
        ({"n_nodes": "3"}, None, "n_nodes is '3'"),
        ({"C": "1"}, None, "C is '1', but it must be a number"),
        ({"step_sizes": [1.0]}, None, "step_sizes is"),
        ({"step_sizes": {"seed": 1}}, None, "unknown step size 'seed'"),
        ({"step_sizes": {"eta": "x"}}, None, "the step size eta is 'x'"),
        ({"option": "A", "method": "primal-dual"}, None, "fit_intercept=False"),
        ({"n_nodes": 1}, None, "n_nodes is 1"),
        ({"n_nodes": 151}, None, "n_nodes is 151"),
        ({"C": 0.0}, None, "C is 0"),
        ({"tol": -1.0}, None, "tol is -1"),
        ({"tol": 1.0}, None, "tol is 1, but it must be above 0 and below 1"),
        ({"verbose": "yes"}, None, "verbose is 'yes'"),
        ({"class_weight": "even"}, None, "class_weight is 'even'"),
        ({"class_weight": {0: -1}}, None, "class_weight has -1 for class 0"),
        ({"class_weight": {"setosa": 2}}, None, "names the class 'setosa', but y has 0, 1, 2"),
        ({"network": "rung"}, None, "did you mean 'ring'"),
        ({"method": "primal-dual", "step_sizes": {"gamma": 1.0}}, None, "unknown step size 'gamma'"),
        ({"method": "primal-dual", "step_sizes": {"theta": 1e9, "eta": 1e9}}, None, "the fit failed"),
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(choice, groups, says):
    with pytest.raises(InputError, match=says):
        DecentralizedLogisticRegression(**choice).fit(*IRIS, groups=groups)


def test_bits_are_all_that_was_sent():
    model = DecentralizedRidge(random_state=0, n_nodes=4).fit(*DIABETES)
    plain = clone(model).set_params(standardize=False, tol=0.5).fit(*DIABETES)
    links = 8
    assert plain.trace_.x.shape == (4, 11)
    assert plain.bits_ == round(plain.trace_["wire_bits_per_link"][-1] * links)
    means_and_spreads = (2 * 10 + 1) * 32  # float32 numbers, up and down the three edges of a spanning tree
    assert model.bits_ == round(model.trace_["wire_bits_per_link"][-1] * links) + means_and_spreads * 2 * 3
    assert model.n_iter_ == model.trace_["iteration"][-1]


def test_the_random_state_decides_everything():
    one, same, other = (DecentralizedRidge(random_state=seed).fit(*DIABETES) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.coef_, same.coef_)
    assert (one.coef_ != other.coef_).any()


@pytest.mark.slow
def test_large_offsets_are_no_excuse():
    rows = np.column_stack([DIABETES[0], DIABETES[0][:, 0] + 1e3, np.ones(442)])
    model = DecentralizedRidge(random_state=0, tol=1e-13).fit(rows, DIABETES[1])  # the intercept is 20 000
    assert_same(model, Ridge(solver="svd").fit(rows, DIABETES[1]))


def test_a_class_without_weight_is_named():
    weights = np.where(IRIS[1] == 2, 0.0, 1.0)
    with pytest.raises(InputError, match="the rows of class 2 have no weight"):
        DecentralizedLogisticRegression().fit(*IRIS, sample_weight=weights)


@pytest.mark.slow
def test_wide_sparse_rows_need_no_square_matrices():
    rows = sparse.random(60, 5000, density=0.002, random_state=0, format="csr")
    targets = np.asarray(rows.sum(axis=1)).ravel()
    model = DecentralizedRidge(n_nodes=2, random_state=0, tol=CLOSE).fit(rows, targets)
    exact = Ridge(solver="sparse_cg", tol=1e-12).fit(rows, targets)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-6)


@pytest.mark.slow
def test_practical_step_sizes_of_ridge_count_on_the_mean():
    few = np.where(np.arange(442) < 4, 0, 1 + np.arange(442) % 3)  # a site with four rows is nearly flat
    choice = {"method": "primal-dual", "quantizer": "dit-4", "random_state": 0, "max_iter": 5000}
    assert DecentralizedRidge(**choice).fit(*DIABETES, groups=few).n_iter_ < 600
