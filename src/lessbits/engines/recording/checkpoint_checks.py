"""Checks of what a checkpoint holds: it may come from elsewhere, and a valid checksum says nothing of its contents."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits._internal.axes import Axis
from lessbits.errors import InputError, printable
from lessbits.networks import Network

if TYPE_CHECKING:
    from lessbits.engines.recording.checkpoint_files import Checkpoint

GROUPS = ("state", "records", "since")
RECORDS = ("iteration", "work", "sent", "wire", "seconds")
LARGEST_COUNT = 2**31 - 1
LONGEST_MARK = 1000  # characters


def check_contents(facts: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise a ValueError, in words that follow a colon, if this cannot be a checkpoint."""
    if not isinstance(facts, dict):
        raise ValueError("its facts are no table")
    iteration, marks = facts.get("iteration"), facts.get("marks")
    if type(iteration) is not int or not 0 <= iteration <= LARGEST_COUNT:
        raise ValueError("its iteration is no whole number from 0 on")
    if not isinstance(marks, dict) or not all(
        isinstance(mark, str) and len(mark) <= LONGEST_MARK for mark in marks.values()
    ):
        raise ValueError("its marks are no table of texts")
    for name, array in arrays.items():
        if name.partition(".")[0] not in GROUPS or array.dtype.kind not in "biuf":
            raise ValueError(f"it has an array {printable(name[:40])!r} of dtype {array.dtype}")
    _check_records({name: arrays.get(f"records.{name}") for name in RECORDS}, iteration)
    records = len(arrays["records.iteration"])
    if not all(array.shape[:1] == (records,) for name, array in arrays.items() if name.startswith("records.")):
        raise ValueError("its records are of different lengths")


def _check_records(records: Mapping[str, np.ndarray | None], iteration: int) -> None:
    for name, array in records.items():
        dimensions = 1 if name in ("iteration", "seconds") else 2
        if array is None or array.ndim != dimensions or not array.size:
            raise ValueError(f"its records have no {name}, or one of another shape")
    ends = records["iteration"]
    assert ends is not None
    if ends.dtype.kind not in "iu" or ends[0] != 0 or (np.diff(ends) <= 0).any() or ends[-1] > iteration:
        raise ValueError("its records are not in order")


def check_fits(
    saved: "Checkpoint",
    state: Mapping[str, Any],
    axes: Mapping[str, Axis],
    network: Network,
    parts: Mapping[str, Sequence[np.ndarray]],
) -> None:
    """Raise an `InputError` if a checkpoint does not fit the run that is to go on from it.

    Args:
        saved: The checkpoint, of all nodes.
        state: The arrays of this process's state, by name.
        axes: Whether each has a row per node or per link.
        network: The network of all nodes.
        parts: The records of a run that has just begun.
    """
    if set(saved.state) != set(state):
        raise InputError("the checkpoint belongs to another method: its state has other parts")
    rows = {Axis.NODE: network.nodes, Axis.LINK: network.links}
    for name, leaf in state.items():
        given, wanted = saved.state[name], (*((rows[axes[name]],) if axes[name] in rows else leaf.shape[:1]),)
        fits = given.ndim == leaf.ndim and given.shape[1:] == leaf.shape[1:] and given.dtype == leaf.dtype
        if not fits or (given.shape[:1] != wanted if axes[name] in rows else given.shape[:1] < wanted):
            raise InputError(
                f"the checkpoint has {name} of shape {given.shape} and dtype {given.dtype}, but this run needs "
                f"{(*wanted, *leaf.shape[1:])} and {leaf.dtype}: take the checkpoint of this run"
            )
    for name, part in parts.items():
        if name not in saved.records or saved.records[name].shape[1:] != part[0].shape[1:]:
            raise InputError(f"the checkpoint has no records of {name}, or of another shape: take that of this run")
    for name, array in saved.since.items():
        if name in parts and array.size != parts[name][0][0].size:
            raise InputError(f"the checkpoint has {name} of shape {array.shape} since its last record: it is damaged")
