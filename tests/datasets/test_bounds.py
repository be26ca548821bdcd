"""Files that unpack to more than the memory holds, or claim to: refused with one line, before the memory is taken."""

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import pytest

from lessbits import InputError, load_samples, make_network, make_problem
from lessbits._internal import bounds

GIGABYTE = 10**9


@pytest.fixture
def little_memory(monkeypatch):
    """A machine with 10 MB, of which every look finds less."""
    looks = iter(range(10**9))
    monkeypatch.setattr(bounds, "LOOK_EVERY", 2**16)
    monkeypatch.setattr(bounds, "free_memory", lambda: 10_000_000 - 2_000_000 * next(looks))


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
@pytest.mark.parametrize("kind", ["libsvm", "csv", "one line"])
def test_packed_files_stop_before_the_memory_is_full(tmp_path, little_memory, suffix, pack, kind):
    text = {"libsvm": b"1 1:1 2:1\n", "csv": b"1.5,2.5\n", "one line": b"1 1:1 " + b" " * 100}[kind] * 50_000
    path = tmp_path / f"bomb.{'csv' if kind == 'csv' else 'libsvm'}.{suffix}"
    path.write_bytes(pack((b"a,b\n" if kind == "csv" else b"") + text))
    assert path.stat().st_size < len(text) / 50
    with pytest.raises(InputError, match=r"bomb\..* fills the memory: after 0\.000\d+ GB"):
        load_samples(path, target="a" if kind == "csv" else None)


def test_the_same_files_are_read_where_there_is_memory(tmp_path):
    (tmp_path / "mine.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1.5,2.5\n" * 50_000))
    assert load_samples(tmp_path / "mine.csv.gz", target="a").count == 50_000


def claiming(shape):
    """Return the first line of a .npy file that claims an array of this shape, and little more."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue() + bytes(64)


def write_archive(path, **contents):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(f"{name}.npy", content)


def test_arrays_that_claim_to_be_large(tmp_path):
    write_archive(tmp_path / "bomb.npz", X=claiming((10**6, 10**6)), y=claiming((10**6,)))
    with pytest.raises(InputError, match="claims an array of 8e"):
        load_samples(tmp_path / "bomb.npz")
    (tmp_path / "bomb.npy").write_bytes(claiming((10**6, 10**6)))
    with pytest.raises(InputError, match="claims an array of 8e"):
        make_network(tmp_path / "bomb.npy")


def test_arrays_that_unpack_to_much(tmp_path, monkeypatch):
    write_archive(tmp_path / "bomb.npz", X=claiming((1000, 1000))[:-64] + bytes(8 * 10**6), y=claiming((8,)))
    assert (tmp_path / "bomb.npz").stat().st_size < 20_000
    monkeypatch.setattr(bounds, "free_memory", lambda: 10**7)
    with pytest.raises(InputError, match=r"bomb\.npz' needs about 16 MB of memory, but 10 MB"):
        load_samples(tmp_path / "bomb.npz")


def test_a_column_of_one_value_that_unpacks_to_much(tmp_path, monkeypatch):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    pandas.DataFrame({"a": np.zeros(10**6), "b": np.zeros(10**6)}).to_parquet(tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 20_000
    monkeypatch.setattr(bounds, "free_memory", lambda: 10**7)
    with pytest.raises(InputError, match=r"bomb\.parquet' needs about 32 MB of memory, but 10 MB"):
        load_samples(tmp_path / "bomb.parquet", target="a")


def test_archives_of_text_that_unpack_to_much(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.csv", "a,b\n" + "1,2\n" * 10**6)
    monkeypatch.setattr(bounds, "free_memory", lambda: 10**6)
    with pytest.raises(InputError, match=r"bomb\.csv\.zip' needs about 8 MB of memory"):
        load_samples(tmp_path / "bomb.csv.zip", target="a")


@pytest.mark.parametrize("loss", ["logistic", "least-squares", "softmax"])
def test_a_feature_with_a_large_number(tmp_path, loss, monkeypatch):
    (tmp_path / "wide.libsvm").write_text("1 1000000000:1\n-1 1:0.5\n")
    samples = load_samples(tmp_path / "wide.libsvm")
    monkeypatch.setattr("lessbits.problems.design.free_memory", lambda: 16 * GIGABYTE)
    with pytest.raises(InputError, match="1,000,000,000 dimensions needs about 32 GB of memory, but 16 GB"):
        make_problem(loss, samples, nodes=2)


NETWORKS = {
    "far.txt": "0 2000000000\n",
    "far-weighted.txt": "0 1 0.5\n1 2000000000 0.5\n",
    "dense.mtx": "%%MatrixMarket matrix array real general\n1000000 1000000\n1\n",
    "sparse.mtx": "%%MatrixMarket matrix coordinate real symmetric\n2000000000 2000000000 1\n2 1 0.5\n",
    "entries.mtx": "%%MatrixMarket matrix coordinate real symmetric\n3 3 900000000000\n2 1 0.5\n",
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_claim_to_be_large(tmp_path, name, monkeypatch):
    (tmp_path / name).write_text(NETWORKS[name])
    monkeypatch.setattr(bounds, "free_memory", lambda: 4 * GIGABYTE)
    monkeypatch.setattr("lessbits.networks.weights.free_memory", lambda: 4 * GIGABYTE)
    with pytest.raises(InputError, match=r"needs about|disconnected|would have|links"):
        make_network(tmp_path / name)
