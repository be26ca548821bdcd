"""The numbers that sites tell each other before a run, as JSON: how they are written, and what they may be."""

import math
import re
from typing import Any

import numpy as np

from lessbits.errors import InputError

MOST_NUMBERS = 4096  # of one fact
KINDS = ("|b1", "|u1", "<i4", "<i8", "<f4", "<f8")
QUESTION = re.compile(r"fact [0-9]{1,3}")


def plain_fact(array: np.ndarray) -> list[Any]:
    """Return shape, type and numbers of an array."""
    if array.size > MOST_NUMBERS:
        raise InputError(f"a site would tell the others {array.size} numbers of its data, but the most is 4096")
    return [list(array.shape), array.dtype.str, array.ravel().tolist()]


def fact_array(fact: list[Any]) -> np.ndarray:
    """Return the array that a fact is."""
    shape, kind, numbers = fact[:3]
    return np.array(numbers, np.dtype(kind)).reshape(shape)


def checked_fact(question: str, fact: Any) -> list[Any]:
    """Return a fact, or raise a ValueError if it is none."""
    shape, kind, numbers, signature = fact
    right = QUESTION.fullmatch(question) and kind in KINDS and len(numbers) <= MOST_NUMBERS and len(shape) <= 8
    right = right and all(type(size) is int and 0 <= size <= MOST_NUMBERS for size in shape)
    right = right and math.prod(shape) == len(numbers) and isinstance(signature, str) and len(signature) <= 200
    if not right or not all(_fits(number, np.dtype(kind)) for number in numbers):
        raise ValueError("no fact")
    bytes.fromhex(signature)
    return [list(shape), kind, list(numbers), signature]


def _fits(number: Any, kind: np.dtype) -> bool:
    if kind.kind == "b" or isinstance(number, bool):
        return kind.kind == "b" and isinstance(number, bool)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return type(number) is int and limits.min <= number <= limits.max
    return type(number) in (int, float) and abs(number) <= float(np.finfo(kind).max)  # also if it is no number


def refuse_constant(constant: str) -> Any:
    """Raise a ValueError for NaN and infinity, which are no JSON."""
    raise ValueError(f"{constant} is no number")
