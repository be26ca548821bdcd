"""Samples: one form for rows and labels, classes, and what does not fit."""

import numpy as np
import pytest
from scipy import sparse

from lessbits.datasets.samples import Samples
from lessbits.errors import InputError


def make(labels, features=None) -> Samples:
    return Samples(np.ones((len(labels), 2)) if features is None else features, labels, "made")


def test_samples_are_brought_to_one_form():
    rows = sparse.csr_array((np.array([1, 2, 3]), np.array([1, 0, 0]), np.array([0, 3, 3])), shape=(2, 2))
    samples = make([1, 2], rows)
    assert isinstance(samples.features, sparse.csr_matrix)
    np.testing.assert_array_equal(samples.features.toarray(), [[5, 1], [0, 0]])
    assert samples.features.has_canonical_format
    assert rows.nnz == 3, "what was given is left as it was"
    assert samples.labels.dtype == np.float64
    assert isinstance(make([1, 2], [[1, 2], [3, 4]]).features, np.ndarray)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_take_keeps_order_and_kind(sparse_rows):
    features = np.arange(8.0).reshape(4, 2)
    samples = make([5, 6, 7, 8], sparse.csr_matrix(features) if sparse_rows else features)
    taken = samples.take(np.array([3, 1]))
    assert taken.labels.tolist() == [8, 6]
    assert sparse.issparse(taken.features) == sparse_rows
    rows = taken.features.toarray() if sparse_rows else taken.features
    np.testing.assert_array_equal(rows, features[[3, 1]])


@pytest.mark.parametrize("labels", [[0, 1, 0], [-1, 1, -1], [4, 9.5, 4], [-7, -2, -7]])
def test_any_two_labels_are_two_classes(labels):
    assert make(labels).binary_labels().tolist() == [-1, 1, -1]
    assert make(labels).class_labels()[0].tolist() == [0, 1, 0]
    assert make(labels).class_labels()[1] == 2


@pytest.mark.parametrize(("labels", "expected"), [([3, 3], "has 1 class (labels 3)"), (range(9), "has 9 classes")])
def test_binary_labels_say_how_many_classes_there_are(labels, expected):
    with pytest.raises(InputError, match="two are needed") as caught:
        make(list(labels)).binary_labels()
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_classes_are_numbered_in_the_order_of_their_labels():
    classes, count = make([30, -1, 7, 30]).class_labels()
    assert classes.tolist() == [2, 0, 1, 2]
    assert np.issubdtype(classes.dtype, np.integer)
    assert count == 3


def test_a_regression_target_has_no_classes():
    with pytest.raises(InputError, match=r"not whole numbers \(0.5\)"):
        make([0.5, 1, 2]).class_labels()


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_normalized_rows_have_length_one_at_any_scale(sparse_rows):
    features = np.array([[3, 4, 0], [0, 0, 0], [3e200, 4e200, 0], [3e-300, 0, -4e-300], [0, 5e-324, 0]])
    samples = make(np.arange(5), sparse.csr_matrix(features) if sparse_rows else features.copy())
    rows = samples.normalized_rows().features
    rows = rows.toarray() if sparse_rows else rows
    expected = [[0.6, 0.8, 0], [0, 0, 0], [0.6, 0.8, 0], [0.6, 0, -0.8], [0, 1, 0]]
    np.testing.assert_allclose(rows, expected, rtol=1e-15)
    before = samples.features.toarray() if sparse_rows else samples.features
    np.testing.assert_array_equal(before, features)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_scaled_columns_have_a_standard_deviation_of_one(sparse_rows):
    features = np.array([[50, 0, 1, 3e200, 0.1], [70, 5, 1, 0, 0.1], [20, 0, 1, -3e200, 0.1]])
    samples = make(np.arange(3), sparse.csr_matrix(features) if sparse_rows else features.copy())
    rows = samples.scaled_columns().features
    assert sparse.issparse(rows) == sparse_rows
    rows = rows.toarray() if sparse_rows else rows
    np.testing.assert_allclose(rows.std(axis=0), [1, 1, 0, 1, 0], atol=1e-12)
    np.testing.assert_array_equal(rows[:, [2, 4]], features[:, [2, 4]])  # constant columns, such as an intercept, stay
    np.testing.assert_array_equal((rows == 0), (features == 0))
    taken = samples.take(np.array([0])).scaled_columns(samples.column_spreads()).features
    np.testing.assert_array_equal(taken.toarray()[0] if sparse_rows else taken[0], rows[0])


@pytest.mark.parametrize(
    ("features", "labels"),
    [(np.ones((2, 2)), [1]), (np.ones(2), [1, 2]), (np.ones((0, 2)), []), (np.ones((2, 0)), [1, 2])],
)
def test_shapes_that_do_not_fit(features, labels):
    with pytest.raises(InputError, match="of shape"):
        make(labels, features)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(bad):
    for features, labels in [([[1.0, bad]], [1]), (sparse.csr_matrix([[1.0, bad]]), [1]), ([[1.0, 2.0]], [bad])]:
        with pytest.raises(InputError, match="NaN or infinite"):
            make(labels, features)


def test_sites_beyond_64_bits_stay_apart():
    large = 10**30
    samples = Samples(np.eye(4), np.arange(4.0), "large", np.array([large, large + 1, large, large + 1]))
    assert len(samples.site_names) == 2


@pytest.mark.parametrize("sites", [[1e300, 2e300], [2.0**63, 2.0**64], [2.0**53, 1.0]])
def test_sites_that_floats_cannot_tell_apart_are_refused(sites):
    with pytest.raises(InputError, match="too large to be told apart: name them by text"):
        Samples(np.eye(2), np.arange(2.0), "large", np.array(sites))


def test_long_doubles_beyond_float64_are_refused_as_infinite():
    labels = np.array([1, 2], np.longdouble) * np.longdouble("1e4000")
    with pytest.raises(InputError, match="infinite values, the first in row 0"):
        Samples(np.eye(2), labels, "long")


def test_rows_are_taken_as_numpy_does():
    samples = Samples(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1], columns=["a", "b"], classes=["no", "yes"])
    assert samples.columns == ("a", "b")
    assert samples.classes == ("no", "yes")
    for rows in ([1, 3], np.array([False, True, False, True]), slice(1, None, 2), [-3, -1]):
        assert samples.take(rows).features.tolist() == [[2.0, 3.0], [6.0, 7.0]]
