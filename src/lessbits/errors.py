"""Errors in the user's input: one sentence that says what was given, what is allowed, and what to do."""

import difflib
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sized
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from typing import Any

MOST_LISTED = 20  # names that are listed beside the one that was meant
NEAR = 0.6  # how alike a name must be to one that is meant: "foo" is no "choco"
LARGEST_SEED = 2**64 - 1
LARGEST_CONDITION = 1e15  # beyond, 1/κ is lost in the rounding of float64
LONGEST_NAME = 255  # bytes in the name of a file, on all common file systems
UNPRINTED = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control and format characters, halves of pairs, and ends of lines


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with escapes in place of control characters, which could drive the terminal that prints it.

    >>> print(printable("a\x1b[31mb"), printable("Łódź – ω²"))
    a\x1b[31mb Łódź – ω²
    """
    if text.isprintable():
        return text
    return "".join(
        sign.encode("unicode_escape").decode() if unicodedata.category(sign) in UNPRINTED and sign not in keep else sign
        for sign in text
    )


class InputError(ValueError):
    """An argument, setting or file of the user is not valid. The message is one line for the user."""

    def __init__(self, message: str) -> None:
        # Messages name files, columns and sites, which may come from elsewhere.
        super().__init__(printable(" ".join(str(message).splitlines())))


class MissingDataError(InputError):
    """A data set is not on this machine. The message says how to get it."""


class MissingPackageError(InputError, ImportError):
    """An optional package is not installed. As an ImportError too, it is caught where modules are only listed."""


class MissingFolderError(InputError, FileNotFoundError):
    """The folder of an output file is not there. As an OSError too, it is caught where other outputs go on."""


class FolderError(InputError, IsADirectoryError):
    """An output file is a folder. As an OSError too, it is caught where other outputs go on."""


class WireError(InputError):
    """Received bytes are not a message of this codec, or not the expected message. The message says which and why."""


def mistake_line(error: BaseException) -> str | None:
    """Return the line for a mistake of the user, or for a file or memory that is not there; None for other errors."""
    match error:
        case WireError() | BrokenPipeError():
            return None
        case InputError():
            return str(error)
        case MemoryError():
            return out_of_memory(error)
        case OSError():
            return printable(f"{error.filename or 'input or output'}: {error.strerror or error}")
    return out_of_memory(error)


def out_of_memory(error: BaseException) -> str | None:
    """Return the line for memory that is not there, in Python or on the device of JAX; None for other errors."""
    text = next(iter(str(error).splitlines()), "").removeprefix("RESOURCE_EXHAUSTED: ")
    if not isinstance(error, MemoryError) and not str(error).startswith("RESOURCE_EXHAUSTED"):
        return None
    why = f" ({printable(text[:200])})" if text else ""
    return f"this needs more memory than there is{why}: take fewer nodes, dimensions or samples"


def shown(given: Any) -> str:
    """Return a value for a message, cut short. Python writes no whole number of more than 4300 digits."""
    try:
        text = repr(given)
    except Exception:  # of an object that is not what it should be, too
        text = "a number of thousands of digits" if isinstance(given, Integral) else f"a {type(given).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_name(kind: str, given: str, allowed: Iterable[str]) -> str:
    """Return `given` if it is one of `allowed`, else raise with the nearest match."""
    names = list(allowed)
    if not isinstance(given, str):
        raise InputError(f"the {kind} is {shown(given)}, but it must be a name: one of {', '.join(names)}")
    if given in names:
        return given
    lower = {name.lower(): name for name in names}
    nearest = difflib.get_close_matches(given.lower(), lower, n=1, cutoff=NEAR)
    hint = f"did you mean {lower[nearest[0]]!r}?" if nearest else ""
    if nearest and len(names) > MOST_LISTED:
        raise InputError(f"unknown {kind} {shown(given)}: {hint}")
    raise InputError(f"unknown {kind} {shown(given)}: {hint}{' ' * bool(hint)}choose one of {', '.join(names)}")


def check_whole(name: str, given: Any, least: int | None = None, most: int | None = None) -> int:
    """Return `given` as an int if it is a whole number within the bounds, else raise."""
    if not is_whole(given):
        raise InputError(f"{name} is {shown(given)}, but it must be a whole number{_range(least, most)}")
    number = int(given)
    if (least is not None and number < least) or (most is not None and number > most):
        raise InputError(f"{name} is {shown(number)}, but it must be{_range(least, most)}")
    return number


def check_number(name: str, given: Any, least: float | None = None, most: float | None = None) -> float:
    """Return `given` if it is a finite number within the bounds, else raise. Numbers of NumPy and JAX are numbers."""
    number = _as_real(given)
    if number is None:
        raise InputError(f"{name} is {shown(given)}, but it must be a number{_range(least, most)}")
    if not math.isfinite(number) or (least is not None and number < least) or (most is not None and number > most):
        raise InputError(f"{name} is {number:g}, but it must be a finite number{_range(least, most)}")
    return given


def check_positive(name: str, given: Any) -> float:
    """Return `given` if it is a finite number above zero, else raise."""
    number = _as_real(given)
    if number is None:
        raise InputError(f"{name} is {shown(given)}, but it must be a number above 0")
    if not 0 < number < math.inf:
        raise InputError(f"{name} is {number:g}, but it must be a finite number above 0")
    return given


def check_flag(name: str, given: Any) -> bool:
    """Return `given` if it is True or False, else raise: the text "no" would count as true."""
    if type(given).__name__ in ("bool", "bool_"):  # of Python and of NumPy
        return bool(given)
    raise InputError(f"{name} is {shown(given)}, but it must be True or False")


def check_path(name: str, given: Any) -> Path:
    """Return a file or folder that was given as a path or as text, else raise."""
    text = fspath(given) if isinstance(given, str | PathLike) else None
    if not isinstance(text, str) or not text:
        raise InputError(f"{name} is {shown(given)}, but it must be a path")
    if "\0" in text or any(len(part.encode(errors="surrogateescape")) > LONGEST_NAME for part in Path(text).parts):
        raise InputError(
            f"{name} is {shown(text)}, but names in a path have at most {LONGEST_NAME} bytes, and no NUL: take another"
        )
    return Path(text)


def check_folder(name: str, given: Any) -> Path:
    """Return a folder that was given as a path or as text, and that is there or can be made, else raise."""
    folder = check_path(name, given)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{name} is {folder}, which is a file: name a folder")
    return folder


def check_kind(name: str, given: Any, kind: type, advice: str) -> None:
    """Raise if a value is not of a class; `advice` says how to make one."""
    if not isinstance(given, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InputError(f"{name} is {shown(given)}, but it must be {article} {kind.__name__}: {advice}")


def check_function(name: str, given: Any, arguments: str) -> None:
    """Raise if a value cannot be called; `arguments` are those it is called with."""
    if not callable(given):
        raise InputError(f"{name} is {shown(given)}, but it must be a function of {arguments}")


def check_seed(given: Any, name: str = "seed") -> int:
    """Return a seed from 0 to 2^64 - 1, else raise."""
    return check_whole(name, given, 0, LARGEST_SEED)


def check_seeds(given: Any) -> list[int]:
    """Return a list of seeds, each from 0 to 2^64 - 1, else raise."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sized) or getattr(given, "shape", (1,)) == ():
        raise InputError(f"seeds is {shown(given)}, but it must be a list with at least one seed")
    if not len(given):
        raise InputError("no seed was given: give at least one")
    return [check_seed(seed) for seed in given]  # type: ignore[attr-defined]


def check_held(held: Any, nodes: int, name: str = "held") -> list[int] | None:
    """Return the numbers of the nodes to keep, or None for all. Raise InputError for what is no list of them."""
    import numpy as np

    if held is None:
        return None
    try:
        kept = np.asarray(held)
    except (TypeError, ValueError):
        kept = np.empty(0, object)
    fits = kept.ndim == 1 and kept.size and kept.dtype.kind in "iu" and len(np.unique(kept)) == kept.size
    if not fits or kept.min() < 0 or kept.max() >= nodes:
        raise InputError(
            f"{name} is {shown(held)}, but it must be a list of different nodes, from 0 to {nodes - 1}, at least one"
        )
    return kept.tolist()


def is_whole(given: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Return whether this is a whole number, of Python or of NumPy.

    True and False are not, nor is 3.0: a float may have lost digits.
    """
    return isinstance(given, Integral) and not isinstance(given, bool) and least <= int(given) <= most


def is_number(given: Any) -> bool:
    """Return whether this is one finite real number; True and False are not."""
    number = _as_real(given)
    return number is not None and math.isfinite(number)


def _as_real(given: Any) -> float | None:
    """Return a number as a float; None for what is no single real number, and for True and False."""
    if getattr(given, "shape", None) == () and hasattr(given, "dtype"):  # an array of no dimensions
        given = given.item()
    if not isinstance(given, Real) or isinstance(given, bool):
        return None
    try:
        return float(given)
    except OverflowError:  # of a whole number of more than 308 digits
        return math.inf


def _range(least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return (
            "" if least is None and most is None else f" at least {least:g}" if most is None else f" at most {most:g}"
        )
    return f" from {least} to {f'{most:g}' if isinstance(most, float) else most}"
