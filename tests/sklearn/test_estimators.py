"""The estimators: scikit-learn's own checks, its coefficients, groups, and files without pickle."""

import networkx
import numpy as np
import pandas
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from tiers import slow_but

import lessbits
from lessbits.engines.recording.trace import Trace
from lessbits.errors import InputError
from lessbits.report.formats import write_report
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge


@pytest.fixture(autouse=True, scope="module")
def few_shapes():
    """Pad the rows of a node to one number in nearly all tests, so that they share programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lessbits.sklearn.dealing.FEWEST_ROWS", 64)
        yield


def checks():
    """All of ridge, and those of classifiers alone: the others are slow, and ask what those of ridge ask."""
    for estimator in (DecentralizedRidge(), DecentralizedLogisticRegression()):
        for _, check in estimator_checks_generator(estimator, mark="xfail"):
            name = getattr(check, "func", check).__name__
            quick = isinstance(estimator, DecentralizedRidge) or "classifier" in name
            marks = () if quick else pytest.mark.slow
            yield pytest.param(estimator, check, marks=marks, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_s_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    rows, labels = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(rows), labels


IRIS, DIABETES = load_iris(return_X_y=True), load_diabetes(return_X_y=True)
WEIGHTS = np.linspace(0, 3, 442)
EDGE = {"alpha": 30.0, "fit_intercept": False, "method": "primal-dual", "messages": "edge", "quantizer": "natural"}


def assert_same(model, other):
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=1e-6)


CHOICES = [
    {},
    {"C": 0.05, "network": "star", "n_nodes": 6},
    {"fit_intercept": False, "quantizer": "dit-8"},
    {"standardize": False},
    {"method": "primal-dual", "quantizer": "dit-4", "max_iter": 200_000, "C": 0.1},
    {"method": "primal-dual", "messages": "broadcast", "network": "complete", "C": 0.01, "max_iter": 50_000},
    {"method": "primal-dual", "option": "D", "batch_size": 8, "C": 0.003, "max_iter": 200_000},
]


@pytest.mark.parametrize("choice", slow_but([*CHOICES[:1], *CHOICES[2:4], CHOICES[5]], CHOICES))
def test_logistic_coefficients_are_scikit_learn_s(cancer, choice):
    model = DecentralizedLogisticRegression(random_state=1, **choice).fit(*cancer)
    same = {name: value for name, value in choice.items() if name in ("C", "fit_intercept")}
    pooled = LogisticRegression(tol=1e-12, max_iter=10_000, solver="newton-cholesky", **same).fit(*cancer)
    assert_same(model, pooled)
    assert model.score(*cancer) == pooled.score(*cancer)
    np.testing.assert_allclose(model.predict_proba(cancer[0]), pooled.predict_proba(cancer[0]), atol=1e-6)
    logarithm = model.predict_log_proba(cancer[0])
    np.testing.assert_allclose(logarithm, pooled.predict_log_proba(cancer[0]), atol=1e-4)


def test_three_classes_are_a_softmax_as_scikit_learn_s():
    model = DecentralizedLogisticRegression(random_state=1).fit(*IRIS)
    pooled = LogisticRegression(tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(*IRIS)
    assert_same(model, pooled)
    assert model.coef_.shape == (3, 4)
    np.testing.assert_allclose(model.predict_proba(IRIS[0]), pooled.predict_proba(IRIS[0]), atol=1e-6)
    np.testing.assert_allclose(model.predict_log_proba(IRIS[0]), pooled.predict_log_proba(IRIS[0]), atol=1e-4)


@pytest.mark.parametrize("choice", [{}, {"alpha": 0.01}, EDGE])
def test_ridge_coefficients_are_scikit_learn_s(choice):

    model = DecentralizedRidge(random_state=1, **choice).fit(*DIABETES, sample_weight=WEIGHTS)
    same = {name: value for name, value in choice.items() if name in ("alpha", "fit_intercept")}
    pooled = Ridge(solver="cholesky", **same).fit(*DIABETES, sample_weight=WEIGHTS)
    assert_same(model, pooled)
    np.testing.assert_allclose(model.predict(DIABETES[0]), pooled.predict(DIABETES[0]), atol=1e-6)


def test_sparse_rows_give_the_same_model():
    random = np.random.default_rng(0)
    rows = sparse.random(300, 40, density=0.05, random_state=0, format="csr")
    labels = np.where(rows @ random.normal(size=40) + 0.1 * random.normal(size=300) > 0, "yes", "no")
    model = DecentralizedLogisticRegression(random_state=0, n_nodes=5).fit(rows, labels)
    pooled = LogisticRegression(tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(rows.toarray(), labels)
    assert_same(model, pooled)
    assert list(model.predict(rows)) == list(pooled.predict(rows.toarray()))


def test_groups_are_the_nodes():
    sites = np.where(IRIS[1] == 0, "north", np.where(IRIS[0][:, 0] > 6, "east", "west"))
    model = DecentralizedLogisticRegression(random_state=1, n_nodes=77).fit(*IRIS, groups=sites)
    assert model.n_nodes_ == 3
    assert model.trace_.x.shape == (3, 15)
    assert_same(model, LogisticRegression(tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(*IRIS))
    assert list(model.groups_) == ["east", "north", "west"]
    for node in model.trace_.x:  # every site has the model
        np.testing.assert_allclose(node.reshape(5, 3).T, np.column_stack([model.coef_, model.intercept_]), atol=1e-6)


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
        ({"network": "rung"}, None, "did you mean 'ring'"),
        ({"method": "primal-dual", "step_sizes": {"gamma": 1.0}}, None, "gamma was given"),
        ({"method": "primal-dual", "step_sizes": {"theta": 1e9, "eta": 1e9}}, None, "the fit failed"),
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(choice, groups, says):
    with pytest.raises(InputError, match=says):
        DecentralizedLogisticRegression(**choice).fit(*IRIS, groups=groups)


def test_a_fit_that_stops_early_warns():
    with pytest.warns(ConvergenceWarning, match=r"after 5 iterations \(max_iter=5\)"):
        DecentralizedRidge(max_iter=5).fit(*DIABETES)


def test_bits_are_all_that_was_sent():
    model = DecentralizedRidge(random_state=0, n_nodes=4).fit(*DIABETES)
    plain = clone(model).set_params(standardize=False, tol=1.0).fit(*DIABETES)
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


SITES = np.arange(442) % 5


@pytest.fixture
def routing():
    """Switch on scikit-learn's metadata routing."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_groups_are_routed_to_the_fit_in_a_pipeline_and_a_search(routing):
    ridge = DecentralizedRidge(random_state=0).set_fit_request(groups=True)
    pipeline = make_pipeline(StandardScaler(), ridge).fit(*DIABETES, groups=SITES)
    search = GridSearchCV(ridge, {"alpha": [0.1, 10.0]}, cv=2).fit(*DIABETES, groups=SITES)
    assert pipeline[-1].groups_.tolist() == search.best_estimator_.groups_.tolist() == [0, 1, 2, 3, 4]
    assert search.best_params_ == {"alpha": 0.1}


