"""Outcomes of a search, stored so that a later search can reuse them."""

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from lessbits._internal.arrays import CHECKSUM
from lessbits._internal.files import make_folder
from lessbits._internal.hashing import fingerprint
from lessbits._internal.logging import logger
from lessbits._internal.plain_values import plain
from lessbits._internal.wording import counted
from lessbits.engines.simulate.sweep import Outcome
from lessbits.errors import InputError, is_number

FORMAT, BEFORE = "lessbits-outcomes-2", "lessbits-outcomes-1"


class Records:
    """Outcomes of earlier calls and of this one, stored as one JSON object per line."""

    def __init__(self, out: Path | None, mark: str) -> None:
        self.path = None if out is None else out / "outcomes.jsonl"
        self.mark, self.lock = mark, threading.Lock()
        self.whole = True  # whether the file ends with a whole line
        self.known: dict[tuple[Any, ...], Outcome] = {}
        if self.path is not None:
            make_folder(self.path.parent)
            if self.path.is_file():
                self._read(self.path)

    def _read(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        self.whole = not text or text.endswith("\n")
        lines, damaged = text.split("\n"), 0
        for line in lines[:-1]:
            try:
                entry = _checked(json.loads(line), path)
                if entry.pop("of") == self.mark:
                    for name in ("value", "error"):  # JSON has no NaN
                        entry[name] = math.nan if entry[name] is None else entry[name]
                    outcome = _of_right_types(Outcome(**entry))
                    self.known[self.key(outcome.sizes, outcome.seed)] = outcome
            except InputError:
                raise
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                damaged += 1
        # The last one, without its end, was cut off while it was written.
        if damaged:
            logger.warning(
                f"{counted(damaged, 'line')} of {path} {'is' if damaged == 1 else 'are'} damaged: what was "
                "there is run again"
            )

    @staticmethod
    def key(sizes: Mapping[str, float], seed: int) -> tuple[Any, ...]:
        """Return the key of an outcome: its step sizes, then its seed."""
        return (*sorted(sizes.items()), seed)

    def get(self, sizes: Mapping[str, float], seed: int, limit: int) -> Outcome | None:
        """Return a known outcome, or None. An outcome that was cut before `limit` iterations does not count."""
        outcome = self.known.get(self.key(sizes, seed))
        return None if outcome is None or (outcome.cut and outcome.iterations < limit) else outcome

    def add(self, outcome: Outcome) -> None:
        """Store an outcome."""
        with self.lock:
            self.known[self.key(outcome.sizes, outcome.seed)] = outcome
            if self.path is not None:
                self._append(self.path, plain({"format": FORMAT, "of": self.mark, **asdict(outcome)}))

    def _append(self, path: Path, entry: dict[str, Any]) -> None:
        line = json.dumps({**entry, CHECKSUM: fingerprint(entry)}, allow_nan=False)
        try:
            with path.open("a", encoding="utf-8") as stream:
                stream.write(("" if self.whole else "\n") + line + "\n")
            self.whole = True
        except OSError as error:
            self.path, self.whole = None, False
            logger.warning(f"{path} ends here ({error.strerror or error}): the search goes on, but cannot be resumed")


def _checked(entry: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return an entry without format and checksum. Raise an error if they do not fit, or the format is not known."""
    given, mark = entry.get("format", BEFORE), entry.pop(CHECKSUM, None)
    if given not in (FORMAT, BEFORE):
        raise InputError(
            f"{path} has the format {given!r}, but this version of lessbits reads {FORMAT!r}: name another folder"
        )
    if mark != (fingerprint(entry) if given == FORMAT else None):
        raise ValueError
    entry.pop("format", None)
    return entry


def _of_right_types(outcome: Outcome) -> Outcome:
    """Return an outcome that was read from a file; raise a ValueError if a part is of another type."""
    for entry in fields(Outcome):
        given, kind = getattr(outcome, entry.name), entry.type
        whole = kind in (int, "int") and type(given) is int
        number = kind in (float, "float") and isinstance(given, float | int) and not isinstance(given, bool)
        flag = kind in (bool, "bool") and isinstance(given, bool)
        table = isinstance(given, dict) and all(map(is_number, given.values())) and entry.name == "sizes"
        if not (whole or number or flag or table):
            raise ValueError(f"{entry.name} is {given!r}")
    return outcome


def stored_in(out: Path) -> str:
    """Return a line that says where outcomes are stored."""
    return f"every outcome is stored in {out}; the same search goes on from there"
