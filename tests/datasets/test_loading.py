"""Loading samples: by path, by name, and what is said of files that cannot be read."""

import bz2
import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from scipy import sparse

import lessbits.errors
from lessbits.datasets import load_samples
from lessbits.datasets.download import BUILT_IN
from lessbits.datasets.loading import _read_table_of_scikit_learn
from lessbits.errors import InputError, MissingDataError

SHARED = Path(__file__).parents[3] / "shared" / "data"
SOURCE = Path(lessbits.errors.__file__).parents[1]
TEXT = "+1 1:0.5 3:-2\n-1\n\n# a comment\n-1 2:1e-3 # another\n"
ROWS = [[0.5, 0, -2], [0, 0, 0], [0, 1e-3, 0]]
COMPRESSORS = {"": bytes, ".xz": lzma.compress, ".bz2": bz2.compress, ".gz": gzip.compress}


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """No test sees the user's own data, writes to the user's cache, or reaches past this machine."""
    monkeypatch.delenv("LESSBITS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LESSBITS_DATA_URL", "http://127.0.0.1:9/")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the LIBSVM data sets are not in {SHARED}")
    return SHARED


def write(path: Path, text: str | bytes = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode() if isinstance(text, str) else text
    compressed = path.suffix if path.suffix in COMPRESSORS else ""
    path.write_bytes(COMPRESSORS[compressed](content))
    return path


def message_of(source, kind=InputError, **options) -> str:
    with pytest.raises(kind) as caught:
        load_samples(source, **options)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# Real sets


def test_w1a_has_its_published_shape_by_name_and_by_path(shared, monkeypatch):
    monkeypatch.setenv("LESSBITS_DATA", str(shared))
    for source in ("w1a", "w1a.libsvm.xz", shared / "w1a.libsvm.xz", str(shared / "w1a.libsvm.xz")):
        samples = load_samples(source, download=False)
        assert (samples.count, samples.dim, samples.name) == (2477, 300, "w1a")
        assert np.count_nonzero(samples.binary_labels() == 1) == 72
        assert np.count_nonzero(np.diff(samples.features.indptr) == 0) == 207


def test_rows_are_csr_float64_with_sorted_indices(shared):
    features = load_samples(shared / "w1a.libsvm.xz").features
    assert isinstance(features, sparse.csr_matrix)
    assert features.dtype == np.float64
    assert features.indices.dtype == np.int32
    assert features.has_canonical_format


def test_mushrooms_labels_one_and_two_become_minus_and_plus(shared):
    samples = load_samples(shared / "mushrooms.libsvm.xz")
    assert (samples.count, samples.dim) == (8124, 112)
    assert set(samples.labels) == {1.0, 2.0}
    np.testing.assert_array_equal(samples.binary_labels(), 2 * samples.labels - 3)


@pytest.mark.parametrize(
    ("name", "count", "dim", "classes"),
    [("breast-cancer", 569, 30, 2), ("digits", 1797, 64, 10), ("iris", 150, 4, 3), ("wine", 178, 13, 3)],
)
def test_built_in_sets_need_no_network(name, count, dim, classes):
    samples = load_samples(name, download=False)
    assert (samples.count, samples.dim, samples.name) == (count, dim, name)
    labels, number = samples.class_labels()
    assert number == classes
    assert set(labels) == set(range(classes))
    assert samples.features.dtype == samples.labels.dtype == np.float64


def test_diabetes_is_a_regression_target():
    assert load_samples("diabetes").labels.max() == 346


# Where files are looked for


@pytest.mark.parametrize("compression", COMPRESSORS)
@pytest.mark.parametrize("plain", ["", ".libsvm", ".txt", ".data"])
def test_every_spelling_of_a_path_gives_the_same_samples(tmp_path, plain, compression):
    samples = load_samples(write(tmp_path / f"tiny{plain}{compression}"))
    np.testing.assert_array_equal(samples.features.toarray(), ROWS)
    np.testing.assert_array_equal(samples.labels, [1, -1, -1])
    assert samples.name == ("tiny.data" if plain == ".data" else "tiny")


@pytest.mark.parametrize("compression", COMPRESSORS)
@pytest.mark.parametrize("plain", ["", ".libsvm", ".txt"])
def test_a_name_is_found_in_the_data_folder_and_in_the_cache(tmp_path, monkeypatch, plain, compression):
    write(tmp_path / "cache" / "lessbits" / "data" / f"mine{plain}{compression}")
    assert load_samples("mine").count == 3
    write(tmp_path / "folder" / f"mine{plain}{compression}", "1 1:1\n2 2:1\n")
    monkeypatch.setenv("LESSBITS_DATA", str(tmp_path / "folder"))
    assert load_samples("mine").count == 2


def test_own_files_go_before_built_in_sets_and_the_working_folder_before_all(tmp_path, monkeypatch):
    monkeypatch.setenv("LESSBITS_DATA", str(tmp_path))
    write(tmp_path / "iris.libsvm")
    assert load_samples("iris").count == 3
    write(tmp_path / "work" / "iris", "1 1:1\n")
    assert load_samples("iris").count == 1


def test_a_folder_of_that_name_is_no_file(tmp_path):
    (tmp_path / "work" / "iris").mkdir()
    assert load_samples("iris").count == 150


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "tiny.libsvm")
    assert load_samples("~/tiny.libsvm").count == 3
    monkeypatch.setenv("LESSBITS_DATA", "~")
    assert load_samples("tiny").count == 3


