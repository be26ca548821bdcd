"""Checkpoints, from which a run resumes with the same numbers. They are written atomically."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lessbits._internal.files import PARTIAL, make_folder, remove
from lessbits._internal.locks import FolderLock
from lessbits._internal.logging import logger
from lessbits.engines.distributed.transport import Transport
from lessbits.engines.recording.checkpoint_files import Checkpoint, Identity, read_checkpoint, read_marks
from lessbits.errors import InputError, check_flag, check_folder, check_whole, shown

MOST = 2**31 - 1  # iterations of a run
KEPT = 2  # checkpoints, so that one is left if the newest is damaged
NAME = re.compile(r"checkpoint-(\d+)\.safetensors")


@dataclass
class _Run:
    """The run that has the folder."""

    lock: FolderLock | None = None
    written: list[int] = field(default_factory=list)  # iterations that it wrote or resumed from


def _is_json(values: Mapping[str, Any]) -> bool:
    try:
        json.dumps(dict(values))
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Checkpoints:
    """A folder of checkpoints. A run also writes one when it is interrupted. The last two of the run are kept.

    One run writes to a folder at a time.

    Attributes:
        folder: The folder. Without `resume` it must not hold checkpoints yet.
        every: Iterations between two checkpoints; None writes one only when the run is interrupted.
        resume: Whether to resume from a checkpoint in the folder.
        resume_at: Iteration of the checkpoint to resume from; None for the newest that is whole.
        settings: Stored in each checkpoint, for information only.
        at_end: Whether to write one when the run ends by itself, too.

    Example:
        >>> import tempfile, lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=8, dim=5), lessbits.make_network("ring", nodes=8)
        >>> method = lessbits.primal_dual(problem, network, theta=0.5, eta=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     checkpoints = Checkpoints(folder, every=50)
        ...     _ = lessbits.simulate(problem, network, method, iterations=100, checkpoints=checkpoints)
        ...     again = Checkpoints(folder, resume=True)
        ...     trace = lessbits.simulate(problem, network, method, iterations=200, checkpoints=again)
        ...     print(again.iterations(), len(trace))
        [50, 100] 201
    """

    folder: Path
    every: int | None = None
    resume: bool = False
    resume_at: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    at_end: bool = False
    _run: _Run = field(default_factory=_Run, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise an `InputError` for a folder that is a file, and for an interval below 1."""
        object.__setattr__(self, "folder", check_folder("the folder of checkpoints", self.folder))
        if self.every is not None:
            check_whole("checkpoint_every, the iterations between two checkpoints,", self.every, 1, MOST)
        if self.resume_at is not None:
            check_whole("resume_at", self.resume_at, 0, MOST)
        check_flag("resume", self.resume)
        check_flag("at_end", self.at_end)
        if not isinstance(self.settings, Mapping) or not _is_json(self.settings):
            raise InputError(
                f"the settings of checkpoints are {shown(self.settings)}, but they must map names to what JSON can hold"
            )

    def path(self, iteration: int) -> Path:
        """Return the file of the checkpoint of an iteration."""
        return self.folder / f"checkpoint-{iteration:010d}.safetensors"

    def iterations(self) -> list[int]:
        """Return the iterations of all checkpoints in the folder, oldest first."""
        names = (NAME.fullmatch(path.name) for path in self.folder.glob("checkpoint-*.safetensors"))
        return sorted(int(match[1]) for match in names if match)

    def due(self, before: int, now: int, ended: bool = False) -> bool:
        """Return whether a checkpoint is due at iteration `now`.

        Args:
            before: The iteration of the last such check.
            now: This iteration.
            ended: Whether the run ends with it.
        """
        return (self.at_end and ended) or (self.every is not None and now // self.every > before // self.every)

    def write(self, saved: Checkpoint) -> None:
        """Write a checkpoint, and remove all but the last two of this run. Log a warning if it cannot be written."""
        try:
            make_folder(self.folder)
            saved.write(self.path(saved.iteration), self.settings)
            written = self._run.written
            written[:] = [*(known for known in written if known < saved.iteration), saved.iteration][-KEPT:]
            for old in self.iterations():
                if old < written[0] and read_marks(self.path(old)) == saved.identity.marks:
                    remove(self.path(old))
        except OSError as error:
            logger.warning(
                f"the checkpoint of iteration {saved.iteration} could not be written "
                f"({error.strerror or error}): the run goes on, and earlier checkpoints stay"
            )

    def record_every(self) -> int | None:
        """Return the record interval of the run to resume, or None if there is no checkpoint to resume from."""
        if not self.resume:
            return None
        try:
            every = int(self._find()[0].identity.marks["record_every"])
            return every if 0 < every < 2**63 else None
        except (ValueError, LookupError):
            return None  # `read` raises the error

    def check(self) -> None:
        """Raise an `InputError` if a run could not use the folder.

        That is if it cannot be written, another run writes there, or it holds checkpoints and `resume` is False.
        """
        self.take()
        self.release()

    def release(self) -> None:
        """Let other runs have the folder."""
        if self._run.lock is not None:
            self._run.lock.release()
            self._run.lock = None

    def take(self) -> None:
        """Have the folder for one run, until `release`. Raise an `InputError` as `check` does."""
        self.release()  # an earlier run of this object, which did not end well
        if self.resume and not self.folder.exists():
            self._find()  # raises, before the folder is made
        try:
            make_folder(self.folder)
            self._run.lock = FolderLock(self.folder)
        except BlockingIOError as error:
            raise InputError(
                f"{self.folder} is in use by another run ({error.strerror}): wait until it ends, or name another folder"
            ) from None
        except OSError as error:
            raise InputError(
                f"checkpoints cannot be written to {self.folder} ({error.strerror}): name another folder"
            ) from None
        self._run.written.clear()
        for partial in self.folder.glob(f"checkpoint-*{PARTIAL}"):  # of a run that was killed
            remove(partial)
        existing = self.iterations()
        if existing and not self.resume:
            self.release()
            raise InputError(
                f"{self.folder} holds a checkpoint of iteration {existing[-1]} already: give --resume to go on from "
                "it, or name another folder"
            )

    def read(self, identity: Identity) -> Checkpoint | None:
        """Return the checkpoint to resume from, or None for a new run. The run has the folder already.

        A damaged one is passed over, with a warning, unless `resume_at` names it. Raise an `InputError` if none is
        whole, or it belongs to another run; `identity` is that of this run.
        """
        if not self.resume:
            return None
        saved, passed_over = self._find()
        if different := identity.differences(saved.identity):
            raise InputError(
                f"the checkpoints in {self.folder} belong to another run, with another {', '.join(different)}: give "
                "the same, or name another folder"
            )
        if passed_over:
            logger.warning(
                f"{passed_over[0]}: the run goes on from that of iteration {saved.iteration}, which is whole"
            )
        self._run.written.append(saved.iteration)
        return saved

    def _find(self) -> tuple[Checkpoint, list[str]]:
        """Return the checkpoint to resume from, and what is wrong with newer ones, newest first."""
        existing = self.iterations()
        if not existing:
            raise InputError(f"there is no checkpoint in {self.folder} to resume from: leave --resume out to begin one")
        if self.resume_at is not None:
            if self.resume_at not in existing:
                raise InputError(
                    f"{self.folder} has no checkpoint of iteration {self.resume_at}, only of "
                    f"{', '.join(map(str, existing))}"
                )
            return read_checkpoint(self.path(self.resume_at)), []
        passed_over: list[str] = []
        for iteration in reversed(existing):
            try:
                return read_checkpoint(self.path(iteration)), passed_over
            except InputError as error:
                passed_over.append(str(error))
        raise InputError(f"{passed_over[0]}; no other one is whole: leave --resume out, and name another folder")


@contextmanager
def folder_held(checkpoints: Checkpoints | None, transport: Transport) -> Iterator[None]:
    """Have the folder of checkpoints, if there is one, for a run. All ranks call this; the first one writes there."""
    if checkpoints is None:
        yield
        return
    transport.at_first(checkpoints.take)
    try:
        yield
    finally:
        if transport.rank == 0:
            checkpoints.release()
