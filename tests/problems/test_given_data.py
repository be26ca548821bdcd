"""What problems are given: forms of data that mean the same, labels that are mapped, and mistakes that get one line."""

import numpy as np
import pandas
import pytest
from scipy import sparse

from lessbits import Consensus, InputError, LeastSquares, Logistic, Samples, Softmax, make_problem
from lessbits.problems.design import Layout, node_size

RANDOM = np.random.default_rng(0)
ROWS = [RANDOM.integers(-3, 4, size=(4, 3)).astype(float), RANDOM.integers(-3, 4, size=(3, 3)).astype(float)]
SIGNS = [np.array([1.0, -1, 1, -1]), np.array([-1.0, 1, 1])]
CLASSES = [np.array([0.0, 1, 2, 0]), np.array([2.0, 1, 1])]
POINT = np.full((2, 3), 0.3)


def broken(value, row=1, column=2):
    rows = ROWS[1].copy()
    rows[row, column] = value
    return [ROWS[0], rows]


def without_zeros(rows):
    """A sparse matrix whose entries are in no order, with one in two parts."""
    matrix = sparse.coo_array(rows)
    data, where = matrix.data, matrix.coords
    return sparse.coo_array(
        (np.r_[data[::-1], 1, -1], (np.r_[where[0][::-1], 0, 0], np.r_[where[1][::-1], 2, 2])), shape=rows.shape
    )


FORMS = {
    "lists": lambda rows: rows.tolist(),
    "integers": lambda rows: rows.astype(np.int32),
    "float32": lambda rows: rows.astype(np.float32),
    "objects that are numbers": lambda rows: rows.astype(object),
    "frame": lambda rows: pandas.DataFrame(rows, columns=["a", "b", "c"]).astype({"b": "Int64", "c": int}),
}


@pytest.mark.parametrize("form", FORMS)
def test_dense_features_of_any_form_are_one_problem(form):
    expected = Logistic.from_parts(ROWS, SIGNS, 0.1)
    given = Logistic.from_parts([FORMS[form](rows) for rows in ROWS], [list(part) for part in SIGNS], 0.1)
    np.testing.assert_array_equal(given.design.features, expected.design.features)
    np.testing.assert_array_equal(given.gradient(POINT), expected.gradient(POINT))


def test_sparse_features_of_any_format_are_one_problem():
    expected = LeastSquares.from_parts(ROWS, SIGNS, 0.1).losses(POINT)
    for form in (sparse.csc_matrix, sparse.lil_array, sparse.dok_array, without_zeros):
        given = LeastSquares.from_parts([form(rows) for rows in ROWS], SIGNS, 0.1)
        np.testing.assert_allclose(given.losses(POINT), expected, rtol=1e-12)


def test_targets_may_be_a_series_a_column_or_whole_numbers():
    expected = LeastSquares.from_parts(ROWS, SIGNS).targets
    for form in (pandas.Series, lambda part: part[:, None], lambda part: part.astype(np.int8)):
        np.testing.assert_array_equal(LeastSquares.from_parts(ROWS, list(map(form, SIGNS))).targets, expected)


@pytest.mark.parametrize("two", [(0, 1), (1, 2), (False, True), ("no", "yes"), (-0.5, 7)])
def test_two_other_labels_are_mapped_and_this_is_said(two, caplog):
    labels = [np.where(part > 0, two[1], two[0]) for part in SIGNS]
    problem = Logistic.from_parts(ROWS, labels, 0.1)
    np.testing.assert_array_equal(problem.targets, Logistic.from_parts(ROWS, SIGNS, 0.1).targets)
    (line,) = [record.message for record in caplog.records]
    assert line.startswith("labels are taken as -1 and +1: ")
    caplog.clear()
    samples = Samples(np.concatenate(ROWS), np.concatenate(SIGNS))
    Logistic.from_samples(samples, [np.arange(4), np.arange(4, 7)], np.concatenate(labels))
    assert line in caplog.messages


def test_labels_that_are_right_are_not_talked_about(caplog):
    Logistic.from_parts(ROWS, SIGNS)
    Softmax.from_parts(ROWS, CLASSES)
    Softmax.from_parts(ROWS, CLASSES, classes=5)  # some classes may be absent here
    make_problem("logistic", Samples(np.concatenate(ROWS), np.concatenate(SIGNS) > 0), nodes=2)
    assert caplog.messages == []


def test_other_classes_are_numbered_and_this_is_said(caplog):
    names = np.array(["low", "middle", "top"])
    problem = Softmax.from_parts(ROWS, [names[part.astype(int)] for part in CLASSES])
    assert caplog.messages == ["labels are taken as classes 0 to 2, in the order 'low', 'middle', 'top'"]
    np.testing.assert_array_equal(problem.labels, Softmax.from_parts(ROWS, CLASSES, 3).labels)
    assert Softmax.from_parts(ROWS, [part + 1 for part in CLASSES]).classes == 3


def test_a_process_that_holds_some_nodes_does_not_guess_what_labels_mean():
    layout = Layout.of(np.array([node_size(rows) for rows in ROWS]))
    assert Logistic.from_parts(ROWS[:1], [np.ones(4)], 0.1, layout=layout).nodes == 1  # one class is here
    assert Softmax.from_parts(ROWS[:1], [np.ones(4)], 3, 0.1, layout).classes == 3
    with pytest.raises(InputError, match="where other processes hold further nodes"):
        Logistic.from_parts(ROWS[:1], [np.array([0, 1, 1, 0])], 0.1, layout=layout)
    with pytest.raises(InputError, match="class numbers from 0"):
        Softmax.from_parts(ROWS[:1], [np.array([1, 2, 3, 1])], 3, 0.1, layout)


