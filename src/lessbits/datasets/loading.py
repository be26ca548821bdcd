"""Loading samples: from a file, a data folder, scikit-learn or the LIBSVM page."""

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lessbits.datasets.download import BUILT_IN, CATALOGUE, download_samples, find_in_folders, not_found
from lessbits.datasets.libsvm import load_libsvm
from lessbits.datasets.samples import Samples
from lessbits.datasets.tables import load_table, table_format
from lessbits.errors import InputError, MissingDataError, check_flag, check_whole, shown

# Files with the label in the last column, and their lines before the data.
TABLES_OF_SCIKIT_LEARN = {
    "breast-cancer": ("breast_cancer.csv", 1),
    "digits": ("digits.csv.gz", 0),
    "iris": ("iris.csv", 1),
    "wine": ("wine_data.csv", 1),
}
LARGEST_WIDTH = 2**31 - 1  # scikit-learn reads feature indices as 32-bit integers


def load_samples(
    source: str | os.PathLike[str],
    features: int | None = None,
    download: bool = True,
    *,
    target: str | None = None,
    site: str | None = None,
    ignore: Sequence[str] = (),
) -> Samples:
    """Load a file by its path, or a data set by its name.

    Files: CSV (also tab-separated, and compressed), Parquet, NumPy's `.npz` with arrays `features` (or `X`), `labels`
    (or `y`) and optionally `sites`; every other file is read as libsvm (plain, .xz, .bz2 or .gz).
    A name is searched in the folder `$LESSBITS_DATA`, in the user's cache, among the small data sets of scikit-learn,
    and on the LIBSVM page.

    Args:
        source: Path of the file, or name of the data set.
        features: The number of features, if a libsvm file does not use all of them. It is known for the data sets that
            are downloaded by name.
        download: Whether to download a data set that is not found here.
        target: The column to predict, of a CSV or Parquet file.
        site: The column that names the site of each row. Each site is a node.
        ignore: Columns of a CSV or Parquet file that are not used, such as numbers of patients.

    >>> load_samples("breast-cancer")
    Samples('breast-cancer', 569 samples, 30 features, dense, 2 different labels)
    """
    if features is not None:
        check_whole("the number of features", features, 1, LARGEST_WIDTH)
    check_flag("download", download)
    given = os.fspath(source) if isinstance(source, str | os.PathLike) else None
    if not isinstance(given, str):
        raise InputError(
            f"the data are {shown(source)}, but they must be a path, or the name of a data set such as 'w1a'"
        )
    columns = _Columns(target, site, _ignored(ignore))
    path = Path(os.path.expanduser(given))
    # os.path returns False for names that no file can have; pathlib raises.
    if os.path.isfile(path):
        return _load_file(path, given, features, columns)
    if given != os.path.basename(given) or isinstance(source, os.PathLike):
        raise MissingDataError(
            f"there is no file {given!r}: give the path of a CSV, Parquet, .npz or libsvm file, or the name of a data "
            "set such as 'w1a'"
        )
    found = find_in_folders(given)
    if found is not None:
        # Not checksummed: the file may be the user's own version, and hashing would slow down every load.
        return _load_file(found, given, features, columns)
    if table_format(given):
        raise MissingDataError(f"there is no file {given!r} in this folder: check the name, or give its whole path")
    if given in BUILT_IN:
        columns.refuse(given)
        return _load_built_in(given, features)
    if given in CATALOGUE and download:
        return _load_file(download_samples(CATALOGUE[given]), given, features, columns)
    raise not_found(given)


def _ignored(ignore: Any) -> tuple[str, ...]:
    """Return the columns to leave out; a text would be taken for a list of its letters."""
    if isinstance(ignore, str) or not isinstance(ignore, Sequence):
        raise InputError(f"ignore is {shown(ignore)}, but it must be a list of columns, as in ignore=['id']")
    return tuple(ignore)


class _Columns(NamedTuple):
    """What the columns of a table are."""

    target: str | None
    site: str | None
    ignore: tuple[str, ...]

    def refuse(self, given: str) -> None:
        """Raise InputError if columns are named, of data without named columns."""
        for name, column in self._asdict().items():
            if column:
                raise InputError(
                    f"{name} is {column!r}, but {given!r} has no named columns: leave {name} out, or give a CSV, "
                    "Parquet or .npz file"
                )


def _load_file(path: Path, given: str, features: int | None, columns: _Columns) -> Samples:
    """Load a file by the suffix of its name."""
    if table_format(path.name) is None:
        columns.refuse(given)
        return load_libsvm(path, given, features)
    return _check_width(load_table(path, *columns), features)


def _load_built_in(name: str, features: int | None) -> Samples:
    """Load a data set that comes with scikit-learn, unchanged."""
    rows, labels = _read_table_of_scikit_learn(name) or _ask_scikit_learn(name)
    return _check_width(Samples(rows, labels, name), features)


def _read_table_of_scikit_learn(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Read the file of a data set in scikit-learn's folder, as importing scikit-learn takes more than a second.

    None if the file is not a plain table, or not where it is expected.
    """
    found = importlib.util.find_spec("sklearn")  # does not import it
    file, header = TABLES_OF_SCIKIT_LEARN.get(name, (None, 0))
    if found is None or found.origin is None or file is None:
        return None
    path = Path(found.origin).parent / "datasets" / "data" / file
    try:
        table = np.loadtxt(path, delimiter=",", skiprows=header)
    except (OSError, ValueError):
        return None
    return table[:, :-1], table[:, -1]


def _ask_scikit_learn(name: str) -> tuple[np.ndarray, np.ndarray]:
    import sklearn.datasets

    rows, labels = getattr(sklearn.datasets, BUILT_IN[name])(return_X_y=True)
    return rows, labels


def _check_width(samples: Samples, features: int | None) -> Samples:
    if features not in (None, samples.dim):
        raise InputError(
            f"the number of features is {features}, but data set {samples.name!r} has {samples.dim}: leave it out"
        )
    return samples
