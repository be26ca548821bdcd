"""Reading tables: CSV and Parquet files, and NumPy's `.npz`."""

import difflib
import lzma
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits._internal.bounds import check_archive, check_unpacked, open_bounded
from lessbits._internal.logging import warn_once
from lessbits.datasets.samples import Samples
from lessbits.errors import InputError

if TYPE_CHECKING:
    import pandas

COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")
FORMATS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz"}
OTHER_SEPARATORS = (";", "\t")
MOST_COLUMNS = 12  # columns that a message lists
FEATURES, LABELS, SITES = ("features", "X"), ("labels", "y"), ("sites",)  # arrays of a .npz file
# A RuntimeError is said of encrypted archives, of ways to compress that Python does not know, and of deep nesting.
DAMAGED = (OSError, EOFError, RuntimeError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
FORGED = (LookupError, TypeError, AttributeError, ArithmeticError, AssertionError)  # by pandas, of its notes in Parquet


def table_format(path: str) -> str | None:
    """Return the format of a table by the name of its file; None for other files.

    >>> table_format("mine.csv.gz"), table_format("mine.npz"), table_format("mine.libsvm")
    ('csv', 'npz', None)
    """
    name = Path(path.lower())
    if name.suffix in COMPRESSED:
        name = name.with_suffix("")
        return "csv" if FORMATS.get(name.suffix) == "csv" else None
    return FORMATS.get(name.suffix)


def load_table(path: Path, target: str | None, site: str | None, ignore: Sequence[str] = ()) -> Samples:
    """Load the samples of a CSV, Parquet or `.npz` file; the columns in `ignore` are not used."""
    name = path.name.split(".")[0] or path.name
    if table_format(path.name) == "npz":
        if ignore:
            raise InputError(
                f"columns to ignore were given, but those of {str(path)!r} have no names: leave ignore out"
            )
        return _load_arrays(path, target, site, name)
    frame = read_frame(path)
    if target is None:
        raise InputError(
            f"{str(path)!r} has several columns, but which one to predict was not said: give its name as target, one "
            f"of {_listed(frame.columns)}"
        )
    ignored = [_find(frame, "ignore", column, f"data set {name!r}") for column in ignore]
    return Samples.from_frame(frame.drop(columns=ignored), target, site, name)


def read_frame(path: Path) -> "pandas.DataFrame":
    """Read a CSV or Parquet file as a pandas DataFrame."""
    import pandas

    try:
        frame = _read_parquet(path) if table_format(path.name) == "parquet" else _read_csv(path)
    except UnicodeDecodeError:
        raise InputError(f"{str(path)!r} is no UTF-8 text: save it as UTF-8") from None
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, ValueError, *DAMAGED) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise InputError(f"cannot read {str(path)!r} ({reason}): if it is damaged, get or write it again") from None
    if frame.empty:
        raise InputError(f"{str(path)!r} has no rows: give one sample in each line after the names of the columns")
    return frame


def _read_parquet(path: Path) -> "pandas.DataFrame":
    import pandas

    try:
        import pyarrow.parquet  # type: ignore[import-untyped]

        facts = pyarrow.parquet.read_metadata(path)
        # A column of one repeated value is stored in a few bytes, and read as one number per row.
        packed = sum(facts.row_group(number).total_byte_size for number in range(facts.num_row_groups))
        check_unpacked(path, max(packed, 8 * facts.num_rows * facts.num_columns))
        return pandas.read_parquet(path)
    except ImportError:
        raise InputError(
            f"{str(path)!r} is a Parquet file, which needs the package pyarrow: pip install 'lessbits[parquet]', or "
            "save it as CSV"
        ) from None
    except FORGED as error:
        raise ValueError(f"what it says of its columns is wrong: {type(error).__name__} {error}") from None


def _read_csv(path: Path) -> "pandas.DataFrame":
    """Read a CSV file, separated by commas, semicolons or tabs; the first line names the columns."""
    import pandas
    from pandas.api.types import is_numeric_dtype

    options: dict[str, Any] = {"encoding": "utf-8-sig", "skipinitialspace": True}
    header = _read_text(path, nrows=0, **options).columns
    separator = next((sign for sign in OTHER_SEPARATORS if len(header) == 1 and sign in str(header[0])), ",")
    _refuse_twice(path, _read_text(path, sep=separator, nrows=1, header=None, dtype=str, na_filter=False, **options))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = _read_text(path, sep=separator, index_col=False, **options)
    except pandas.errors.ParserWarning:
        raise InputError(f"lines of {str(path)!r} have more fields than the first line names: mend them") from None
    if separator == ";":  # then 1,5 may be a number, as spreadsheets write it in Europe
        other = _read_text(path, sep=separator, decimal=",", **options)
        columns = [name for name in frame if is_numeric_dtype(other[name]) and not is_numeric_dtype(frame[name])]
        frame = frame.assign(**{name: other[name] for name in columns})
    if all(_is_number(str(name)) for name in frame.columns):
        raise InputError(
            f"the first line of {str(path)!r} holds numbers, but it must name the columns: add such a line"
        )
    counting = np.arange(len(frame))
    unnamed = str(frame.columns[0]).startswith("Unnamed: ")
    if unnamed and any(np.array_equal(frame.iloc[:, 0], counting + first) for first in (0, 1)):
        warn_once(f"{str(path)!r}: the first column has no name and numbers the rows, so it is not used")
        frame = frame.iloc[:, 1:]
    return frame


