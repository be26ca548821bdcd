"""Answers of slow searches, kept in the cache folder: the same question is not searched twice."""

import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lessbits._internal.cache import cache_folder
from lessbits._internal.files import write_whole
from lessbits._internal.hashing import fingerprint

MOST_ANSWERS = 500  # the oldest are dropped


def kept_answer(code: Sequence[str], question: Any, search: Callable[[], Sequence[float]]) -> list[float]:
    """Return the numbers that `search` returns, from the cache folder if it was asked before.

    Args:
        code: The files of the code that searches. Answers of other code do not count.
        question: Everything that the answer depends on, as `fingerprint` takes it.
        search: Finds the answer.
    """
    if os.environ.get("LESSBITS_COMPILED") == "off":
        return list(search())
    key = fingerprint([Path(file).read_bytes() for file in code], question)
    file = cache_folder() / "answers.json"
    answers = _read(file)
    if key not in answers:
        answers[key] = list(search())
        newest = dict(list((_read(file) | answers).items())[-MOST_ANSWERS:])  # others may have added some meanwhile
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps(newest))
        except OSError:
            pass  # without write access, nothing is kept
    return answers[key]


def _read(file: Path) -> dict[str, list[float]]:
    """Return the answers in the file that are lists of numbers; none if it is damaged."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: answer for key, answer in found.items() if _numbers(answer)} if isinstance(found, dict) else {}


def _numbers(answer: Any) -> bool:
    return isinstance(answer, list) and all(isinstance(each, float) and not math.isnan(each) for each in answer)
