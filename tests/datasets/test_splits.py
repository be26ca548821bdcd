from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessbits.datasets import Samples, load_samples
from lessbits.datasets.splits import split_labels, split_samples
from lessbits.errors import InputError

SHARED = Path(__file__).parents[3] / "shared" / "data"
EQUAL = ("iid", "sorted")
COMPLETE = ("dirichlet", "dirichlet:0.01", "dirichlet:100", "uneven", "uneven:1", "uneven:50")


def make(labels) -> Samples:
    labels = np.asarray(labels, dtype=float)
    return Samples(np.ones((len(labels), 1)), labels, "made")


def sizes_of(parts) -> list[int]:
    return [len(part) for part in parts]


@st.composite
def cases(draw):
    """Samples of a few classes, and at most as many nodes."""
    labels = draw(st.lists(st.integers(-2, 3), min_size=1, max_size=80))
    return make(labels), draw(st.integers(1, len(labels))), draw(st.integers(0, 2**32))


@pytest.mark.parametrize("how", EQUAL + COMPLETE)
@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_a_split_is_a_partition_fixed_by_its_seed(how, case):
    samples, nodes, seed = case
    parts = split_samples(samples, nodes, how, seed)
    rows = np.concatenate(parts)
    assert len(parts) == nodes
    assert min(sizes_of(parts)) >= 1
    assert len(np.unique(rows)) == len(rows)
    assert np.issubdtype(rows.dtype, np.integer)
    assert set(rows) <= set(range(samples.count))
    if how in EQUAL:
        assert sizes_of(parts) == [samples.count // nodes] * nodes
    else:
        assert len(rows) == samples.count
    for part, again in zip(parts, split_samples(samples, nodes, how, seed), strict=True):
        np.testing.assert_array_equal(part, again)


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_sorted_goes_by_label_keeps_the_order_and_drops_the_last(case):
    samples, nodes, seed = case
    rows = np.concatenate(split_samples(samples, nodes, "sorted", seed))
    expected = sorted(range(samples.count), key=lambda row: (samples.labels[row], row))
    assert rows.tolist() == expected[: len(rows)]


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 400), share=st.floats(0, 1), ratio=st.floats(1, 100))
def test_uneven_sizes_never_shrink(count, share, ratio):
    nodes = max(1, int(count * share))
    sizes = sizes_of(split_samples(make(np.zeros(count)), nodes, f"uneven:{ratio}"))
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("how", ["iid", "dirichlet", "uneven"])
def test_the_seed_matters_where_chance_does(how):
    samples = make(np.arange(200) % 3)
    first, other = (np.concatenate(split_samples(samples, 5, how, seed)) for seed in (0, 1))
    assert first.tolist() != other.tolist()


def test_sorted_is_the_default_and_needs_no_seed():
    samples = make([1, 0, 1, 0, 1])
    assert [part.tolist() for part in split_samples(samples, 2)] == [[1, 3], [0, 2]]
    assert [part.tolist() for part in split_samples(samples, 2, seed=7)] == [[1, 3], [0, 2]]


