"""Checks of what a model's file holds: it may come from elsewhere, and a checksum says nothing of its contents."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lessbits.errors import printable


def check_facts(facts: Any, parameters: Iterable[str], numbers: Iterable[str], names: Iterable[str]) -> None:
    """Raise a ValueError, in words that follow a colon, if these cannot be the facts of a model.

    Args:
        facts: What the file says.
        parameters: Names that the estimator's parameters have.
        numbers: Names of the attributes that are whole numbers.
        names: Names of the attributes that are lists of names.
    """
    for part, allowed in (("parameters", parameters), ("numbers", numbers), ("names", names)):
        given = facts.get(part)
        if not isinstance(given, dict):
            raise ValueError(f"its {part} are no table")
        if unknown := set(given) - set(allowed):
            raise ValueError(f"its {part} have {printable(min(unknown)[:40])!r}, which is unknown")
    if missing := [name for name in numbers if name not in facts["numbers"]]:
        raise ValueError(f"it has no {missing[0]}")
    for name, value in facts["numbers"].items():
        if type(value) is not int or value < 0:
            raise ValueError(f"its {name} is no whole number from 0 on")


def as_names(entry: Any) -> np.ndarray:
    """Return a stored array of names. Its size is checked before memory is taken."""
    if not isinstance(entry, dict) or not isinstance(entry.get("values"), list) or not isinstance(entry["type"], str):
        raise ValueError("its names are no list with a type")
    kind, values = np.dtype(entry["type"]), entry["values"]
    if kind.kind == "O" and all(isinstance(value, str) for value in values):  # as pandas names columns
        return np.array(values, kind)
    longest = max((len(value) for value in values if isinstance(value, str)), default=1)
    if kind.kind not in "biufU" or kind.itemsize > 4 * max(longest, 4):
        raise ValueError(f"its names are of type {kind}")
    return np.array(values, kind)


def check_coefficients(coefficients: np.ndarray, intercept: np.ndarray, model: Any) -> None:
    """Raise a ValueError if the coefficients do not fit the features, the classes, and each other."""
    for name, array in (("coef_", coefficients), ("intercept_", intercept)):
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"its {name} are of dtype {array.dtype}, or not finite")
    features = model.n_features_in_
    if coefficients.ndim not in (1, 2) or coefficients.shape[-1] != features:
        raise ValueError(f"its coef_ are of shape {coefficients.shape}, but it has {features} features")
    if intercept.shape not in ((), coefficients.shape[:-1], (1,)):
        raise ValueError(f"its intercept_ is of shape {intercept.shape}, and its coef_ of {coefficients.shape}")
    if hasattr(model, "feature_names_in_") and model.feature_names_in_.shape != (features,):
        raise ValueError(f"it has {features} features, but not as many names")
    if hasattr(model, "classes_"):
        rows, classes = coefficients.shape[0], len(model.classes_)
        if coefficients.ndim != 2 or rows != (1 if classes == 2 else classes) or classes < 2:
            raise ValueError(f"its coef_ have {rows} rows, and it has {classes} classes")


def check_network(value: Mapping[str, Any]) -> None:
    """Raise a ValueError if a stored network is no list of edges; whoever builds it checks the rest."""
    edges = value.get("edges")
    if type(value.get("nodes")) is not int or not isinstance(edges, list) or not isinstance(value.get("weights"), list):
        raise ValueError("its network is no table of nodes, edges and weights")
    if value["nodes"] > len(edges) + 1:
        raise ValueError(f"its network has {value['nodes']} nodes, but only {len(edges)} edges")
