"""Checkpoints, from which a run resumes with the same numbers. They are written atomically."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lessbits._internal.arrays import first_line, load_arrays, write_arrays
from lessbits._internal.logging import logger
from lessbits._internal.plain_values import plain
from lessbits.engines.recording.checkpoint_checks import check_contents
from lessbits.errors import InputError, check_flag, check_path, check_whole

FORMAT = "lessbits-checkpoint-1"
LONG = 16  # length of a fingerprint, which is not shown to the user
KEPT = 2  # checkpoints, so that one is left if the newest is damaged
NAME = re.compile(r"checkpoint-(\d+)\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint."""

    iteration: int
    state: Mapping[str, np.ndarray]  # of all nodes, by name of the array
    records: Mapping[str, np.ndarray]
    since: Mapping[str, np.ndarray]  # counts and times since the last record
    marks: Mapping[str, str]  # the identity of the run, which must match to resume


@dataclass(frozen=True)
class Checkpoints:
    """A folder of checkpoints. A run also writes one when it is interrupted. The last two are kept.

    Attributes:
        folder: The folder. Without `resume` it must not hold checkpoints yet.
        every: Iterations between two checkpoints; None writes one only when the run is interrupted.
        resume: Whether to resume from a checkpoint in the folder.
        resume_at: Iteration of the checkpoint to resume from; None for the newest.
        settings: Stored in each checkpoint, for information only.

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

    def __post_init__(self) -> None:
        """Raise an `InputError` for a folder that is a file, and for an interval below 1."""
        object.__setattr__(self, "folder", check_path("the folder of checkpoints", self.folder))
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file, but checkpoints go into a folder: name another")
        if self.every is not None:
            check_whole("checkpoint_every, the iterations between two checkpoints,", self.every, 1)
        if self.resume_at is not None:
            check_whole("resume_at", self.resume_at, 0)
        check_flag("resume", self.resume)

    def path(self, iteration: int) -> Path:
        """Return the file of the checkpoint of an iteration."""
        return self.folder / f"checkpoint-{iteration:010d}.safetensors"

    def iterations(self) -> list[int]:
        """Return the iterations of all checkpoints in the folder, oldest first."""
        names = (NAME.fullmatch(path.name) for path in self.folder.glob("checkpoint-*.safetensors"))
        return sorted(int(match[1]) for match in names if match)

    def due(self, before: int, now: int) -> bool:
        """Return whether a checkpoint is due at iteration `now`; `before` is the iteration of the last such check."""
        return self.every is not None and now // self.every > before // self.every

    def write(self, saved: Checkpoint) -> None:
        """Write a checkpoint, and remove all but the last two. Log a warning if it cannot be written."""
        arrays = {
            f"{group}.{name}": np.asarray(array)
            for group in ("state", "records", "since")
            for name, array in getattr(saved, group).items()
        }
        facts = {"iteration": saved.iteration, "marks": dict(saved.marks), "settings": plain(dict(self.settings))}
        text = json.dumps(facts)
        metadata = {"format": FORMAT, "facts": text, "checksum": _checksum(arrays, text)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_arrays(self.path(saved.iteration), arrays, metadata)
        except OSError as error:
            logger.warning(
                f"the checkpoint of iteration {saved.iteration} could not be written "
                f"({error.strerror or error}): the run goes on, and earlier checkpoints stay"
            )
            return
        for old in self.iterations()[:-KEPT]:
            self.path(old).unlink(missing_ok=True)

    def record_every(self) -> int | None:
        """Return the record interval of the run to resume, or None if there is no checkpoint to resume from."""
        existing = self.iterations()
        if not self.resume or not existing:
            return None
        wanted = existing[-1] if self.resume_at is None else self.resume_at
        try:
            return int(read_checkpoint(self.path(wanted)).marks["record_every"])
        except (ValueError, LookupError):
            return None  # `read` raises the error

    def check(self) -> None:
        """Raise an `InputError` if the folder holds checkpoints of another run and `resume` is False."""
        existing = self.iterations()
        if existing and not self.resume:
            raise InputError(
                f"{self.folder} holds a checkpoint of iteration {existing[-1]} already: give --resume to go on from "
                "it, or name another folder"
            )

    def read(self, marks: Mapping[str, str]) -> Checkpoint | None:
        """Return the checkpoint to resume from, or None for a new run.

        Raise an `InputError` if the checkpoint is damaged or belongs to another run; `marks` is the identity of this
        run.
        """
        self.check()
        if not self.resume:
            return None
        existing = self.iterations()
        if not existing:
            raise InputError(f"there is no checkpoint in {self.folder} to resume from: leave --resume out to begin one")
        wanted = existing[-1] if self.resume_at is None else self.resume_at
        if wanted not in existing:
            raise InputError(
                f"{self.folder} has no checkpoint of iteration {wanted}, only of {', '.join(map(str, existing))}"
            )
        try:
            saved = read_checkpoint(self.path(wanted))
        except InputError as error:
            others = [iteration for iteration in existing if iteration != wanted and self._whole(iteration)]
            offer = "no other one is whole"
            if others:
                offer = f"that of iteration {others[-1]} is whole: go on from it with --resume-at {others[-1]}"
            raise InputError(f"{error}; {offer}") from None
        names = [*marks, *(name for name in saved.marks if name not in marks)]
        different = [name for name in names if saved.marks.get(name) != marks.get(name)]
        if different:
            short = (f"{name} (was {saved.marks.get(name)}, now {marks.get(name)})" for name in different)
            facts = [
                name if len(marks.get(name, "")) == LONG else line for name, line in zip(different, short, strict=True)
            ]
            raise InputError(
                f"the checkpoints in {self.folder} belong to another run, with another {', '.join(facts)}: give the "
                "same, or name another folder"
            )
        return saved

    def _whole(self, iteration: int) -> bool:
        try:
            read_checkpoint(self.path(iteration))
        except InputError:
            return False
        return True


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, and verify its checksum."""
    try:
        arrays, metadata = load_arrays(path)
        if metadata.get("format") != FORMAT:
            raise InputError(f"{path} is no checkpoint of this version: its format is {metadata.get('format')!r}")
        if metadata["checksum"] != _checksum(arrays, metadata["facts"]):
            raise InputError(f"{path} is damaged: its checksum does not fit")
        facts = json.loads(metadata["facts"])
        check_contents(facts, arrays)
    except InputError:
        raise
    except (OSError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {first_line(error)}") from None
    groups: dict[str, dict[str, np.ndarray]] = {"state": {}, "records": {}, "since": {}}
    for name, array in arrays.items():
        group, _, rest = name.partition(".")
        groups[group][rest] = array
    return Checkpoint(int(facts["iteration"]), marks=facts["marks"], **groups)


def _checksum(arrays: Mapping[str, np.ndarray], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def name_leaves(state: Any) -> dict[str, Any]:
    """Return the arrays of a state by name, such as `memory.h`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def put_leaves(state: Any, arrays: Mapping[str, Any]) -> Any:
    """Return a state of the same structure with these arrays."""
    names = list(name_leaves(state))
    if set(names) != set(arrays):
        raise InputError("the checkpoint belongs to another method: its state has other parts")
    return jax.tree.unflatten(jax.tree.structure(state), [arrays[name] for name in names])