# The number of features


def test_features_widen_the_rows(tmp_path):
    samples = load_samples(write(tmp_path / "tiny"), features=7)
    np.testing.assert_array_equal(samples.features.toarray(), np.pad(ROWS, ((0, 0), (0, 4))))


def test_a_catalogue_name_implies_its_width_unless_told_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("LESSBITS_DATA", str(tmp_path))
    path = write(tmp_path / "a9a.txt.gz")
    assert load_samples("a9a").dim == 123
    assert load_samples("a9a", features=5).dim == 5
    assert load_samples(path).dim == 3  # Somebody's own file: a9a has 32561 samples.


def test_samples_without_features_are_valid_when_the_width_is_given(tmp_path):
    path = write(tmp_path / "labels", "1\n-1\n")
    assert load_samples(path, features=4).features.toarray().tolist() == [[0.0] * 4] * 2
    assert "number of features" in message_of(path)


def test_too_few_features_name_the_line(tmp_path):
    text = message_of(write(tmp_path / "tiny", "# first\n1 1:1\n1 9:1\n"), features=4)
    assert "line 3" in text
    assert "feature 9" in text
    assert "at least 9" in text


@pytest.mark.parametrize("features", [0, -3, 2.5, 2**31, "4"])
def test_a_wrong_number_of_features(tmp_path, features):
    assert f"is {features!r}" in message_of(write(tmp_path / "tiny"), features=features)


def test_built_in_sets_have_one_width():
    assert load_samples("iris", features=4).dim == 4
    assert "has 4" in message_of("iris", features=5)


# Bad files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 1:1\n1 hello\n", "line 2, is malformed ('1 hello')"),
        ("1 1:1\n1 0:1\n", "line 2, has a feature index below 1 ('1 0:1')"),
        ("0 0:1 1:1\n", "line 1, has a feature index below 1"),
        ("1 -2:1\n", "line 1, has a feature index below 1"),
        ("# c\n\n1 2:1 1:1\n", "line 3, is malformed"),
        ("1 1:1 1:2\n", "line 1, is malformed"),
        ("spam 1:1\n", "line 1, is malformed"),
        ("1,2 1:1\n", "line 1, is malformed"),
        ("1 1:1\n-1 2:", "line 2, is malformed"),
        ("1 1:1\n-1 2", "line 2, is malformed"),
        ("1 1.5:1\n", "line 1, is malformed"),
        ("1 99999999999:1\n", "line 1, is malformed"),
        ("1 1:1\n1 2:nan\n", "line 2, has a NaN or infinite value"),
        ("1 1:1\n\n1 2:-inf 3:1\n", "line 3, has a NaN or infinite value"),
        ("1\n1 1:1\nnan 1:1\n", "line 3, has a NaN or infinite value"),
        ("1 1:1e999\n", "line 1, has a NaN or infinite value"),
        ("", "has no samples"),
        ("# only this\n\n", "has no samples"),
    ],
)
@pytest.mark.parametrize("compression", ["", ".xz"])
def test_a_bad_file_is_named_with_its_line(tmp_path, text, expected, compression):
    path = write(tmp_path / f"bad.libsvm{compression}", text)
    message = message_of(path)
    assert expected in message
    assert message.startswith(repr(str(path)))


