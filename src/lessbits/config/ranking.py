"""The files of a search: its ranking as a table, and the best settings."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lessbits._internal.files import make_folder, write_csv, write_whole
from lessbits._internal.plain_values import plain
from lessbits.config.settings import Settings


def save_ranking(out: Path | None, result: dict[str, Any], best: Settings | None) -> dict[str, Any]:
    """Write the ranking and the best settings if a folder is given, and return the result with the folder's name.

    "unsaved" says which files could not be written, if any.
    """
    if out is None:
        return result
    files: dict[Path, Callable[[Path], None]] = {
        out / "ranking.csv": lambda file: write_csv(file, result["candidates"]),
        out / "ranking.json": lambda file: write_whole(
            file, json.dumps(plain(result), indent=1, allow_nan=False) + "\n"
        ),
    }
    if best is not None:
        files[out / "best.toml"] = lambda file: write_whole(file, best.to_toml())
    unsaved = []
    for file, write in files.items():
        try:
            make_folder(out)
            write(file)
        except OSError as error:  # the search took long: its result is reported all the same
            unsaved.append(f"{file} could not be written ({error.strerror or error})")
    return {**result, "saved": str(out), **({"unsaved": "; ".join(unsaved)} if unsaved else {})}
