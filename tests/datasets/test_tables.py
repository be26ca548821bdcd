"""CSV, Parquet and `.npz` files, sites and class names; and what is said of tables that cannot be used."""

import gzip
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet
import pytest

from lessbits import InputError, Samples, load_samples
from lessbits._internal.team import SINGLE_PROCESS, SingleProcessTeam
from lessbits.datasets.shards import count_shards, load_shards
from lessbits.datasets.tables import table_format

FRAME = pandas.DataFrame(
    {
        "hospital": ["Bern", "Basel", "Bern", "Genève"],
        "age": [40, 51, 62, 73],
        "dose": [0.5, 1.25, -2.0, 3e-3],
        "outcome": ["well", "sick", "sick", "well"],
    }
)
ROWS = [[40, 0.5], [51, 1.25], [62, -2.0], [73, 3e-3]]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("LESSBITS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def arrays(**other):
    return {"features": FRAME[["age", "dose"]].to_numpy(), "labels": FRAME["outcome"].to_numpy(str), **other}


WRITERS = {
    "mine.csv": lambda path: FRAME.to_csv(path, index=False),
    "mine.CSV.gz": lambda path: FRAME.to_csv(path, index=False, compression="gzip"),
    "mine.csv.zip": lambda path: FRAME.to_csv(path, index=False),
    "mine.tsv": lambda path: FRAME.to_csv(path, index=False, sep="\t"),
    "europe.csv": lambda path: FRAME.to_csv(path, index=False, sep=";", decimal=",", encoding="utf-8-sig"),
    "semicolons.csv": lambda path: FRAME.to_csv(path, index=False, sep=";"),
    "index.csv": lambda path: FRAME.to_csv(path),
    "mine.parquet": lambda path: FRAME.to_parquet(path),
    "mine.npz": lambda path: np.savez(path, **arrays(sites=FRAME["hospital"].to_numpy(str))),
    "named.npz": lambda path: np.savez(
        path, X=arrays()["features"], outcome=arrays()["labels"], hospital=FRAME["hospital"].to_numpy(str)
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_form_of_a_table_gives_the_same_samples(name, tmp_path, caplog):
    WRITERS[name](name)
    columns = {} if name == "mine.npz" else {"target": "outcome", "site": "hospital"}
    samples = load_samples(tmp_path / name, **columns)
    np.testing.assert_array_equal(samples.features, ROWS)
    assert samples.classes == ("sick", "well")
    assert samples.labels.tolist() == [1, 0, 0, 1]
    assert samples.site_names == ("Basel", "Bern", "Genève")
    assert [rows.tolist() for rows in samples.site_rows()] == [[1], [0, 2], [3]]
    assert samples.columns == (None if name.endswith("npz") else ("age", "dose"))
    assert samples.name == name.split(".")[0]
    assert ("numbers the rows, so it is not used" in caplog.text) == (name == "index.csv")
    assert load_samples(name, features=2, **columns).count == 4


def test_columns_can_be_ignored():
    FRAME.assign(patient=["p1", "p2", "p3", "p4"]).to_csv("mine.csv", index=False)
    columns = {"target": "outcome", "site": "hospital"}
    np.testing.assert_array_equal(load_samples("mine.csv", ignore=["patient"], **columns).features, ROWS)
    with pytest.raises(InputError, match=r"has no column 'patent' for ignore: did you mean 'patient'\?"):
        load_samples("mine.csv", ignore=["patent"], **columns)
    np.savez("mine.npz", **arrays())
    with pytest.raises(InputError, match="columns to ignore were given"):
        load_samples("mine.npz", ignore=["patient"])


def test_what_is_done_to_samples_keeps_their_names():
    samples = Samples.from_frame(FRAME, target="outcome", site="hospital").normalized_rows().take(np.array([2, 0]))
    assert samples.sites.tolist() == ["Bern", "Bern"]
    assert (samples.classes, samples.columns) == (("sick", "well"), ("age", "dose"))
    assert repr(samples) == "Samples('frame', 2 samples, 2 features, dense, 2 different labels, 1 sites)"
    assert samples.binary_labels().tolist() == [-1, 1]


def test_numbers_of_sites_are_sorted_as_numbers():
    samples = Samples(np.eye(4), [0, 1, 0, 1], sites=[10, 9, 10, 2.0])
    assert samples.site_names == ("2", "9", "10")
    frame = FRAME.assign(hospital=pandas.Categorical([3, 20, 3, 100]), outcome=[True, False, False, True])
    samples = Samples.from_frame(frame, "outcome", "hospital")
    assert samples.site_names == ("3", "20", "100")
    assert samples.labels.tolist() == [1, 0, 0, 1]
    assert samples.classes is None


def test_text_labels_are_named_in_messages():
    with pytest.raises(InputError, match=r"has 3 classes \(labels 'a', 'b', 'c'\)"):
        Samples(np.eye(3), ["c", "a", "b"]).binary_labels()


def changed(**columns):
    return Samples.from_frame(FRAME.assign(**columns), "outcome", "hospital")


FRAME_MISTAKES = {
    "target": (lambda: Samples.from_frame(FRAME, "outcom"), "no column 'outcom' for target: did you mean 'outcome'?"),
    "site": (lambda: Samples.from_frame(FRAME, "outcome", "Hospitals"), "for site: did you mean 'hospital'?"),
    "nothing near": (lambda: Samples.from_frame(FRAME, "xyz"), "its columns are hospital, age, dose, outcome"),
    "both": (lambda: Samples.from_frame(FRAME, "outcome", "outcome"), "both the column 'outcome'"),
    "no features": (lambda: Samples.from_frame(FRAME[["age"]], "age"), "no columns besides 'age'"),
    "no frame": (lambda: Samples.from_frame(FRAME.to_numpy(), "age"), "must be a pandas DataFrame"),
    "twice": (lambda: Samples.from_frame(FRAME.set_axis(list("abca"), axis=1), "b"), "several columns named 'a'"),
    "text": (lambda: Samples.from_frame(FRAME, "outcome"), "column 'hospital' holds no numbers (such as 'Bern')"),
    "several": (lambda: Samples.from_frame(FRAME, "age"), "'Bern'), and so do 'outcome': leave it out"),
    "dates": (
        lambda: changed(age=pandas.date_range("2020", periods=4)),
        "or make it numbers of days, for example with",
    ),
    "dates as text": (lambda: changed(age=["2020-01-31"] * 4), "or make it numbers of days, for example with"),
    "no dates": (lambda: changed(age=["10-20"] * 4), "or make it numbers, for example with pandas.get_dummies"),
    "missing": (lambda: changed(age=[1, None, 2, None]), "2 in all, the first in row 1, column 'age'"),
    "NA": (lambda: changed(age=pandas.array([1, None, 2, 3], dtype="Int64")), "row 1, column 'age'"),
    "infinite": (lambda: changed(dose=[1, 2, 3, np.inf]), "row 3, column 'dose'"),
    "no label": (lambda: changed(outcome=["a", None, "b", None]), "labels of data set 'frame' are missing in 2 rows"),
    "NaN label": (lambda: changed(outcome=[1, 2, np.nan, 1]), "the first in row 2"),
    "mixed labels": (lambda: changed(outcome=["a", 1, "b", 2]), "of several kinds (int, str)"),
    "no site": (lambda: changed(hospital=["a", "b", None, "a"]), "sites of data set 'frame' are missing in 1 row,"),
    "NaN site": (lambda: changed(hospital=[1, 2, np.nan, 1]), "missing in row 2"),
    "few sites": (lambda: Samples(np.eye(3), [0, 1, 1], sites=["a"]), "has 3 rows and 1 site,"),
    "no sites": (lambda: Samples(np.eye(3), [0, 1, 1]).site_rows(), "has no sites"),
}


@pytest.mark.parametrize("name", FRAME_MISTAKES)
def test_mistakes_in_frames_get_one_line(name):
    make, says = FRAME_MISTAKES[name]
    with pytest.raises(InputError) as error:
        make()
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_many_columns_are_not_all_listed():
    with pytest.raises(InputError, match=r"columns are 0, 1, .*, 11, … \(300 in all\)$"):
        Samples.from_frame(pandas.DataFrame(np.ones((2, 300))), "label")


FILE_MISTAKES = {
    "mine.csv": ("a,b\n1,2\n", {}, "give its name as target, one of a, b"),
    "empty.csv": ("", {"target": "a"}, "cannot read"),
    "header.csv": ("a,b\n", {"target": "a"}, "has no rows"),
    "numbers.csv": ("1.5,2\n3,4\n", {"target": "2"}, "holds numbers, but it must name the columns"),
    "long.csv": ("a,b\n1,2,3\n4,5,6\n", {"target": "a"}, "more fields than the first line names"),
    "ragged.csv": ("a,b\n1,2\n1,2,3,4\n", {"target": "a"}, "cannot read"),
    "latin.csv": ("a,b\n1,Genève\n".encode("latin-1"), {"target": "a"}, "is no UTF-8 text"),
    "cut.csv.gz": (gzip.compress(b"a,b\n" + b"1,2\n" * 999)[:30], {"target": "a"}, "cannot read"),
    "bad.parquet": ("no table", {"target": "a"}, "cannot read"),
    "bad.npz": ("no arrays", {}, "cannot read"),
    "mine.libsvm": ("1 1:1\n", {"target": "a"}, "target is 'a', but 'mine.libsvm' has no named columns"),
    "wide.csv": ("a,b\n1,2\n", {"target": "a", "features": 7}, "number of features is 7, but data set 'wide' has 1"),
}


@pytest.mark.parametrize("name", FILE_MISTAKES)
def test_bad_files_get_one_line(name, tmp_path):
    content, options, says = FILE_MISTAKES[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as error:
        load_samples(name, **options)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ({"a": np.ones(2)}, {}, "no array 'features' or 'X' for the features: its arrays are a"),
        ({"X": np.ones((2, 2)), "y": np.ones(2)}, {"target": "z"}, "no array 'z' for the labels"),
        ({"X": np.ones((2, 2)), "y": np.array([1, None])}, {}, "holds Python objects, which are not read"),
        ({"X": np.ones((2, 2)), "y": np.ones(2)}, {"site": "clinic"}, "no array 'clinic' for the sites"),
    ],
)
def test_bad_arrays_get_one_line(content, options, says):
    np.savez("bad.npz", **content)
    with pytest.raises(InputError) as error:
        load_samples("bad.npz", **options)
    assert says in str(error.value)


def test_absent_tables_and_columns_of_sets_without_names():
    for name, options, says in (
        ("absent.csv", {}, "there is no file 'absent.csv' in this folder"),
        ("iris", {"site": "clinic"}, "site is 'clinic', but 'iris' has no named columns"),
    ):
        with pytest.raises(InputError, match=says):
            load_samples(name, **options)


def test_parquet_without_its_package_says_what_to_install(monkeypatch):
    FRAME.to_parquet("mine.parquet")
    for package in ("pyarrow", "pyarrow.parquet", "fastparquet"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"needs the package pyarrow: pip install 'lessbits\[parquet\]'"):
        load_samples("mine.parquet", target="outcome")


def test_formats_are_known_by_their_names():
    names = ["a.csv", "a.csv.xz", "b.tsv", "c.parquet", "d.npz", "e.libsvm", "f.gz", "g.npz.gz", "part-{node}.csv"]
    formats = ["csv", "csv", "csv", "parquet", "npz", None, None, None, "csv"]
    assert [table_format(name) for name in names] == formats


class WithAnother(SingleProcessTeam):
    """A team with one more process, which has given answers."""

    def __init__(self, *theirs):
        self.theirs = list(theirs)

    def all_gather(self, rows):
        return np.concatenate([rows, self.theirs.pop(0)])


def test_one_table_per_node():
    for node, order in enumerate((["age", "dose"], ["dose", "age"], ["age", "dose"])):
        FRAME.iloc[[node]][[*order, "outcome"]].to_csv(f"part-{node}.csv", index=False)
    assert count_shards("part-{node}.csv") == 3
    shards = load_shards("part-{node}.csv", range(3), None, SINGLE_PROCESS, target="outcome")
    assert [part.features.tolist() for part in shards.samples] == [[row] for row in ROWS[:3]]
    assert [part.tolist() for part in shards.targets("logistic")] == [[1], [-1], [-1]]
    with pytest.raises(InputError, match="the labels of the files are text, such as 'sick', but least squares"):
        shards.targets("least-squares")
    # Another process has a third class, which stands before the others.
    names = np.frombuffer(b'"dead"\n', np.uint8)
    team = WithAnother(np.array([2]), np.frombuffer(b'"age"\n"dose"\n', np.uint8), np.array([True]), names, np.zeros(1))
    shards = load_shards("part-{node}.csv", [0, 1], None, team, target="outcome")
    assert [part.tolist() for part in shards.targets("softmax")] == [[2], [1]]
    assert team.theirs == []


def test_tables_of_nodes_that_differ_are_refused():
    FRAME[["age", "dose", "outcome"]].to_csv("part-0.csv", index=False)
    for frame, says in (
        (FRAME[["age", "outcome"]], "has 1 features, but another node has 2"),
        (FRAME[["age", "dose", "outcome"]].rename(columns={"dose": "size"}), "'dose' is missing, 'size' is new"),
        (FRAME[["age", "dose"]].assign(outcome=1), "numbers as labels"),
    ):
        frame.to_csv("part-1.csv", index=False)
        with pytest.raises(InputError, match=says):
            load_shards("part-{node}.csv", range(2), None, SINGLE_PROCESS, target="outcome")


def test_spaces_around_the_names_of_sites_make_no_further_sites(caplog):
    samples = Samples(np.eye(4), [0, 1, 0, 1], "clinics", sites=["Bern", "Bern ", " Basel", "Basel"])
    assert samples.site_names == ("Basel", "Bern")
    assert "spaces around the names of sites of data set 'clinics' are left out (such as in 'Bern ')" in caplog.text


def test_locked_archives_and_unknown_compression_get_one_line():
    for name in ("locked.csv.zip", "locked.npz"):
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("features.npy" if name.endswith("npz") else "a.csv", "a,b\n1,2\n")
        content = bytearray(Path(name).read_bytes())
        flags = content.index(b"PK\x01\x02") + 8
        for bit, said in ((0x01, "encrypted"), (0x20, "flag bit 5")):
            content[6] = content[flags] = bit
            Path(name).write_bytes(content)
            with pytest.raises(InputError, match=f"cannot read .*{said}"):
                load_samples(name, target="a")


@pytest.mark.parametrize("notes", [b"{}", b"[1]", b"[" * 100_000, b'{"columns": 5, "index_columns": ["zz"]}'])
def test_forged_notes_of_pandas_in_a_parquet_file_get_one_line(notes):
    table = pyarrow.Table.from_pandas(FRAME).replace_schema_metadata({b"pandas": notes})
    pyarrow.parquet.write_table(table, "forged.parquet")
    with pytest.raises(InputError, match=r"cannot read 'forged\.parquet'"):
        load_samples("forged.parquet", target="outcome")


def test_a_header_of_brackets_is_no_array():
    with zipfile.ZipFile("brackets.npz", "w") as archive:
        archive.writestr("features.npy", b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000)
    with pytest.raises(InputError, match="its first line does not describe an array"):
        load_samples("brackets.npz")
