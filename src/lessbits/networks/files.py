"""Networks from files: edge lists, and weight matrices as `.npy`, `.csv` or `.mtx`."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lessbits._internal.bounds import check_array, check_file, check_unpacked
from lessbits.errors import InputError
from lessbits.networks.names import number_nodes
from lessbits.networks.network import Network

MATRIX_SUFFIXES = (".npy", ".csv", ".mtx")
TEXT_TIMES = 20  # bytes of memory per byte of text, while a network is read


def read_network(path: Path, weights: str = "metropolis", names: Sequence[object] | None = None) -> Network:
    """Read a network from a file; any suffix but those of a matrix means an edge list.

    `weights` is for files that carry none. A file's own weights are used as they are, and asking for others is refused.
    An edge list may use the `names` of the sites, in the order of the problem's nodes, instead of numbers.
    """
    if not path.is_file():
        raise InputError(f"{str(path)!r} is not a file: give an edge list or a {', '.join(MATRIX_SUFFIXES)} matrix")
    try:
        check_file(path, times=1 if path.suffix.lower() == ".npy" else TEXT_TIMES)
        if path.suffix.lower() in MATRIX_SUFFIXES:
            return _read_matrix_network(path, weights)
        edges, values = _read_edges(path, names)
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {_one_line(error)}") from None
    nodes = int(edges.max()) + 1
    if values is not None:
        refuse_other_weights(repr(str(path)), weights)
    return Network.from_edges(nodes, edges, weights if values is None else values, name=path.name)


def refuse_other_weights(source: str, weights: str) -> None:
    """Raise if weights other than the source's own were asked for (`metropolis` is the default, not a wish)."""
    if weights not in ("metropolis", "given"):
        raise InputError(
            f"weights={weights!r} was asked for, but {source} carries weights of its own: use weights='given', "
            "or give the edges without weights"
        )


def _read_matrix_network(path: Path, weights: str) -> Network:
    """Read a weight matrix or a Laplacian; a `.mtx` file of pattern type has edges and no weights."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            with path.open("rb") as stream:
                check_array(stream, path, path.stat().st_size)
            matrix: Any = np.load(path, allow_pickle=False)
        elif suffix == ".csv":
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # what loadtxt makes of an empty file
                matrix = np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8")
        else:
            matrix, has_values = _read_matrix_market(path)
            if not has_values:
                return Network.from_matrix(matrix, name=path.name).with_weights(weights)
    except InputError:
        raise
    except (ValueError, TypeError, EOFError, OverflowError, UserWarning) as error:
        raise InputError(
            f"{str(path)!r} is not a readable {suffix} matrix of numbers{_reason(error, suffix)}: write it anew"
        ) from None
    refuse_other_weights(repr(str(path)), weights)
    return Network.from_matrix(matrix, name=path.name)


def _reason(error: BaseException, suffix: str) -> str:
    """Return what the reader said; NumPy's advice is about its own arguments and would mislead."""
    return f" ({_one_line(error)})" if suffix == ".mtx" else ""


def _read_matrix_market(path: Path) -> tuple[Any, bool]:
    from scipy.io import mminfo, mmread

    rows, columns, entries, layout, kind, _ = mminfo(path)
    check_unpacked(path, 8 * rows * columns if layout == "array" else 8 * (rows + columns) + 32 * entries)
    return mmread(path), kind != "pattern"


def _read_edges(path: Path, names: Sequence[object] | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Read `i j` or `i j weight` on each line; `#` begins a comment."""
    rows = _split_lines(path, named=names is not None)
    known = _numbers_of_names(path, [end for _, _, fields in rows for end in fields[:2]], names)
    pairs: list[tuple[int, int]] = []
    values: list[float] = []
    for number, line, fields in rows:
        try:
            first, second = (int(end) if known is None else known[end] for end in fields[:2])
            values.extend(float(field) for field in fields[2:])
        except ValueError:
            raise _bad_line(path, number, line) from None
        if min(first, second) < 0 or max(first, second) >= 2**31:
            raise _bad_line(path, number, line)
        pairs.append((first, second))
    return np.asarray(pairs, dtype=np.int64), np.asarray(values) if len(rows[0][2]) == 3 else None


def _split_lines(path: Path, named: bool) -> list[tuple[int, str, list[str]]]:
    """Return number, text and fields of each line; names may have spaces if commas or tabs stand between them."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(
            f"{str(path)!r} is not a text file: an edge list has a line 'i j' or 'i j weight' for each edge, "
            f"and a matrix file ends in {', '.join(MATRIX_SUFFIXES)}"
        ) from None
    rows: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        separator = next((sign for sign in (",", "\t") if named and sign in content), None)
        rows.append((number, line, [field.strip() for field in content.split(separator)]))
        if len(rows[-1][2]) not in (2, 3) or len(rows[-1][2]) != len(rows[0][2]):
            raise _bad_line(path, number, line)
    if not rows:
        raise InputError(f"{str(path)!r} has no edges: write a line 'i j' or 'i j weight' for each")
    return rows


def _numbers_of_names(path: Path, ends: list[str], names: Sequence[object] | None) -> dict[str, int] | None:
    """Return the number of each node that the file names; None if it numbers them itself."""
    if names is None:
        return None
    if not {str(name) for name in names}.issuperset(ends) and all(end.isdecimal() for end in ends):
        return None
    return number_nodes(ends, names, repr(str(path)))


def _bad_line(path: Path, number: int, line: str) -> InputError:
    shown = line if len(line) <= 40 else line[:40] + "..."
    return InputError(
        f"{str(path)!r} line {number} is {shown!r}, but every line must be 'i j', or every line 'i j weight', "
        "with node numbers from 0"
    )


def _one_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return next(iter(str(error).splitlines()), type(error).__name__)