@pytest.mark.parametrize(
    ("splitter", "nodes"), [pytest.param(KFold(2), [5, 5], marks=pytest.mark.slow), (GroupKFold(5), [4] * 5)]
)
def test_groups_are_routed_to_the_fit_in_cross_validation(routing, splitter, nodes):
    ridge = DecentralizedRidge(random_state=0, tol=1e-3).set_fit_request(groups=True)
    found = cross_validate(ridge, *DIABETES, cv=splitter, params={"groups": SITES}, return_estimator=True)
    assert [model.n_nodes_ for model in found["estimator"]] == nodes
    if isinstance(splitter, GroupKFold):  # it takes the groups too: each model was fitted without one site
        assert sorted({*range(5)}.difference(model.groups_).pop() for model in found["estimator"]) == [0, 1, 2, 3, 4]
    scores = cross_val_score(ridge, *DIABETES, cv=splitter, params={"groups": SITES})
    np.testing.assert_array_equal(scores, found["test_score"])


def test_groups_that_the_fit_does_not_ask_for_only_split(routing):
    ridge = DecentralizedRidge(random_state=0, n_nodes=3, tol=1e-3).set_fit_request(groups=False)
    found = cross_validate(ridge, *DIABETES, cv=GroupKFold(2), params={"groups": SITES}, return_estimator=True)
    assert [model.n_nodes_ for model in found["estimator"]] == [3, 3]
    with pytest.raises(ValueError, match="groups"):  # nobody was told whether the fit wants them
        cross_validate(DecentralizedRidge(), *DIABETES, cv=KFold(2), params={"groups": SITES}, error_score="raise")


def test_groups_of_an_earlier_fit_are_forgotten():
    model = DecentralizedRidge(random_state=0, n_nodes=3, tol=1.0).fit(*DIABETES, groups=SITES)
    assert model.groups_.tolist() == [0, 1, 2, 3, 4]
    assert not hasattr(model.fit(*DIABETES), "groups_")


