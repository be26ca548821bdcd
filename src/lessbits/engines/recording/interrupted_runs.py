"""What runs without a folder of checkpoints keep when they are interrupted: the same run goes on from there."""

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass

from lessbits._internal.hashing import fingerprint
from lessbits._internal.logging import logger
from lessbits.engines.recording.checkpoint_files import Checkpoint, Identity
from lessbits.engines.recording.checkpoints import Checkpoints
from lessbits.errors import InputError
from lessbits.version import __version__

DAYS = 30  # after which an interrupted run is dropped


@dataclass(frozen=True)
class InterruptedRuns(Checkpoints):
    """A folder of runs that were interrupted, each in a folder of its own; `folder` becomes that of this run.

    A run is known by its identity, by all its settings and by the version: with another target, the run that was
    interrupted may have ended before. Nothing is made or locked until there is something to keep.
    """

    def take(self) -> None:
        """Do nothing: many runs may share the folder, and most of them write nothing."""

    def read(self, identity: Identity) -> Checkpoint | None:
        """Return the last state of this run if it was interrupted before, and say so; None for a new run."""
        key = fingerprint(__version__, dict(identity.marks), dict(self.settings))
        object.__setattr__(self, "folder", self.folder / key)
        object.__setattr__(self, "resume", bool(self.iterations()))
        try:
            saved = super().read(identity)
        except InputError as error:
            logger.warning(f"{error}; the run begins anew")
            return None
        if saved is not None:
            logger.info(f"this run goes on from iteration {saved.iteration}, which is kept in {self.folder}")
        return saved

    def write(self, saved: Checkpoint) -> None:
        """Keep the state of this run, and drop those that nobody went on with."""
        super().write(saved)
        with suppress(OSError):  # another run removes the same ones
            for file in self.folder.parent.glob("*/checkpoint-*.safetensors"):
                if time.time() - file.stat().st_mtime > DAYS * 86_400:
                    shutil.rmtree(file.parent)

    def forget(self) -> None:
        """Remove what was kept of this run, which has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # other runs are in it
            self.folder.parent.rmdir()
