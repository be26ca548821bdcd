"""A log of a run: one JSON object a line, so that people can follow it and programs can read it."""

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
    """Lines at the end of a file: the settings, how the run is going about once a second, and how it ended."""

    def __init__(self, file: Path, settings: Mapping[str, Any]) -> None:
        self.file, self.due, self.works = file, 0.0, True
        try:
            self.stream = file.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"the log {file} cannot be written: {error.strerror or error}") from None
        self._write(format=FORMAT, version=__version__, settings=dict(settings))

    def __call__(self, standing: ProgressState) -> None:
        """Write where the run is, if it is time."""
        if standing.seconds >= self.due:
            self.due = standing.seconds + SECONDS
            self._write(**standing._asdict())

    def end(self, trace: Trace) -> None:
        """Write how the run ended."""
        last = trace.summary()
        facts = ("converged", "diverged", "iterations", "error", "wire_bits_per_link", "seconds")
        self._write(ended=trace.message, **{name: last[name] for name in facts})

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
        """Nothing to do: the file is open."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        """Close the file; what broke the run is its last line."""
        if error is not None:
            self._write(ended=f"failed: {str(error) or type(error).__name__}")
        with suppress(OSError):  # said already
            self.stream.close()
