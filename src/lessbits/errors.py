"""Errors in the user's input: one sentence that says what was given, what is allowed, and what to do."""

import difflib
from collections.abc import Iterable
from numbers import Real


class InputError(ValueError):
    """An argument, setting or file of the user is not valid. The message is one line for the user."""


class MissingDataError(InputError):
    """A data set is not on this machine. The message says how to get it."""


class WireError(InputError):
    """Received bytes are not a message of this codec, or not the expected message. The message says which and why."""


def mistake_line(error: BaseException) -> str | None:
    """Return the line for a mistake of the user, or for a file or memory that is not there; None for other errors."""
    match error:
        case WireError() | BrokenPipeError():
            return None
        case InputError():
            return " ".join(str(error).split())
        case MemoryError():
            return f"this needs more memory than there is ({error}): take fewer nodes, dimensions or samples"
        case OSError():
            return f"{error.filename or 'input or output'}: {error.strerror or error}"
    return None


def check_name(kind: str, given: str, allowed: Iterable[str]) -> str:
    """Return `given` if it is one of `allowed`, else raise with the nearest match."""
    names = list(allowed)
    if given in names:
        return given
    lower = {name.lower(): name for name in names}
    nearest = difflib.get_close_matches(given.lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean {lower[nearest[0]]!r}? " if nearest else ""
    raise InputError(f"unknown {kind} {given!r}: {hint}choose one of {', '.join(names)}")


def check_positive(name: str, given: float) -> float:
    """Return `given` if it is a finite number above zero, else raise."""
    if not isinstance(given, Real):
        raise InputError(f"{name} is {given!r}, but it must be a number above 0")
    if not (given > 0 and given < float("inf")):
        raise InputError(f"{name} is {given:g}, but it must be a finite number above 0")
    return given