SAMPLES = Samples(np.concatenate(ROWS), np.concatenate(SIGNS))
HALVES = [np.arange(4), np.arange(4, 7)]
MISTAKES = {
    "NaN": (lambda: Logistic.from_parts(broken(np.nan), SIGNS), "features of node 1 .* first in row 1, column 2"),
    "infinite": (lambda: Softmax.from_parts(broken(np.inf), CLASSES), "NaN or infinite values, 1 in all"),
    "sparse NaN": (
        lambda: Logistic.from_parts([sparse.csr_matrix(rows) for rows in broken(np.nan)], SIGNS),
        "node 1 .* row 1, column 2",
    ),
    "NaN target": (lambda: LeastSquares.from_parts(ROWS, [SIGNS[0], [1, np.nan, 0]]), "targets of node 1 .* row 1"),
    "short targets": (lambda: Logistic.from_parts(ROWS, [SIGNS[0][:3], SIGNS[1]]), "node 0 has 4 rows and 3 targets"),
    "long targets": (lambda: Softmax.from_parts(ROWS, [CLASSES[0], [0, 1, 2, 0]]), "node 1 has 3 rows and 4 targets"),
    "fewer targets": (lambda: LeastSquares.from_parts(ROWS, SIGNS[:1]), "features of 2 nodes and targets of 1"),
    "nothing": (lambda: LeastSquares.from_parts([], []), "no nodes were given: give the features and the targets"),
    "empty node": (lambda: Logistic.from_parts([ROWS[0], ROWS[1][:0]], [SIGNS[0], []]), "node 1 are of shape"),
    "one row": (lambda: Logistic.from_parts([ROWS[0], ROWS[1][0]], SIGNS), "node 1 are of shape"),
    "widths": (lambda: LeastSquares.from_parts([ROWS[0], ROWS[1][:, :2]], SIGNS), "node 1 has 2 features and node 0"),
    "mixed": (lambda: LeastSquares.from_parts([ROWS[0], sparse.csr_array(ROWS[1])], SIGNS), "dense .* node 1 sparse"),
    "text feature": (lambda: Logistic.from_parts([ROWS[0].astype(str), ROWS[1]], SIGNS), "node 0 are text .*numbers"),
    "objects": (lambda: Logistic.from_parts([[[None, 1.0]]], [[1]]), "Python objects .* such as None"),
    "complex": (lambda: Logistic.from_parts([ROWS[0] + 1j, ROWS[1]], SIGNS), "complex numbers"),
    "ragged": (lambda: Logistic.from_parts([[[1, 2], [3]]], [[1, -1]]), "node 0 cannot .* different lengths"),
    "text column": (
        lambda: Logistic.from_parts([pandas.DataFrame({"age": [1, 2], "city": ["Bern", "Basel"]})], [[1, -1]]),
        "column 'city' holds no numbers",
    ),
    "whole frame": (lambda: Logistic.from_parts(pandas.DataFrame(ROWS[0]), SIGNS), "one DataFrame, .*make_problem"),
    "whole array": (lambda: Logistic.from_parts(ROWS[0], SIGNS), "one ndarray"),
    "all targets": (lambda: LeastSquares.from_parts(ROWS, np.concatenate(SIGNS)), "targets of node 0 are of shape"),
    "masked": (lambda: Logistic.from_parts([np.ma.masked_equal(ROWS[0], 1), ROWS[1]], SIGNS), "node 0 have NaN"),
    "one class": (lambda: Logistic.from_parts(ROWS, [np.ones(4), np.ones(3)]), "1 different value .* both classes"),
    "three": (lambda: Logistic.from_parts(ROWS, CLASSES), r"3 different values \(0, 1, 2\).*Softmax"),
    "text targets": (lambda: LeastSquares.from_parts(ROWS, [["a"] * 4, ["b"] * 3]), "are text, such as 'a'"),
    "kinds": (lambda: Logistic.from_parts(ROWS, [SIGNS[0], ["a", "b", "a"]]), "text at others"),
    "missing label": (lambda: Logistic.from_parts(ROWS, [["a", None, "b", "a"], SIGNS[1]]), "missing in 1 row,"),
    "too many": (lambda: Softmax.from_parts(ROWS, [part + 1 for part in CLASSES], classes=2), "from 0 to 1"),
    "fractional": (lambda: Softmax.from_parts(ROWS, [part / 3 for part in CLASSES]), "not whole numbers"),
    "one softmax class": (lambda: Softmax.from_parts(ROWS, [np.zeros(4), np.zeros(3)]), "at least two"),
    "λ": (lambda: Logistic.from_parts(ROWS, SIGNS, "large"), "regularization is 'large'"),
    "samples and targets": (lambda: Logistic.from_samples(SAMPLES, HALVES, SIGNS[0]), "7 samples and 4 targets"),
    "row": (lambda: Logistic.from_samples(SAMPLES, [HALVES[0], [6, 7]], SAMPLES.labels), "node 1 has row 7"),
    "no rows": (lambda: LeastSquares.from_samples(SAMPLES, [HALVES[0], []], SAMPLES.labels), "rows of node 1"),
    "no nodes": (lambda: LeastSquares.from_samples(SAMPLES, [], SAMPLES.labels), "over no nodes"),
    "softmax samples": (lambda: Softmax.from_samples(SAMPLES, HALVES, CLASSES[0], 3), "7 samples and 4 targets"),
    "vectors": (lambda: Consensus.make([["a", "b"]]), "the vectors are text"),
    "vectors with NaN": (lambda: Consensus.make(pandas.DataFrame({"x": [1, np.nan]})), "row 1, column 0"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_line(name):
    make, says = MISTAKES[name]
    with pytest.raises(InputError, match=says) as error:
        make()
    assert "\n" not in str(error.value)
