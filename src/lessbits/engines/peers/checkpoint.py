"""The checkpoint of one site: its node's state, and where each link stands. No other site reads or needs it."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from lessbits._internal.arrays import read_arrays, write_arrays
from lessbits._internal.axes import Axis, row_axes
from lessbits._internal.files import make_folder
from lessbits.engines.peers.edge import Edge
from lessbits.engines.peers.program import SiteNode
from lessbits.engines.recording.checkpoint_files import name_leaves, put_leaves
from lessbits.errors import InputError

FORMAT = "lessbits-site-checkpoint-1"
FILE = "checkpoint.safetensors"


class SiteCheckpoints:
    """Checkpoints in a folder: the newest one, written completely or not at all.

    Args:
        folder: The folder; it is made if it is not there.
        mark: What the run is, as in greetings; a checkpoint of another run is refused.
    """

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder, self.mark = folder, mark
        make_folder(folder)

    @property
    def file(self) -> Path:
        """The file of the newest checkpoint."""
        return self.folder / FILE

    def write(self, node: SiteNode, links: dict[str, Any], facts: dict[str, Any]) -> None:
        """Write a checkpoint.

        Args:
            node: The node, between two iterations.
            links: What `standing` returned for each neighbour, at the same moment.
            facts: Other plain values to keep.
        """
        arrays = {f"state.{name}": np.asarray(leaf) for name, leaf in name_leaves(node.state).items()}
        for name, link in links.items():
            for number, body in link["sent"].items():
                arrays[f"sent.{name}.{number}"] = np.frombuffer(body, np.uint8)
        plain = {name: {key: value for key, value in link.items() if key != "sent"} for name, link in links.items()}
        text = json.dumps({**facts, "mark": self.mark, "links": plain})
        write_arrays(self.file, arrays, {"format": FORMAT, "facts": text})

    def read(self, node: SiteNode, edges: dict[str, Edge]) -> dict[str, Any] | None:
        """Restore a node and its links, and return the other facts; None if there is no checkpoint."""
        if not self.file.exists():
            return None
        state, sent, facts = read_arrays(self.file, "checkpoint of a site", _parts)
        if facts["mark"] != self.mark:
            raise InputError(
                f"{self.file} belongs to another run, or to other settings: name another state folder, or remove it to "
                "start anew"
            )
        # Links that were added to the roster since have rows between or after those of the checkpoint.
        rows = {link["row"]: edges[name].row for name, link in facts["links"].items() if name in edges}
        self._restore(node, state, rows)
        for name, link in facts["links"].items():
            if name in edges:
                edge = edges[name]
                edge.epoch, edge.last_epoch, edge.round = link["epoch"], link["last_epoch"], link["round"]
                edge.applied, edge.must_reset = link["applied"], link["must_reset"]
                edge.sent = {int(number): body.tobytes() for other, number, body in sent if other == name}
        return facts

    def _restore(self, node: SiteNode, saved: dict[str, np.ndarray], rows: dict[int, int]) -> None:
        """Put saved arrays into a node; `rows` has the place of each saved link."""
        now, axes = name_leaves(node.state), name_leaves(row_axes(node.state, Axis.NODE))
        if now.keys() != saved.keys():
            raise InputError(f"{self.file} belongs to another method: its state has other parts")
        found = {}
        for name, leaf in now.items():
            array, links = saved[name], axes[name] is Axis.LINK
            fits = array.dtype == leaf.dtype and array.shape[links:] == leaf.shape[links:]
            if not fits or (links and not all(0 <= row < len(array) for row in rows)):
                raise InputError(f"{self.file} belongs to another problem or roster: its arrays have other shapes")
            found[name] = array
            if links:
                found[name] = np.array(leaf)
                found[name][list(rows.values())] = array[list(rows)]
        node.state = put_leaves(node.state, {name: jnp.asarray(array) for name, array in found.items()})


def standing(edge: Edge) -> dict[str, Any]:
    """Return where a link stands, to be kept in a checkpoint."""
    return {
        "epoch": edge.epoch,
        "last_epoch": edge.last_epoch,
        "round": edge.round,
        "applied": edge.applied,
        "must_reset": edge.must_reset,
        "row": edge.row,
        "sent": dict(edge.sent),
    }


def _parts(
    arrays: dict[str, np.ndarray], texts: dict[str, str]
) -> tuple[dict[str, np.ndarray], list[tuple[str, str, np.ndarray]], dict[str, Any]]:
    if texts.get("format") != FORMAT:
        raise InputError(f"no checkpoint of a site of this version: its format is {texts.get('format')!r}")
    facts = json.loads(texts["facts"])
    state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
    sent = []
    for name, array in arrays.items():
        if name.startswith("sent."):
            other, _, number = name.removeprefix("sent.").rpartition(".")
            sent.append((other, number, array))
    if type(facts["iteration"]) is not int or not isinstance(facts["mark"], str):
        raise ValueError("its facts make no sense")
    for link in facts["links"].values():
        if any(type(link[entry]) is not int for entry in ("epoch", "last_epoch", "round", "applied", "row")):
            raise ValueError("where a link stood makes no sense")
    return state, sent, facts