def _refuse_twice(path: Path, header: "pandas.DataFrame") -> None:
    """Refuse two columns of one name: pandas would rename the second, and say nothing."""
    twice = [name for name, count in Counter(header.iloc[0]).items() if name and count > 1]
    if twice:
        raise InputError(f"{str(path)!r} has several columns named {twice[0]!r}: give each a name of its own")


def _read_text(path: Path, **options: Any) -> "pandas.DataFrame":
    """Read a CSV file with pandas; one that unpacks to more than the memory holds is refused."""
    import pandas

    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, sum(entry.file_size for entry in archive.infolist()))
    if path.suffix.lower() in (".zip", ".zst"):
        try:
            return pandas.read_csv(path, **options)
        except ImportError:
            raise InputError(
                f"{str(path)!r} needs the package zstandard: pip install zstandard, or compress it with gzip or xz"
            ) from None
    with open_bounded(path) as stream:
        return pandas.read_csv(stream, **options)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_columns(frame: "pandas.DataFrame", target: str, site: str | None, what: str) -> list[Any]:
    """Return the columns of the target and of the sites, as the frame spells them."""
    if not hasattr(frame, "columns"):
        raise InputError(
            f"{what} is a {type(frame).__name__}, but it must be a pandas DataFrame: use Samples for arrays"
        )
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{what} has several columns named {twice[0]!r}: give each a name of its own")
    chosen = [_find(frame, "target", target, what)]
    if site is not None:
        chosen.append(_find(frame, "site", site, what))
        if chosen[0] == chosen[1]:
            raise InputError(f"target and site of {what} are both the column {target!r}: name two columns")
    if len(names) == len(chosen):
        raise InputError(f"{what} has no columns besides {', '.join(map(repr, chosen))}: it needs features")
    return chosen


def _find(frame: "pandas.DataFrame", role: str, given: str, what: str) -> Any:
    """Return a column by its name; suggest the nearest name if there is none."""
    names = {str(name): name for name in frame.columns}
    if str(given) in names:
        return names[str(given)]
    lower = {name.lower(): name for name in names}
    nearest = difflib.get_close_matches(str(given).lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean {lower[nearest[0]]!r}? " if nearest else ""
    raise InputError(f"{what} has no column {given!r} for {role}: {hint}its columns are {_listed(frame.columns)}")


def _listed(names: Any) -> str:
    shown = ", ".join(str(name) for name in names[:MOST_COLUMNS])
    return shown if len(names) <= MOST_COLUMNS else f"{shown}, … ({len(names)} in all)"


def _load_arrays(path: Path, target: str | None, site: str | None, name: str) -> Samples:
    """Load the arrays of a `.npz` file: `features` or `X`, `labels` or `y`, and optionally `sites`."""
    try:
        if not zipfile.is_zipfile(path):  # NumPy would take it for a pickle
            raise zipfile.BadZipFile("it is no archive of arrays")
        check_archive(path)
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays.files)
            features = arrays[_array_name(path, names, "features", FEATURES)]
            labels = arrays[_array_name(path, names, "labels", (target,) if target else LABELS)]
            sites = None
            if site is not None or "sites" in names:
                sites = arrays[_array_name(path, names, "sites", (site,) if site else SITES)]
    except InputError:
        raise
    except (ValueError, *DAMAGED) as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{str(path)!r} holds Python objects, which are not read, because they could run code: save arrays of "
                "numbers or text, such as names.astype(str)"
            ) from None
        raise InputError(f"cannot read {str(path)!r} ({error}): write it again with numpy.savez") from None
    return Samples(features, labels, name, sites)


def _array_name(path: Path, names: list[str], role: str, allowed: tuple[str, ...]) -> str:
    found = [name for name in allowed if name in names]
    if not found:
        wanted = " or ".join(map(repr, allowed))
        raise InputError(f"{str(path)!r} has no array {wanted} for the {role}: its arrays are {_listed(names)}")
    return found[0]