def test_binary_garbage_is_shown_safely(tmp_path):
    garbage = np.random.default_rng(0).bytes(5000)
    message = message_of(write(tmp_path / "garbage", garbage))
    assert "line 1, is malformed" in message
    assert message.isprintable()


@pytest.mark.parametrize("compression", [".xz", ".bz2", ".gz"])
def test_a_cut_or_damaged_compressed_file(tmp_path, compression):
    path = write(tmp_path / f"tiny{compression}", "".join(f"1 {index}:0.{index}\n" for index in range(1, 3000)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "cannot read" in message_of(path)
    path.write_bytes(whole[:100] + bytes(100) + whole[200:])
    assert str(path) in message_of(path)
    path.write_bytes(TEXT.encode())  # Not compressed at all.
    assert "cannot read" in message_of(path)


def test_a_cut_plain_file(shared, tmp_path):
    whole = lzma.decompress((shared / "w1a.libsvm.xz").read_bytes())
    cut = whole[:5000]
    cut = cut[: cut.rindex(b":") + 1]
    line = cut.count(b"\n") + 1
    assert f"line {line}, is malformed" in message_of(write(tmp_path / "w1a", cut))


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = write(tmp_path / "tiny")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    assert "(Permission denied)" in message_of(path)


# Names and paths that are not there


def test_an_unknown_name_gets_the_nearest_one_and_the_ways_out(tmp_path):
    message = message_of("breastcancer", MissingDataError)
    assert "unknown data set 'breastcancer': did you mean 'breast-cancer'?" in message
    assert "path of a libsvm file" in message
    assert str(tmp_path / "cache" / "lessbits" / "data") in message
    assert "LESSBITS_DATA" in message


@pytest.mark.parametrize("name", ["", "..", "a\nb", "x" * 5000, "nul\0", "~nobody-here"])
def test_names_that_no_file_can_have(name):
    assert "unknown data set" in message_of(name, MissingDataError)


@pytest.mark.parametrize("path", ["no/such/file", "../w1a.libsvm", "/w1a", Path("w1a.libsvm")])
def test_a_missing_path_is_never_taken_for_a_name(path):
    assert f"there is no file {str(path)!r}" in message_of(path, MissingDataError)


def test_without_download_a_catalogue_name_says_where_its_file_belongs():
    message = message_of("w8a", MissingDataError, download=False)
    assert "switched off" in message
    assert "w8a.libsvm" in message
    assert "LESSBITS_DATA" in message


def test_importing_does_not_pay_for_what_only_loading_needs():
    program = """
import sys
import lessbits.datasets.download, lessbits.datasets.shards, lessbits.datasets.splits
print([name for name in ("jax", "scipy", "sklearn", "platformdirs", "http") if name in sys.modules])
"""
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_data_sets_of_scikit_learn_are_its_own_even_if_it_is_not_imported(name):
    samples = load_samples(name)
    rows, labels = getattr(sklearn.datasets, BUILT_IN[name])(return_X_y=True)
    np.testing.assert_array_equal(samples.features, rows)
    np.testing.assert_array_equal(samples.labels, labels)
    read = _read_table_of_scikit_learn(name)
    assert (read is None) == (name == "diabetes")  # whose file holds unscaled numbers
