"""Atomic writes: a file is written completely or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically: it is synced to disk under another name, then renamed."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # two processes may write the same file
    try:
        with partial.open("wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
