"""Reading libsvm files, plain or compressed. An error names the line at fault."""

import itertools
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from lessbits._internal.bounds import open_bounded
from lessbits.datasets.download import CATALOGUE, name_of_set
from lessbits.datasets.samples import Samples
from lessbits.errors import InputError

if TYPE_CHECKING:
    from scipy import sparse


def load_libsvm(path: Path, given: str, features: int | None) -> Samples:
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
        with open_bounded(path) as stream:
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
    except InputError:
        raise
    except (ValueError, OverflowError) as error:
        shown = lines.line[:40].decode("latin-1").strip()
        what = "has a feature index below 1" if "Invalid index" in str(error) else "is malformed"
        raise InputError(
            f"{str(path)!r}, line {lines.number}, {what} ({shown!r}): "
            "each line must read 'label index:value index:value ...' with indices from 1 upwards in increasing order"
        ) from error


def _line_of_sample(path: Path, row: int) -> int:
    """Return the line number of sample `row`; blank lines and comments are not samples."""
    with open_bounded(path) as stream:
        numbers = (number for number, line in enumerate(stream, start=1) if line.partition(b"#")[0].strip())
        return next(itertools.islice(numbers, row, None))
