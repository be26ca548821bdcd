"""Checks of what a trace's file holds: it may come from elsewhere, and a checksum says nothing of its contents."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lessbits.errors import InputError, is_number, printable
from lessbits.faults.files import faults_of

COLUMNS = ("iteration", "bits_per_link", "wire_bits_per_link")  # every run has these
NUMBERS = (  # settings that are compared or written as numbers
    *("until", "seed", "problem_seed", "network_seed", "nodes", "dim", "iterations", "record_every", "batch_size"),
    "chunks",
    *(
        "theta",
        "eta",
        "gamma",
        "alpha",
        "epsilon",
        "momentum",
        "decay",
        "probability",
        "latency",
        "bandwidth",
        "precision",
    ),
)
PARTS = {"converged": bool, "diverged": bool, "message": str, "settings": dict, "provenance": dict}
DEEPEST = 6  # levels of lists and tables in settings
LONGEST = 100_000  # characters of a text
LONGEST_EVENT = 1000


def check_trace(columns: Mapping[str, np.ndarray], x: np.ndarray, ending: Any) -> None:
    """Raise a ValueError, in words that follow a colon, if this cannot be a trace."""
    if missing := [name for name in COLUMNS if name not in columns]:
        raise ValueError(f"it has no column {missing[0]}")
    records = columns["iteration"].shape
    for name, column in columns.items():
        if column.ndim != 1 or column.shape != records or not column.size or column.dtype.kind not in "iuf":
            raise ValueError(f"its column {printable(name)!r} is {_kind(column)}, but iteration is {records}")
    if not np.isfinite(columns["iteration"]).all():
        raise ValueError("its iterations are not all numbers")
    if x.ndim != 2 or x.dtype.kind != "f":
        raise ValueError(f"its x is {_kind(x)}, but it must be nodes × dim")
    if not isinstance(ending, dict):
        raise ValueError("its ending is no table")
    for name, kind in PARTS.items():
        if not isinstance(ending.get(name, {}), kind):
            raise ValueError(f"its {name} is no {kind.__name__}")
    if not is_number(ending.get("compile_seconds")):
        raise ValueError("its compile_seconds is no number")
    _check_settings(ending.get("settings", {}))
    _check_provenance(ending.get("provenance", {}), x.shape[0])
    _check_values(ending, "its ending")


def _check_settings(settings: Mapping[str, Any]) -> None:
    sizes = settings.get("step_sizes") or {}
    if not isinstance(sizes, dict):
        raise ValueError("its setting step_sizes is no table")
    numbers = {**{name: settings.get(name) for name in NUMBERS}, **sizes}
    for name, value in numbers.items():
        if value is not None and not is_number(value):
            raise ValueError(f"its setting {printable(name)} is no number")


def _check_provenance(provenance: Mapping[str, Any], nodes: int) -> None:
    for name in ("rate", "links"):
        if provenance.get(name) is not None and not is_number(provenance[name]):
            raise ValueError(f"its {name} is no number")
    chosen = provenance.get("chosen_with") or {}
    if not isinstance(chosen, dict) or not all(is_number(value) for value in chosen.values()):
        raise ValueError("its chosen_with is no table of numbers")
    names = provenance.get("names")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("its names of nodes are no list of texts")
    _check_faults(provenance, nodes)
    edges = provenance.get("edges")
    if edges is None:
        return
    if not isinstance(edges, list) or len(edges) != 3 or not all(isinstance(part, list) for part in edges):
        raise ValueError("its edges are not three lists")
    first, second, weights = edges
    if not len(first) == len(second) == len(weights):
        raise ValueError("its edges are lists of different lengths")
    if not all(type(node) is int and node >= 0 for node in (*first, *second)):
        raise ValueError("its edges have nodes that are no numbers")
    if not all(is_number(weight) and weight > 0 for weight in weights):
        raise ValueError("its edges have weights that are no numbers above 0")


def _check_faults(provenance: Mapping[str, Any], nodes: int) -> None:
    """Raise for faults that cannot be, for events that are no [iteration, text], and for nodes that are not there."""
    told = provenance.get("faults", {})
    if not isinstance(told, dict):
        raise ValueError("its faults are no table")
    try:
        faults_of(told, "its faults")
    except InputError as error:
        raise ValueError(str(error)) from None
    for name, form, kinds in (
        *((name, "[iteration, text]", (int, str)) for name in ("events", "parts", "part_ends")),
        *((name, "[node, first, end]", (int, int, int)) for name in ("gone", "paused")),
    ):
        entries = provenance.get(name, [])
        if not isinstance(entries, list) or not all(_is_entry(entry, kinds) for entry in entries):
            raise ValueError(f"its {name} are no list of {form}")
    away = [entry[0] for name in ("gone", "paused") for entry in provenance.get(name, [])]
    if away and max(away) >= nodes:
        raise ValueError(f"node {max(away)} was away, but it has {nodes} nodes")


def _is_entry(entry: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether this is a list of values of these kinds. Texts are short, and numbers are counts."""
    return (
        isinstance(entry, list)
        and len(entry) == len(kinds)
        and all(type(value) is kind for value, kind in zip(entry, kinds, strict=True))
        and all(len(value) <= LONGEST_EVENT if isinstance(value, str) else 0 <= value < 2**63 for value in entry)
    )


def _check_values(value: Any, what: str, depth: int = 0) -> None:
    """Raise for texts that are absurdly long, and for tables in tables in tables."""
    if depth > DEEPEST:
        raise ValueError(f"{what} has lists in lists, {depth} levels deep")
    if isinstance(value, str) and len(value) > LONGEST:
        raise ValueError(f"{what} has a text of {len(value)} characters")
    if isinstance(value, dict):
        for name, entry in value.items():
            _check_values(name, what, depth)
            _check_values(entry, what, depth + 1)
    elif isinstance(value, list):
        for entry in value:
            _check_values(entry, what, depth + 1)


def _kind(array: np.ndarray) -> str:
    return f"of shape {array.shape} and dtype {array.dtype}"
