"""Outcomes of a search, stored so that a later search can reuse them."""

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from lessbits._internal.plain_values import plain
from lessbits.engines.simulate.sweep import Outcome
from lessbits.errors import InputError, is_number

FORMAT = "lessbits-outcomes-1"


class Records:
    """Outcomes of earlier calls and of this one, stored as one JSON object per line."""

    def __init__(self, out: Path | None, mark: str) -> None:
        self.path = None if out is None else out / "outcomes.jsonl"
        self.mark, self.lock = mark, threading.Lock()
        self.whole = True  # whether the file ends with a whole line
        self.known: dict[tuple[Any, ...], Outcome] = {}
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_file():
                self._read(self.path)

    def _read(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        self.whole = not text or text.endswith("\n")
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                if (given := entry.pop("format", FORMAT)) != FORMAT:
                    raise InputError(
                        f"{path} has the format {given!r}, but this version of lessbits reads {FORMAT!r}: name another "
                        "folder"
                    )
                if entry.pop("of") == self.mark:
                    for name in ("value", "error"):  # JSON has no NaN
                        entry[name] = math.nan if entry[name] is None else entry[name]
                    outcome = _checked(Outcome(**entry))
                    self.known[self.key(outcome.sizes, outcome.seed)] = outcome
            except InputError:
                raise
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                continue  # a line that was cut off while it was written, or is not ours

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
                entry = {"format": FORMAT, "of": self.mark, **asdict(outcome)}
                with self.path.open("a", encoding="utf-8") as stream:
                    stream.write(("" if self.whole else "\n") + json.dumps(plain(entry), allow_nan=False) + "\n")
                self.whole = True


def _checked(outcome: Outcome) -> Outcome:
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
