"""Problems from samples: sites are nodes, other samples are split, and held-out samples are scored."""

import numpy as np
import pandas
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from tiers import slow_but

from lessbits import (
    Consensus,
    InputError,
    LeastSquares,
    Logistic,
    Samples,
    Softmax,
    held_out_metrics,
    hold_out,
    load_samples,
    make_network,
    make_problem,
    split_samples,
)
from lessbits.problems.origin import check_sites, origin_of

FRAME = pandas.DataFrame(
    {
        "age": [50, 61, 72, 38, 45, 67],
        "clinic": ["Chur", "Basel", "Chur", "Bern", "Basel", "Bern"],
        "dose": [0.5, 1.5, 2.5, 0.1, 0.4, 2.2],
        "outcome": ["well", "sick", "sick", "well", "well", "sick"],
    }
)
SAMPLES = Samples.from_frame(FRAME, target="outcome", site="clinic")


def test_every_site_is_a_node_in_the_order_of_the_names():
    problem = make_problem("logistic", SAMPLES, regularization=0.1)
    assert origin_of(problem).sites == SAMPLES.site_names == ("Basel", "Bern", "Chur")
    parts = [FRAME[FRAME.clinic == name] for name in SAMPLES.site_names]
    expected = Logistic.from_parts(
        [part[["age", "dose"]] for part in parts], [np.where(part.outcome == "well", 1, -1) for part in parts], 0.1
    )
    np.testing.assert_array_equal(problem.design.features, expected.design.features)
    np.testing.assert_array_equal(problem.targets, expected.targets)  # "sick" is the smaller label


