"""The files of a search: its ranking as a table, and the best settings."""

import csv
import json
from pathlib import Path
from typing import Any

from lessbits._internal.files import write_whole
from lessbits._internal.plain_values import plain
from lessbits.config.settings import Settings


def save_ranking(out: Path | None, result: dict[str, Any], best: Settings | None) -> dict[str, Any]:
    """Write the ranking and the best settings if a folder is given, and return the result with the folder's name."""
    if out is None:
        return result
    out.mkdir(parents=True, exist_ok=True)
    rows = result["candidates"]
    names = dict.fromkeys(name for row in rows for name in row)  # methods differ in their step sizes
    with (out / "ranking.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(names))
        writer.writeheader()
        writer.writerows(rows)
    write_whole(out / "ranking.json", json.dumps(plain(result), indent=1, allow_nan=False) + "\n")
    if best is not None:
        write_whole(out / "best.toml", best.to_toml())
    return {**result, "saved": str(out)}