@pytest.mark.parametrize(("name", "kept", "dropped"), [("w1a", 2464, 13), ("w8a", 49744, 5)])
def test_the_papers_split(name, kept, dropped):
    source = SHARED / f"{name}.libsvm.xz"
    if not source.is_file():
        pytest.skip(f"the LIBSVM data sets are not in {SHARED}")
    samples = load_samples(source)
    parts = split_samples(samples, 16, "sorted")
    assert sizes_of(parts) == [kept // 16] * 16
    assert samples.count - kept == dropped
    labels = samples.labels[np.concatenate(parts)]
    assert np.all(np.diff(labels) >= 0)
    assert np.count_nonzero(labels > 0) == np.count_nonzero(samples.labels > 0) - dropped


def test_sorted_sorts_a_regression_target():
    samples = load_samples("diabetes")
    parts = split_samples(samples, 8, "sorted")
    means = [samples.labels[part].mean() for part in parts]
    assert means == sorted(means)


def test_iid_gives_every_node_about_the_same_mix():
    samples = make(np.repeat([0, 1], 5000))
    shares = [samples.labels[part].mean() for part in split_samples(samples, 10, "iid")]
    assert np.all(np.abs(np.array(shares) - 0.5) < 0.08)


def test_dirichlet_is_more_uneven_the_smaller_its_parameter():
    samples = make(np.arange(20_000) % 10)

    def skew(how):
        """Return the largest class's share, on average over nodes: 0.1 when even, 1 when a node sees one class."""
        counts = [
            np.bincount(samples.labels[part].astype(int), minlength=10) for part in split_samples(samples, 10, how)
        ]
        return np.mean([count.max() / count.sum() for count in counts])

    assert skew("dirichlet:1000") < 0.13
    assert skew("dirichlet:1000") < skew("dirichlet") < skew("dirichlet:0.05")
    assert skew("dirichlet:0.05") > 0.5


def test_dirichlet_proportions_have_the_right_variance():
    # A node's share of a class has mean 1/n and variance (1/n)(1 − 1/n)/(nA + 1).
    nodes, concentration, classes = 10, 0.5, 100
    samples = make(np.repeat(np.arange(classes), 500))
    parts = split_samples(samples, nodes, f"dirichlet:{concentration}", seed=3)
    shares = np.array([np.bincount(samples.labels[part].astype(int), minlength=classes) / 500 for part in parts])
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    assert shares.var() == pytest.approx((1 / nodes) * (1 - 1 / nodes) / (nodes * concentration + 1), rel=0.15)
    assert np.all(np.abs(shares.mean(axis=1) - 1 / nodes) < 0.05)


@pytest.mark.parametrize("concentration", ["1e-300", "1e-6", "1e12"])
def test_extreme_concentrations_still_give_every_node_a_sample(concentration):
    parts = split_samples(make(np.arange(300) % 2), 100, f"dirichlet:{concentration}")
    assert min(sizes_of(parts)) >= 1
    assert sum(sizes_of(parts)) == 300


@pytest.mark.parametrize(("how", "ratio"), [("uneven", 4), ("uneven:10", 10), ("uneven:1", 1)])
def test_uneven_sizes_grow_geometrically(how, ratio):
    sizes = np.array(sizes_of(split_samples(make(np.zeros(100_000)), 9, how)))
    np.testing.assert_allclose(sizes[1:] / sizes[:-1], ratio ** (1 / 8), rtol=1e-3)
    assert sizes[-1] / sizes[0] == pytest.approx(ratio, rel=1e-3)


def test_uneven_with_hardly_enough_samples():
    # Nearly all would go to the last node; it hands one to each that has none.
    assert sizes_of(split_samples(make(np.zeros(12)), 10, "uneven:1e12")) == [1] * 9 + [3]


def test_many_nodes_are_quick():
    parts = split_samples(make(np.arange(60_000) % 2), 50_000, "dirichlet:0.01")
    assert min(sizes_of(parts)) == 1


def message_of(samples, nodes, how="sorted", seed=0) -> str:
    with pytest.raises(InputError) as caught:
        split_samples(samples, nodes, how, seed)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize("how", EQUAL + COMPLETE)
def test_fewer_samples_than_nodes(how):
    message = message_of(make([0, 1, 0]), 4, how)
    assert "has 3 samples for 4 nodes" in message
    assert "at most 3 nodes" in message


@pytest.mark.parametrize("nodes", [0, -1, 2.5, "3"])
def test_a_wrong_number_of_nodes(nodes):
    assert f"nodes is {nodes!r}" in message_of(make([0, 1]), nodes)


@pytest.mark.parametrize("seed", [-1, 0.5, None])
def test_a_wrong_seed(seed):
    assert f"seed is {seed!r}" in message_of(make([0, 1]), 2, "iid", seed)


def test_an_unknown_split_gets_the_nearest_one():
    assert "unknown split 'dirichlett': did you mean 'dirichlet'?" in message_of(make([0, 1]), 2, "dirichlett:0.3")
    assert "choose one of iid, sorted, dirichlet, uneven" in message_of(make([0, 1]), 2, "")


@pytest.mark.parametrize("parameter", ["0", "-1", "nan", "inf", "1e300", "abc", "", "1:2"])
def test_a_wrong_concentration(parameter):
    message = message_of(make([0, 1]), 2, f"dirichlet:{parameter}")
    assert f"the split is 'dirichlet:{parameter}'" in message
    assert "above 0" in message


@pytest.mark.parametrize("parameter", ["0.99", "-4", "nan", "inf", "x", ""])
def test_a_wrong_ratio(parameter):
    assert "at least 1" in message_of(make([0, 1]), 2, f"uneven:{parameter}")


@pytest.mark.parametrize("how", ["iid:3", "sorted:", "sorted:label"])
def test_splits_without_a_number(how):
    assert "takes no number" in message_of(make([0, 1]), 2, how)


def test_dirichlet_needs_classes():
    assert "214 different labels" in message_of(load_samples("diabetes"), 4, "dirichlet")
    assert "not whole numbers" in message_of(make([0.5, 1, 2]), 2, "dirichlet")


def test_labels_alone_are_split_as_samples_are():
    labels = np.repeat(["cat", "dog", "owl"], [40, 50, 60])
    parts = split_labels(labels, nodes=5, concentration=0.1, seed=3)
    assert sorted(np.concatenate(parts)) == list(range(150))
    assert min(map(len, parts)) >= 1
    numbers = np.unique(labels, return_inverse=True)[1]
    samples = Samples(np.zeros((150, 1)), numbers.astype(float), "animals")
    for ours, theirs in zip(parts, split_samples(samples, 5, "dirichlet:0.1", seed=3), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_small_concentration_makes_nodes_differ():
    labels = np.arange(10_000) % 10

    def largest_share(concentration):
        parts = split_labels(labels, 8, concentration, seed=0)
        return np.mean([np.bincount(labels[part], minlength=10).max() / len(part) for part in parts])

    assert largest_share(0.1) > 0.3
    assert largest_share(1000.0) < 0.15


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": [[1]]}, "one for each sample"),
        ({"labels": np.arange(101)}, "101 different labels"),
        ({"concentration": 0}, "above 0"),
        ({"concentration": -1}, "concentration"),
        ({"nodes": 7}, "at most 6 nodes"),
    ],
)
def test_wrong_label_splits_are_told_in_one_line(change, words):
    with pytest.raises(InputError, match=words):
        split_labels(**{"labels": [0, 1, 0, 1, 0, 1], "nodes": 2} | change)
