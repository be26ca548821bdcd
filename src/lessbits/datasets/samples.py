"""Samples: feature rows with labels, from a libsvm file, a data folder, scikit-learn or the LIBSVM page."""

import bz2
import gzip
import itertools
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from lessbits.datasets.download import BUILT_IN, CATALOGUE, download_samples, find_in_folders, name_of_set, not_found
from lessbits.errors import InputError, MissingDataError

if TYPE_CHECKING:
    from scipy import sparse

OPENERS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
LARGEST_WIDTH = 2**31 - 1  # scikit-learn reads feature indices as 32-bit integers


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """Rows of features, with one label per row.

    Both are converted to float64; sparse indices are sorted and unique. Empty rows are valid samples.

    Attributes:
        features: Array [samples, dim], or CSR matrix.
        labels: Array [samples].
        name: Name of the data set.

    >>> Samples(np.eye(3), np.array([0, 1, 1]), "mine").binary_labels().tolist()
    [-1.0, 1.0, 1.0]
    """

    features: "np.ndarray | sparse.csr_matrix"
    labels: np.ndarray
    name: str

    def __post_init__(self) -> None:
        """Convert to float64; raise InputError if shapes do not match or values are not finite."""
        from scipy import sparse

        features, labels = _float_rows(self.features), np.asarray(self.labels, dtype=np.float64)
        if features.ndim != 2 or labels.shape != features.shape[:1] or 0 in features.shape:
            raise InputError(
                f"data set {self.name!r} has features of shape {features.shape} and labels of shape {labels.shape}, "
                "but they must be [samples, dim] and [samples], with at least one of each"
            )
        values = features.data if sparse.issparse(features) else features
        if not (np.isfinite(values).all() and np.isfinite(labels).all()):
            raise InputError(f"data set {self.name!r} has NaN or infinite values: remove those samples or mend them")
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)

    def __repr__(self) -> str:
        """Show the sizes, not the data."""
        kind = "dense" if isinstance(self.features, np.ndarray) else "sparse"
        labels = len(np.unique(self.labels))
        return f"Samples({self.name!r}, {self.count} samples, {self.dim} features, {kind}, {labels} different labels)"

    @property
    def count(self) -> int:
        """The number of samples."""
        return int(self.features.shape[0])

    @property
    def dim(self) -> int:
        """The number of features."""
        return int(self.features.shape[1])

    def take(self, rows: np.ndarray) -> "Samples":
        """Return the samples in these rows, in this order."""
        return Samples(self.features[rows], self.labels[rows], self.name)

    def binary_labels(self) -> np.ndarray:
        """Return the labels of two classes as −1.0 (the smaller label) and +1.0."""
        return self.with_classes(np.unique(self.labels), binary=True)

    def class_labels(self) -> tuple[np.ndarray, int]:
        """Return the class of each sample, 0 to C − 1 in the order of the labels, and the number of classes C."""
        values = np.unique(self.labels)
        return self.with_classes(values, binary=False), len(values)

    def with_classes(self, values: np.ndarray, binary: bool) -> np.ndarray:
        """Return the class of each sample among the sorted labels `values`: its index, or −1.0 and +1.0 if `binary`."""
        if binary and len(values) != 2:
            raise InputError(
                f"data set {self.name!r} has {len(values)} class{'es' if len(values) > 1 else ''} "
                f"(labels {_first_few(values)}), but exactly two are needed here: "
                "choose another data set, or softmax regression for more than two"
            )
        if binary:
            return np.where(self.labels == values[1], 1.0, -1.0)
        fractional = values[values != np.rint(values)]
        # Two fractional labels are two classes. More are a regression target.
        if len(fractional) and len(values) > 2:
            raise InputError(
                f"data set {self.name!r} has labels that are not whole numbers ({_first_few(fractional)}), "
                "but classes are needed here: choose a data set with classes, or treat this one as a regression"
            )
        return np.searchsorted(values, self.labels)

    def normalized_rows(self) -> "Samples":
        """Return the samples with every nonzero row scaled to 2-norm 1."""
        from scipy import sparse

        largest = abs(self.features).max(axis=1)
        # First divide by the largest entry, because squares of 1e200 or 1e-200 overflow or underflow.
        if sparse.issparse(self.features):
            rows = _divide_rows(self.features, largest.toarray().ravel())
            norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        else:
            rows = _divide_rows(self.features, largest)
            norms = np.linalg.norm(rows, axis=1)
        return Samples(_divide_rows(rows, norms), self.labels, self.name)


def load_samples(source: str | os.PathLike[str], features: int | None = None, download: bool = True) -> Samples:
    """Load a libsvm file by its path (plain, .xz, .bz2 or .gz), or a data set by its name.

    A name is searched in the folder `$LESSBITS_DATA`, in the user's cache, among the small data sets of scikit-learn,
    and on the LIBSVM page.

    Args:
        source: Path of the file, or name of the data set.
        features: The number of features, if the file does not use all of them. It is known for the data sets that are
            downloaded by name.
        download: Whether to download a data set that is not found here.

    >>> load_samples("breast-cancer")
    Samples('breast-cancer', 569 samples, 30 features, dense, 2 different labels)
    """
    if features is not None and not (isinstance(features, Integral) and 1 <= features <= LARGEST_WIDTH):
        raise InputError(
            f"the number of features is {features!r}, but it must be a whole number from 1 to {LARGEST_WIDTH}"
        )
    given = os.fspath(source)
    path = Path(os.path.expanduser(given))
    # os.path returns False for names that no file can have; pathlib raises.
    if os.path.isfile(path):
        return _load_file(path, given, features)
    if given != os.path.basename(given) or isinstance(source, os.PathLike):
        raise MissingDataError(
            f"there is no file {given!r}: give the path of a libsvm file, or the name of a data set such as 'w1a'"
        )
    found = find_in_folders(given)
    if found is not None:
        # Not checksummed: the file may be the user's own version, and hashing would slow down every load.
        return _load_file(found, given, features)
    if given in BUILT_IN:
        return _load_built_in(given, features)
    if given in CATALOGUE and download:
        return _load_file(download_samples(CATALOGUE[given]), given, features)
    raise not_found(given)


