"""Conversion of what users give to arrays of float64, with one line that says what cannot be converted and why."""

import re
import sys
from numbers import Integral, Real
from typing import Any

import numpy as np

from lessbits._internal.wording import counted
from lessbits.errors import InputError

DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))(?!\d)")
NOT_NUMBERS = {
    **dict.fromkeys("USTa", "text"),
    "O": "Python objects",
    "V": "records",
    "c": "complex numbers",
    "M": "dates",
    "m": "spans of time",
}


def is_frame(given: Any) -> bool:
    """Tell whether this is a pandas DataFrame, without importing pandas: whoever has one has imported it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(given, pandas.DataFrame)


def as_rows(given: Any, what: str) -> Any:
    """Return features as float64: an array, or a CSR matrix with sorted, unique indices.

    Args:
        given: An array, nested lists, a pandas DataFrame, or a SciPy sparse matrix of any format.
        what: What it is, in the plural, for messages: "the features of node 3".
    """
    from scipy import sparse

    if is_frame(given):
        return _frame_values(given, what)
    if not sparse.issparse(given):
        return _as_numbers(_as_array(given, what), what)
    _refuse_kind(given.dtype, what)
    rows = sparse.csr_matrix(given, dtype=np.float64)
    if not rows.has_canonical_format:
        rows = rows.copy()  # the caller's arrays may be shared, and the next line works in place
        rows.sum_duplicates()
    return rows


def check_finite(rows: Any, what: str, columns: tuple[str, ...] | None = None) -> None:
    """Raise InputError with the first row and column that is NaN or infinite. Rows and columns count from 0."""
    from scipy import sparse

    values = rows.data if sparse.issparse(rows) else rows
    wrong = ~np.isfinite(values)
    if not wrong.any():
        return
    entry = int(wrong.ravel().argmax())
    if sparse.issparse(rows):
        row, column = int(np.searchsorted(rows.indptr, entry, side="right")) - 1, int(rows.indices[entry])
    else:
        row, column = divmod(entry, rows.shape[1])
    place = f"row {row}, column {column}" if columns is None else f"row {row}, column {columns[column]!r}"
    count = int(wrong.sum())
    raise InputError(
        f"{what} have NaN or infinite values, {count} in all, the first in {place} (counted from 0): remove those "
        "rows, or fill in what is missing"
    )


def as_labels(given: Any, what: str) -> np.ndarray:
    """Return labels or targets as float64 [rows], or as text [rows]. NaN, infinite and missing ones are refused.

    Args:
        given: An array, a list, a pandas Series or a table with one column.
        what: What they are, in the plural, for messages: "the targets of node 3".
    """
    array = _as_array(given, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{what} are of shape {array.shape}, but they must be one per row: an array of shape (rows,)")
    if array.dtype.kind == "O":
        array = _one_kind(array, what)
    if array.dtype.kind in "UT":
        return array.astype(np.str_)
    values = _as_numbers(array, what)
    if not np.isfinite(values).all():
        row = int((~np.isfinite(values)).argmax())
        raise InputError(f"{what} have NaN or infinite values, the first in row {row} (counted from 0): remove it")
    return values


def as_sites(given: Any, what: str) -> np.ndarray:
    """Return the site of each row, as whole numbers or as text [rows]."""
    array = _as_array(given, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 1 and array.dtype.kind == "O":
        array = _one_kind(_large_as_text(array), what)
    if array.ndim == 1 and array.dtype.kind == "f":
        if not np.isfinite(array).all():
            row = int((~np.isfinite(array)).argmax())
            raise InputError(f"{what} are missing in row {row} (counted from 0): name one for each row")
        if np.abs(array).max(initial=0) >= 2**53:
            raise InputError(f"{what} are numbers that are too large to be told apart: name them by text")
        array = array.astype(np.int64) if (array == np.rint(array)).all() else array.astype(np.str_)
    if array.ndim != 1 or array.dtype.kind not in "biuUT":
        raise InputError(f"{what} are of shape {array.shape} and dtype {array.dtype}, but each row needs one name")
    return array.astype(np.str_) if array.dtype.kind in "bT" else array


def _as_array(given: Any, what: str) -> np.ndarray:
    if isinstance(given, np.ma.MaskedArray):
        _refuse_kind(given.dtype, what)
        return np.ma.filled(given.astype(float), np.nan)  # NumPy would fill in what is masked, and say nothing
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as error:
        if "inhomogeneous" not in str(error):
            raise InputError(f"{what} cannot be made an array ({_first_line(error)})") from None
        raise InputError(f"{what} cannot be made an array: its rows are of different lengths") from None
    return array


def _as_numbers(array: np.ndarray, what: str) -> np.ndarray:
    if array.dtype.kind == "O" and all(isinstance(value, Real) for value in array.flat):
        return _cast(array, np.float64, what)
    _refuse_kind(array.dtype, what, array)
    return _as_float64(array)


def _as_float64(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # a long double may be beyond float64: it becomes infinite
        return np.asarray(array, dtype=np.float64)


def _cast(array: np.ndarray, dtype: type, what: str) -> np.ndarray:
    """Return an array of Python's numbers as one of NumPy's."""
    try:
        return array.astype(dtype)
    except OverflowError:
        raise InputError(
            f"{what} have numbers beyond those of {np.dtype(dtype)}: make them smaller, or text if they are names"
        ) from None


def _large_as_text(array: np.ndarray) -> np.ndarray:
    """Return whole numbers as text if one is beyond 64 bits: as names they differ in every digit."""
    if all(isinstance(value, Integral) for value in array) and any(abs(int(value)) >= 2**63 for value in array):
        return np.array([f"{value:d}" if abs(int(value)) < 10**100 else hex(value) for value in array])
    return array


def _refuse_kind(dtype: np.dtype, what: str, array: np.ndarray | None = None) -> None:
    if dtype.kind in "biuf":
        return
    example = ""
    if array is not None and array.size:
        example = ", such as " + repr(next((one for one in array.flat if not isinstance(one, Real)), array.flat[0]))
    kind = NOT_NUMBERS.get(dtype.kind, "something else")
    raise InputError(
        f"{what} are {kind} (dtype {dtype}{example}), but they must be numbers: convert them, or leave them out"
    )


def _one_kind(array: np.ndarray, what: str) -> np.ndarray:
    """Return an array of objects as one of numbers or of text."""
    missing = [_is_missing(value) for value in array]
    if any(missing):
        raise InputError(
            f"{what} are missing in {counted(sum(missing), 'row')}, the first row {missing.index(True)} (counted from "
            "0): remove such rows"
        )
    for kind, dtype in ((Integral, np.int64), (Real, np.float64), (str, np.str_)):
        if all(isinstance(value, kind) for value in array):
            return _cast(array, dtype, what)
    kinds = sorted({type(value).__name__ for value in array})
    raise InputError(f"{what} are of several kinds ({', '.join(kinds)}): make all of them numbers, or all of them text")


def _is_missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _frame_values(frame: Any, what: str) -> Any:
    """Return the values of a DataFrame; refuse columns that are not numbers, by name."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype
    from scipy import sparse

    wrong = []
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        real = is_numeric_dtype(dtype) and getattr(dtype, "kind", "f") != "c"
        if not (real or is_bool_dtype(dtype)):
            wrong.append(str(name))
    if wrong:
        value = frame[frame.columns[[str(name) for name in frame.columns].index(wrong[0])]]
        example = f" (such as {value.iloc[0]!r})" if getattr(value, "ndim", 1) == 1 and len(value) else ""
        more = "" if len(wrong) == 1 else f", and so do {', '.join(map(repr, wrong[1:4]))}{', …' * (len(wrong) > 4)}"
        days = "numbers of days, for example with (pandas.to_datetime(column) - pandas.Timestamp('2000-01-01')).dt.days"
        advice = days if _are_dates(value) else "numbers, for example with pandas.get_dummies"
        raise InputError(
            f"{what} must be numbers, but column {wrong[0]!r} holds no numbers{example}{more}: leave it out "
            f"(--ignore, or ignore=[…]), or make it {advice}"
        )
    if len(frame.columns) and all(type(dtype).__name__ == "SparseDtype" for dtype in frame.dtypes):
        return as_rows(sparse.csr_matrix(frame.sparse.to_coo()), what)
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def _are_dates(column: Any) -> bool:
    """Return whether a column of a DataFrame has dates, or text whose first entry is one."""
    if getattr(column, "ndim", 1) != 1 or not len(column):
        return False
    return getattr(column.dtype, "kind", "") == "M" or bool(DATE.match(str(column.iloc[0])))


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