@pytest.mark.parametrize("loss", ["least-squares", "logistic", "softmax"])
def test_other_samples_are_split(loss):
    samples = load_samples("iris" if loss == "softmax" else "breast-cancer")
    parts = split_samples(samples, 4, "dirichlet:1", seed=3)
    made = make_problem(loss, samples, 4, split="dirichlet:1", regularization=0.1, seed=3, held=[1, 2])
    if loss == "least-squares":
        expected = LeastSquares.from_samples(samples, parts, samples.labels, 0.1, [1, 2])
    elif loss == "logistic":
        expected = Logistic.from_samples(samples, parts, samples.binary_labels(), 0.1, [1, 2])
    else:
        expected = Softmax.from_samples(samples, parts, *samples.class_labels(), 0.1, [1, 2])
    assert made.nodes == 2
    np.testing.assert_array_equal(made.design.features, expected.design.features)
    np.testing.assert_array_equal(made.gradient(made.start()), expected.gradient(made.start()))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: make_problem("logistc", SAMPLES), "did you mean 'logistic'"),
        (lambda: make_problem("logistic", FRAME), "samples are a DataFrame"),
        (lambda: make_problem("logistic", SAMPLES, 4), "nodes is 4, but data set 'frame' has 3 sites"),
        (lambda: make_problem("logistic", load_samples("breast-cancer")), "has no sites, so the number of nodes"),
        (lambda: make_problem("least-squares", SAMPLES), "has text as labels"),
        (lambda: make_problem("logistic", Samples(np.eye(4), [0, 1, 2, 0]), 2), "has 3 classes"),
        (lambda: make_problem("logistic", Samples(np.eye(2), [0, 1], sites=["A", "A"])), "are of the site 'A'"),
        (lambda: held_out_metrics(Consensus.random(3, 3), SAMPLES), "given with Consensus"),
    ],
)
def test_mistakes_get_one_line(make, says):
    with pytest.raises(InputError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


def test_sites_with_a_single_row_are_mentioned(caplog):
    Samples(np.eye(3), [0, 1, 1], sites=["A", "B", "B"]).site_rows()
    assert "1 of 2 sites of data set 'data' have a single row (such as 'A')" in caplog.text


def test_a_network_of_other_names_is_refused():
    import networkx

    problem = make_problem("logistic", SAMPLES)
    roads = networkx.Graph([("Chur", "Bern"), ("Bern", "Basel")])
    check_sites(problem, make_network(roads, names=SAMPLES.site_names))
    check_sites(problem, make_network("ring", 3))  # has no names
    with pytest.raises(InputError, match="in another order"):
        check_sites(problem, make_network(roads))
    with pytest.raises(InputError, match="such as 'Genf'"):
        check_sites(problem, make_network(networkx.relabel_nodes(roads, {"Chur": "Genf"})))


def test_every_site_keeps_most_of_its_rows():
    sites = ["A"] * 10 + ["B"] * 20 + ["C"]
    samples = Samples(np.arange(31.0)[:, None], np.arange(31) % 2, sites=sites)
    training, test = hold_out(samples, 0.2, seed=1)
    assert sorted([*training.features.ravel(), *test.features.ravel()]) == list(range(31))
    assert [int((test.sites == name).sum()) for name in "ABC"] == [2, 4, 0]
    np.testing.assert_array_equal(hold_out(samples, 0.2, seed=1)[1].features, test.features)
    assert hold_out(samples, 0.2, seed=2)[1].features.tolist() != test.features.tolist()
    for share, says in ((0, "above 0 and below 1"), (1.5, "below 1"), (0.01, "is no sample")):
        with pytest.raises(InputError, match=says):
            hold_out(samples, share)


@pytest.mark.parametrize("as_sparse", slow_but([False], [False, True]))
@pytest.mark.parametrize(("loss", "data"), [("logistic", "breast-cancer"), ("softmax", "iris")])
def test_held_out_scores_are_scikit_learns(loss, data, as_sparse):
    samples = load_samples(data).normalized_rows()
    names = np.array(["virginica", "setosa", "cancer"])[samples.labels.astype(int)]  # in another order than the numbers
    rows = sparse.csr_matrix(samples.features) if as_sparse else samples.features
    training, test = hold_out(Samples(rows, names), 0.3)
    problem = make_problem(loss, training, nodes=4, regularization=0.05)
    assert problem.counts.sum() <= training.count
    reference = LogisticRegression(fit_intercept=False).fit(training.features, training.labels)
    x = reference.coef_[0] if loss == "logistic" else reference.coef_.T.ravel()  # x = X flattened, features × classes
    metrics = held_out_metrics(problem, test)
    assert set(metrics) == {"test_loss", "test_accuracy"}
    assert float(metrics["test_loss"](x)) == pytest.approx(
        log_loss(test.labels, reference.predict_proba(test.features))
    )
    right = accuracy_score(test.labels, reference.predict(test.features))
    assert float(metrics["test_accuracy"](x)) == pytest.approx(right)
    assert right > 0.5


def test_held_out_loss_of_least_squares_is_half_the_mean_squared_error():
    training, test = hold_out(load_samples("diabetes"), 0.2)
    metrics = held_out_metrics(make_problem("least-squares", training, nodes=3), test)
    x = np.linspace(-1, 1, 10)
    assert set(metrics) == {"test_loss"}
    assert float(metrics["test_loss"](x)) == pytest.approx(0.5 * np.mean((test.features @ x - test.labels) ** 2))


def test_held_out_labels_mean_what_they_meant_in_training():
    problem = make_problem("logistic", SAMPLES, regularization=0.1)
    shuffled = FRAME[["dose", "age", "outcome"]].iloc[[0]]  # one class only, and other columns first
    metrics = held_out_metrics(problem, Samples.from_frame(shuffled, target="outcome"))
    assert float(metrics["test_accuracy"](np.array([1.0, 0.0]))) == 1.0  # well is +1
    numbers = Logistic.from_parts([[[1.0], [2.0]]], [[1, 2]], 0.1)
    assert float(held_out_metrics(numbers, Samples([[1.0]], [2]))["test_accuracy"](np.ones(1))) == 1.0
    text = Logistic.from_parts([[[1.0], [2.0]]], [["no", "yes"]], 0.1)
    assert float(held_out_metrics(text, Samples([[1.0]], ["yes"]))["test_accuracy"](np.ones(1))) == 1.0
    signs = Logistic.from_samples(SAMPLES, [np.arange(6)], SAMPLES.binary_labels())
    assert float(held_out_metrics(signs, SAMPLES)["test_accuracy"](np.ones(2))) == 0.5
    for made, test, says in (
        (signs, Samples([[1.0, 2.0]], ["sick"]), "has 1 class"),
        (problem, Samples([[1.0, 2.0]], ["dead"]), "has the label 'dead', but the labels here are 'sick', 'well'"),
        (problem, Samples([[1.0, 2.0]], [1]), "numbers as labels"),
        (problem, Samples([[1.0]], ["sick"]), "has 1 features, but the problem has 2"),
        (problem, Samples(pandas.DataFrame({"age": [1], "size": [2]}), ["sick"]), "'dose' is missing, 'size' is new"),
        (numbers, Samples([[1.0]], [3]), "has the label 3, but the labels here are 1, 2"),
        (numbers, Samples([[1.0]], ["yes"]), "has text as labels"),
    ):
        with pytest.raises(InputError, match=says) as error:
            held_out_metrics(made, test)
        assert "\n" not in str(error.value)