def _load_built_in(name: str, features: int | None) -> Samples:
    """Load a data set that comes with scikit-learn, unchanged."""
    import sklearn.datasets  # here, because the import takes a second, and most commands do not need it

    rows, labels = getattr(sklearn.datasets, BUILT_IN[name])(return_X_y=True)
    if features not in (None, rows.shape[1]):
        raise InputError(
            f"the number of features is {features}, but data set {name!r} has {rows.shape[1]}: leave it out"
        )
    return Samples(rows, labels, name)


def _load_file(path: Path, given: str, features: int | None) -> Samples:
    """Load a libsvm file, with all its features."""
    from scipy import sparse

    rows, labels = _read_libsvm(path)
    used = int(rows.indices.max()) + 1 if rows.nnz else 0
    name = name_of_set(given)
    entry = CATALOGUE.get(name)
    # A path that ends in w1a.libsvm counts as w1a only if its number of samples matches. So a data set has the same
    # width by path as by name, and a user's own file of that name keeps its width.
    if features is None and entry is not None and (given == name or len(labels) == entry.samples):
        features = entry.features
    if features is None and not used:
        raise InputError(f"no sample of {str(path)!r} has a feature: give the number of features if that is meant")
    width = used if features is None else features
    if used > width:
        line = _line_of_sample(path, int(np.searchsorted(rows.indptr, rows.indices.argmax(), side="right")) - 1)
        raise InputError(
            f"{str(path)!r}, line {line}, has feature {used}, but the number of features is {width}: "
            f"give at least {used}, or another file"
        )
    return Samples(sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(len(labels), width)), labels, name)


class _NumberedLines:
    """The lines of a binary stream. It stores the last line read, so that an error can name it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.number, self.line = stream, 0, b""

    def read(self, size: int = -1) -> bytes:
        """Read bytes. scikit-learn checks that this exists, and then only reads lines."""
        return self.stream.read(size)

    def __iter__(self) -> Iterator[bytes]:
        for line in self.stream:
            self.number, self.line = self.number + 1, line
            yield line


def _read_libsvm(path: Path) -> tuple["sparse.csr_matrix", np.ndarray]:
    """Read and check a libsvm file, compressed or not."""
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as stream:
            rows, labels = _parse(path, _NumberedLines(stream))
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {str(path)!r} ({reason}): if it is cut off or damaged, get it again") from error
    if not len(labels):
        raise InputError(f"{str(path)!r} has no samples: each line must read 'label index:value index:value ...'")
    wrong = ~np.isfinite(labels)
    wrong[np.searchsorted(rows.indptr, np.flatnonzero(~np.isfinite(rows.data)), side="right") - 1] = True
    if wrong.any():
        line = _line_of_sample(path, int(wrong.argmax()))
        raise InputError(f"{str(path)!r}, line {line}, has a NaN or infinite value: remove that sample or mend it")
    return rows, labels


def _parse(path: Path, lines: _NumberedLines) -> tuple["sparse.csr_matrix", np.ndarray]:
    """Parse the lines with scikit-learn; an error names the line at fault."""
    from sklearn.datasets import load_svmlight_file

    try:
        # Indices count from 1. With "auto", scikit-learn would accept a file with an index 0.
        return load_svmlight_file(lines, zero_based=False)
    except (ValueError, OverflowError) as error:
        shown = lines.line[:40].decode("latin-1").strip()
        what = "has a feature index below 1" if "Invalid index" in str(error) else "is malformed"
        raise InputError(
            f"{str(path)!r}, line {lines.number}, {what} ({shown!r}): "
            "each line must read 'label index:value index:value ...' with indices from 1 upwards in increasing order"
        ) from error


def _line_of_sample(path: Path, row: int) -> int:
    """Return the line number of sample `row`; blank lines and comments are not samples."""
    with OPENERS.get(path.suffix, open)(path, "rb") as stream:
        numbers = (number for number, line in enumerate(stream, start=1) if line.partition(b"#")[0].strip())
        return next(itertools.islice(numbers, row, None))


def _float_rows(features: Any) -> Any:
    """Return features as float64, sparse ones as CSR with sorted, unique indices."""
    from scipy import sparse

    if not sparse.issparse(features):
        return np.asarray(features, dtype=np.float64)
    rows = sparse.csr_matrix(features, dtype=np.float64)
    if not rows.has_canonical_format:
        rows = rows.copy()  # the caller's arrays may be shared, and the next line works in place
        rows.sum_duplicates()
    return rows


def _divide_rows(features: Any, divisors: np.ndarray) -> Any:
    """Return each row divided by its divisor, rows with divisor 0 as they are."""
    from scipy import sparse

    divisors = np.where(divisors > 0, divisors, 1.0)
    if not sparse.issparse(features):
        return features / divisors[:, None]
    rows = features.copy()
    rows.data /= np.repeat(divisors, np.diff(rows.indptr))
    return rows


def _first_few(values: np.ndarray) -> str:
    """Return the first few values, for a message."""
    return ", ".join(f"{value:g}" for value in values[:4]) + (", ..." if len(values) > 4 else "")
