"""The file of one checkpoint, and the identity of the run that it belongs to."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lessbits._internal.arrays import first_line, load_arrays, write_arrays
from lessbits._internal.plain_values import plain
from lessbits.engines.recording.checkpoint_checks import check_contents
from lessbits.errors import InputError, printable
from lessbits.problems.computed import nearly_same

FORMAT = "lessbits-checkpoint-2"
LONG = 16  # length of a fingerprint, which is not shown to the user
COMPUTED = "computed"  # the name of the array of `Identity.computed`
GROUPS = ("state", "records", "since")
METHOD = "method, step size or quantizer"  # the mark that decides whether the method is the same
PART = "of the method: "  # marks that only say in what it differs; checkpoints of earlier versions have none


class Identity(NamedTuple):
    """What must match to resume a run."""

    marks: Mapping[str, str]  # by subject; a fingerprint or a value
    computed: np.ndarray  # what the problem's functions compute, float64 [nodes, numbers]
    tolerance: float = 0.0  # how much of the largest number in a column engines may differ by

    def differences(self, other: "Identity") -> list[str]:
        """Return in what this run differs from another, in words."""
        different = []
        for name in dict.fromkeys((*self.marks, *other.marks)):
            now, was = self.marks.get(name), other.marks.get(name)
            if now == was or name.startswith(PART):
                continue
            if name == METHOD:
                different += self._parts(other) or [name]
            else:
                different.append(name if len(now or "") == LONG else f"{name} (was {was}, now {now})")
        if not different and not self._computes_as(other.computed):
            different.append("loss, which computes other numbers at the same points")
        return different

    def _parts(self, other: "Identity") -> list[str]:
        """Return in which parts the methods differ, as far as both have them."""
        shared = [name for name in self.marks if name.startswith(PART) and name in other.marks]
        return [
            f"{name.removeprefix(PART)} (was {printable(other.marks[name])}, now {self.marks[name]})"
            for name in shared
            if self.marks[name] != other.marks[name]
        ]

    def _computes_as(self, other: np.ndarray) -> bool:
        if self.computed.shape != other.shape:
            return False
        return bool(nearly_same(self.computed, other, self.tolerance).all())


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint."""

    iteration: int
    state: Mapping[str, np.ndarray]  # of all nodes, by name of the array
    records: Mapping[str, np.ndarray]
    since: Mapping[str, np.ndarray]  # counts and times since the last record
    identity: Identity

    def write(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Write the file; the settings are for information only."""
        arrays = {
            f"{group}.{name}": np.asarray(array) for group in GROUPS for name, array in getattr(self, group).items()
        }
        facts = {"iteration": self.iteration, "marks": dict(self.identity.marks), "settings": plain(dict(settings))}
        write_arrays(path, {**arrays, COMPUTED: self.identity.computed}, {"format": FORMAT, "facts": json.dumps(facts)})


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, and verify its checksum."""
    try:
        arrays, texts = load_arrays(path)
        if texts.get("format") != FORMAT:
            raise InputError(f"{path} is no checkpoint of this version: its format is {texts.get('format')!r}")
        if "checksum" not in texts:
            raise ValueError("it has no checksum")
        facts, computed = json.loads(texts["facts"]), arrays.pop(COMPUTED)
        check_contents(facts, arrays)
        if computed.dtype.kind != "f":
            raise ValueError("what its loss computed is no numbers")
        identity = Identity(facts["marks"], computed)
        groups: dict[str, dict[str, np.ndarray]] = {group: {} for group in GROUPS}
        for name, array in arrays.items():
            group, _, rest = name.partition(".")
            groups[group][rest] = array
        return Checkpoint(int(facts["iteration"]), **groups, identity=identity)
    except InputError:
        raise
    except (OSError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {first_line(error)}") from None


def read_marks(path: Path) -> Mapping[str, str] | None:
    """Return the marks of the run that a checkpoint belongs to, from its first bytes alone; None if it is damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return json.loads((file.metadata() or {})["facts"])["marks"]
    except (SafetensorError, OSError, LookupError, TypeError, ValueError):
        return None


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
