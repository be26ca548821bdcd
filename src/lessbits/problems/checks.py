"""What a problem is given: one matrix of features and one array of targets for each node."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from lessbits._internal.logging import logger
from lessbits.datasets.arrays import as_labels, as_rows, check_finite, is_frame
from lessbits.errors import InputError, check_number, check_whole, shown

SIGNS = np.array([-1.0, 1.0])
LARGEST_CLASSES = 2**31 - 1
MOST_SHOWN = 4  # labels that a message shows
# Squares of values, times 1e8 (where a run counts as diverged), must be numbers, and messages carry norms up to 1e30.
LARGEST = {"float32": 1e15, "float64": 1e30}


def check_regularization(given: float | None) -> None:
    """Raise InputError unless λ is a finite number from 0 on, or None."""
    if given is None:
        return
    check_number("regularization", given, 0, LARGEST["float64"])


def check_range(values: Any, what: str) -> None:
    """Raise InputError for values so large that runs would overflow; they must be finite."""
    from scipy import sparse

    precision = str(jnp.result_type(float))
    numbers = values.data if sparse.issparse(values) else values
    largest = max(float(np.max(numbers, initial=0.0)), -float(np.min(numbers, initial=0.0)))
    if largest > LARGEST[precision]:
        other = ", or compute in float64" if largest <= LARGEST["float64"] else ""
        raise InputError(
            f"{what} have values up to {largest:.1g}, but in {precision} runs compute with values up to "
            f"{LARGEST[precision]:g}: divide them by a constant{other}"
        )


def check_parts(features: Any, targets: Any) -> tuple[list[Any], list[np.ndarray]]:
    """Return the features and the targets of each node as arrays, after checking that they belong together.

    Features are float64, all dense or all sparse, and equally wide. Targets are float64, or text, and there is one for
    each row. All values are finite, and every node has a row.
    """
    rows = [
        as_rows(part, f"the features of node {node}") for node, part in enumerate(_one_per_node("features", features))
    ]
    labels = [
        as_labels(part, f"the targets of node {node}") for node, part in enumerate(_one_per_node("targets", targets))
    ]
    if not rows and not labels:
        raise InputError("no nodes were given: give the features and the targets of at least one")
    if len(rows) != len(labels):
        raise InputError(
            f"features of {len(rows)} nodes and targets of {len(labels)} nodes were given, but every node needs both: "
            "give two lists of the same length"
        )
    for node, (part, target) in enumerate(zip(rows, labels, strict=True)):
        _check_node(node, part, target, rows[0])
    return rows, labels


def _one_per_node(what: str, given: Any) -> list[Any]:
    """Return the parts of the nodes; refuse one table for all nodes."""
    from scipy import sparse

    whole = is_frame(given) or sparse.issparse(given) or isinstance(given, str | Mapping)
    if whole or (what == "features" and isinstance(given, np.ndarray) and given.ndim == 2):
        raise InputError(
            f"{what} were given as one {type(given).__name__}, but they must be a list with one entry per node: "
            "lessbits.make_problem splits samples over nodes"
        )
    try:
        return list(given)
    except TypeError:
        raise InputError(
            f"{what} are a {type(given).__name__}, but they must be a list with one entry per node"
        ) from None


def _check_node(node: int, rows: Any, targets: np.ndarray, first: Any) -> None:
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(
            f"the features of node {node} are of shape {rows.shape}, but they must be [rows, features], with at least "
            "one of each: leave out nodes without rows, and reshape(-1, 1) a single feature"
        )
    if isinstance(rows, np.ndarray) != isinstance(first, np.ndarray):
        kinds = ["dense" if isinstance(one, np.ndarray) else "sparse" for one in (first, rows)]
        raise InputError(
            f"the features of node 0 are {kinds[0]} and those of node {node} {kinds[1]}: make all of them arrays, or "
            "all of them sparse"
        )
    if rows.shape[1] != first.shape[1]:
        raise InputError(
            f"node {node} has {rows.shape[1]} features and node 0 has {first.shape[1]}, but all need the same: give "
            "every node the same columns"
        )
    if len(targets) != rows.shape[0]:
        raise InputError(
            f"node {node} has {rows.shape[0]} rows and {len(targets)} targets, but each row needs one: give as many"
        )
    check_finite(rows, f"the features of node {node}")


def check_split(count: int, parts: Sequence[Any], targets: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the rows of each node and the targets of all rows, after checking that they belong to `count` rows."""
    labels = as_labels(targets, "the targets")
    if len(labels) != count:
        raise InputError(f"{count} samples and {len(labels)} targets were given, but each sample needs one")
    try:
        rows = [np.asarray(part) for part in parts]
    except (TypeError, ValueError):
        raise InputError(
            f"the rows of the nodes are {shown(parts)}, but they must be a list of arrays: see lessbits.split_samples"
        ) from None
    for node, part in enumerate(rows):
        if part.ndim != 1 or not len(part) or part.dtype.kind not in "iu":
            raise InputError(
                f"the rows of node {node} are an array of shape {part.shape} and dtype {part.dtype}, but they must be "
                "row numbers, at least one: see lessbits.split_samples"
            )
        if part.min() < 0 or part.max() >= count:
            raise InputError(f"node {node} has row {part.max()}, but rows are numbered from 0 to {count - 1}")
    if not rows:
        raise InputError("samples were split over no nodes: give the rows of at least one")
    return rows, labels


