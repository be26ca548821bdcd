"""The results of a reproduction: data, plots and a summary in one folder, and cached cells that a rerun skips."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from lessbits._internal.files import make_folder, write_csv, write_whole
from lessbits._internal.logging import logger
from lessbits._internal.plain_values import plain
from lessbits._internal.wording import human
from lessbits.report.plots import save_figure
from lessbits.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]


@dataclass
class Results:
    """The folder of one experiment, and the statements that agree or disagree with the paper."""

    folder: Path
    name: str
    quick: bool = False
    progress: bool = True
    agrees: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # findings beyond the paper
    missing: list[str] = field(default_factory=list)  # what could not be run
    files: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the folder."""
        make_folder(self.folder)

    def say(self, text: str) -> None:
        """Log progress for the user."""
        if self.progress:
            logger.info(text, extra={"speaker": self.name})

    def cell(self, key: str, inputs: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """Return the cached result for these inputs, or compute and cache it.

        The inputs are everything that the result depends on. If they or the precision change, the cell is computed
        again. Experiments in neighbouring folders share their cells.
        """
        path, digest = self._place(key, inputs)
        kept = self.kept(key, inputs)
        if kept is not None:
            return kept
        self.say(key)
        result = plain(compute())
        make_folder(path.parent)
        write_whole(path, json.dumps({"key": key, "inputs": digest, "result": result}, allow_nan=False))
        return result

    @property
    def cells(self) -> Path:
        """The folder of cached cells, which experiments in neighbouring folders share."""
        return self.folder.parent / "cells"

    def kept(self, key: str, inputs: Mapping[str, Any]) -> Any:
        """Return the cached result for these inputs; None if there is none."""
        path, digest = self._place(key, inputs)
        if not path.is_file():
            return None
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:  # damaged
            return None
        valid = isinstance(kept, dict) and {"inputs", "result"} <= kept.keys()
        return kept["result"] if valid and kept["inputs"] == digest else None

    def _place(self, key: str, inputs: Mapping[str, Any]) -> tuple[Path, str]:
        all_inputs = {**inputs, "precision": str(jnp.result_type(float))}
        digest = hashlib.sha256(json.dumps(all_inputs, sort_keys=True, default=str).encode()).hexdigest()[:16]
        return self.cells / f"{re.sub(r'[^A-Za-z0-9.]+', '-', key).strip('-')}.json", digest

    def claim(self, holds: bool, text: str) -> None:
        """Record a statement about a claim of the paper, and whether the numbers support it."""
        (self.agrees if holds else self.differs).append(text)

    def findings(self) -> dict[str, list[str]]:
        """Return the recorded statements by heading."""
        found = {
            "Holds in this small form" if self.quick else "Agrees with the paper": self.agrees,
            "Does not hold in this small form" if self.quick else "Does not agree": self.differs,
            "Beyond the paper": self.notes,
            "Not run": self.missing,
        }
        return {heading: lines for heading, lines in found.items() if lines}

    def table(self, stem: str, rows: list[Row]) -> None:
        """Write the rows as CSV and JSON, if there are any."""
        if not rows:
            return
        write_csv(self.folder / f"{stem}.csv", rows)
        write_whole(
            self.folder / f"{stem}.json",
            "[\n" + ",\n".join(json.dumps(plain(row), allow_nan=False) for row in rows) + "\n]\n",
        )
        self.files += [f"{stem}.csv", f"{stem}.json"]

    def figure(self, stem: str, figure: "Figure") -> None:
        """Write a plot as PNG and SVG."""
        save_figure(figure, self.folder / f"{stem}.png", dpi=120)
        figure.set_layout_engine("none")  # the layout is computed already, and takes as long as drawing
        save_figure(figure, self.folder / f"{stem}.svg")
        self.files += [f"{stem}.png", f"{stem}.svg"]

    def summary(self, title: str, text: str) -> Path:
        """Write summary.md: the command, what agrees with the paper, what does not, and the given text."""
        command = f"lessbits reproduce {self.name}" + (" --quick" if self.quick else "")
        parts = [f"# {title}", f"Made by `{command}` (lessbits {__version__})."]
        if self.quick:
            parts.append("This is the quick form: smaller and coarser than the paper's experiment.")
        for heading, lines in self.findings().items():
            parts.append(f"## {heading}\n\n" + "\n".join(f"- {line}" for line in lines))
        parts.append(text)
        parts += [f"![{path}]({path})" for path in self.files if path.endswith(".png")]
        parts.append("Data: " + ", ".join(f"[{path}]({path})" for path in self.files if not path.endswith(".svg")))
        path = self.folder / "summary.md"
        write_whole(path, "\n\n".join(parts) + "\n")
        return path


def markdown_table(rows: Iterable[Row], columns: Mapping[str, str] | None = None) -> str:
    """Return rows as a Markdown table; `columns` maps the columns to show to their headings."""
    rows = list(rows)
    if not rows:
        return "There is nothing to show."
    columns = columns or {name: name.replace("_", " ") for row in rows for name in row}
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_shown(name, row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def _shown(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column == "bits_per_link":
        return human(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