@pytest.mark.parametrize(
    "network",
    [
        "star",
        pytest.param(networkx.path_graph(4), marks=pytest.mark.slow),
        pytest.param(lessbits.make_network("torus:2x2"), marks=pytest.mark.slow),
    ],
    ids=["name", "graph", "network"],
)
def test_a_model_is_saved_and_loaded_without_pickle(tmp_path, network):
    frame = pandas.DataFrame(IRIS[0], columns=["a", "b", "c", "d"])
    names = np.array(["setosa", "versicolor", "virginica"])[IRIS[1]]
    quantizer = lessbits.make_quantizer("grid:20", 15)
    model = DecentralizedLogisticRegression(network=network, n_nodes=4, quantizer=quantizer, random_state=0, tol=0.01)
    model.fit(frame, names).save(tmp_path / "model.safetensors")
    loaded = DecentralizedLogisticRegression.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert list(loaded.predict(frame)) == list(model.predict(frame))
    assert list(loaded.feature_names_in_) == ["a", "b", "c", "d"]
    assert (loaded.bits_, loaded.n_iter_, loaded.n_nodes_) == (model.bits_, model.n_iter_, model.n_nodes_)
    assert loaded.trace_.summary() == model.trace_.summary()
    assert loaded.get_params()["quantizer"] == "grid:20"
    refitted = clone(loaded).fit(frame, names)
    np.testing.assert_array_equal(refitted.coef_, model.coef_)
    for kind in ("html", "md"):
        write_report([Trace.load(tmp_path / "model.safetensors")], tmp_path / f"run.{kind}")
    with pytest.raises(InputError, match=r"is a DecentralizedLogisticRegression, no DecentralizedRidge"):
        DecentralizedRidge.load(tmp_path / "model.safetensors")


def test_what_is_no_model_is_refused(tmp_path):
    model = DecentralizedRidge(n_nodes=2, tol=1.0, random_state=np.random.RandomState(0)).fit(*DIABETES)
    with pytest.raises(InputError, match="random_state is a RandomState"):
        model.save(tmp_path / "model")
    model.trace_.save(tmp_path / "trace")
    with pytest.raises(InputError, match="is no model"):
        DecentralizedRidge.load(tmp_path / "trace")
    with pytest.raises(InputError, match="there is no model"):
        DecentralizedRidge.load(tmp_path / "absent")
    model.set_params(random_state=3).save(tmp_path / "model")
    loaded = DecentralizedRidge.load(tmp_path / "model").intercept_
    assert (loaded, type(loaded)) == (model.intercept_, float)
    with pytest.raises(InputError, match="there is no folder"):
        model.save(tmp_path / "absent" / "model")
    content = (tmp_path / "model").read_bytes()
    (tmp_path / "model").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged"):
        DecentralizedRidge.load(tmp_path / "model")


def test_large_offsets_are_no_excuse():
    rows = np.column_stack([DIABETES[0], DIABETES[0][:, 0] + 1e3, np.ones(442)])
    model = DecentralizedRidge(random_state=0).fit(rows, DIABETES[1])
    assert_same(model, Ridge(solver="svd").fit(rows, DIABETES[1]))


def test_a_class_without_weight_is_named():
    weights = np.where(IRIS[1] == 2, 0.0, 1.0)
    with pytest.raises(InputError, match="the rows of class 2 have no weight"):
        DecentralizedLogisticRegression().fit(*IRIS, sample_weight=weights)


def test_a_graph_of_sites_is_matched_by_name():
    sites = np.array(["a", "b", "c", "d"])[np.arange(442) % 4]
    graph = networkx.Graph([("d", "a"), ("d", "b"), ("d", "c")])  # a star around the last in order
    model = DecentralizedRidge(network=graph, random_state=0).fit(*DIABETES, groups=sites)
    first, second, _ = model.trace_.provenance["edges"]
    assert {*zip(first, second, strict=True)} == {(0, 3), (1, 3), (2, 3)}


@pytest.mark.slow
def test_wide_sparse_rows_need_no_square_matrices():
    rows = sparse.random(60, 5000, density=0.002, random_state=0, format="csr")
    targets = np.asarray(rows.sum(axis=1)).ravel()
    model = DecentralizedRidge(n_nodes=2, random_state=0).fit(rows, targets)
    pooled = Ridge(solver="sparse_cg", tol=1e-12).fit(rows, targets)
    np.testing.assert_allclose(model.coef_, pooled.coef_, atol=1e-6)


def test_practical_step_sizes_of_ridge_count_on_the_mean():
    few = np.where(np.arange(442) < 4, 0, 1 + np.arange(442) % 3)  # a site with four rows is nearly flat
    choice = {"method": "primal-dual", "quantizer": "dit-4", "random_state": 0, "max_iter": 5000}
    assert DecentralizedRidge(**choice).fit(*DIABETES, groups=few).n_iter_ < 600
