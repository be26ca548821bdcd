"""A log of a run, with one JSON object per line."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from lessbits._internal.logging import logger
from lessbits._internal.plain_values import plain
from lessbits.engines.recording.progress import ProgressState
from lessbits.engines.recording.trace import Trace
from lessbits.errors import InputError
from lessbits.version import __version__

FORMAT = "lessbits-log-1"
SECONDS = 1.0  # between two lines


class Log:
    """Appends lines to a file: the settings, the progress about once per second, and how the run ended."""

    def __init__(self, file: Path, settings: Mapping[str, Any]) -> None:
        self.file, self.due, self.works = file, 0.0, True
        try:
            self.stream = file.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"the log {file} cannot be written: {error.strerror or error}") from None
        self._write(format=FORMAT, version=__version__, settings=dict(settings))

    def __call__(self, state: ProgressState) -> None:
        """Write the progress if a line is due."""
        if state.seconds >= self.due:
            self.due = state.seconds + SECONDS
            self._write(**state._asdict())

    def end(self, trace: Trace) -> None:
        """Write how the run ended."""
        last = trace.summary()
        facts = ("converged", "diverged", "iterations", "error", "wire_bits_per_link", "seconds")
        self._write(ended=trace.message, **{name: last[name] for name in facts if name in last})

    def _write(self, **facts: Any) -> None:
        if not self.works:
            return
        line = json.dumps(plain({"time": datetime.now(UTC).isoformat(timespec="seconds"), **facts}))
        try:
            self.stream.write(line + "\n")
            self.stream.flush()
        except OSError as error:
            self.works = False
            logger.warning(f"the log {self.file} ends here ({error.strerror or error}): the run goes on")

    def __enter__(self) -> Self:
        """Return the log, which is open already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        """Write the error that ended the run, if any, and close the file."""
        if error is not None:
            self._write(ended=f"failed: {str(error) or type(error).__name__}")
        with suppress(OSError):  # already reported
            self.stream.close()