def check_numbers(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Return targets that must be numbers."""
    for node, part in enumerate(parts):
        if part.dtype.kind == "U":
            raise InputError(
                f"the targets of node {node} are text, such as {str(part[0])!r}, but least squares needs numbers: "
                "take logistic or softmax regression for classes"
            )
    return parts


def to_signs(parts: list[np.ndarray], all_here: bool = True) -> tuple[list[np.ndarray], np.ndarray]:
    """Return labels as −1 and +1, and the two labels that they were.

    Two other labels are mapped, the smaller one to −1, and a warning is logged. Where other processes hold further
    nodes, labels must be ±1 already: what one process sees does not say which label is the smaller.

    Args:
        parts: The labels of each node.
        all_here: Whether these are all nodes.
    """
    values = _distinct(parts)
    if values.dtype.kind != "U" and np.isin(values, SIGNS).all() and (len(values) == 2 or not all_here):
        return parts, SIGNS
    if not all_here:
        raise InputError(
            f"labels are {_shown(values)}, but they must be -1 and +1 where other processes hold further nodes: map "
            "them in the same way everywhere"
        )
    if len(values) != 2:
        advice = "give samples of both classes" if len(values) == 1 else "take Softmax for more than two classes"
        raise InputError(
            f"labels have {len(values)} different value{'s' * (len(values) > 1)} ({_shown(values)}), but logistic "
            f"regression needs two: {advice}, or LeastSquares for numbers"
        )
    logger.warning(f"labels are taken as -1 and +1: {_shown(values[:1])} is -1, {_shown(values[1:])} is +1")
    return [np.where(part == values[1], 1.0, -1.0) for part in parts], values


def to_class_numbers(
    parts: list[np.ndarray], classes: int | None = None, all_here: bool = True
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return labels as class numbers 0 … C − 1, and the label of each class.

    Other labels are mapped in sorted order, and a warning is logged, if there are as many as `classes`.

    Args:
        parts: The labels of each node.
        classes: The number of classes; by default as many as there are labels.
        all_here: Whether these are all nodes.
    """
    if classes is not None:
        classes = check_whole("classes", classes, 1, LARGEST_CLASSES)
    values = _distinct(parts)
    numbers = values.dtype.kind != "U"
    whole = numbers and bool((values == np.rint(values)).all() and values[0] >= 0)
    if classes is not None and whole and values[-1] < classes:
        return parts, np.arange(classes)
    if classes is None and whole and all_here and values[-1] == len(values) - 1:
        return parts, values
    if not all_here or (classes is not None and len(values) != classes):
        asked = "C" if classes is None else classes
        raise InputError(
            f"labels are {_shown(values)}, but they must be class numbers from 0 to "
            f"{'C − 1' if classes is None else classes - 1}: give as many classes as there are labels, not {asked}, or "
            "number them from 0"
        )
    if numbers and len(values) > 2 and (values != np.rint(values)).any():
        raise InputError(
            f"labels are not whole numbers ({_shown(values)}), but softmax regression needs classes: take LeastSquares"
        )
    logger.warning(f"labels are taken as classes 0 to {len(values) - 1}, in the order {_shown(values)}")
    return [np.searchsorted(values, part).astype(np.float64) for part in parts], values


def _distinct(parts: list[np.ndarray]) -> np.ndarray:
    """Return the sorted labels of all nodes, which must be of one kind."""
    if len({part.dtype.kind for part in parts}) > 1:
        raise InputError("labels are numbers at some nodes and text at others: make them of one kind")
    return np.unique(np.concatenate(parts))


def _shown(values: np.ndarray) -> str:
    """Return the first few labels, for a message."""
    shown = [repr(value) if isinstance(value, str) else f"{value:g}" for value in values[:MOST_SHOWN].tolist()]
    return ", ".join(shown) + (", …" if len(values) > MOST_SHOWN else "")
