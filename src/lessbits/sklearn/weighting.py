"""The weight of each row: that of the sample times that of its class."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from lessbits.errors import InputError


def weigh_classes(given: Any, classes: np.ndarray, numbers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weights of the rows times those of their classes, as scikit-learn's `LogisticRegression` does.

    Args:
        given: `class_weight`: None, "balanced", or weights by class.
        classes: The labels of the classes.
        numbers: The number of each row's class.
        weights: The weight of each row.

    >>> weigh_classes("balanced", np.array(["a", "b"]), np.array([0, 0, 0, 1]), np.ones(4)).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    >>> weigh_classes({"b": 5}, np.array(["a", "b"]), np.array([0, 1]), np.ones(2)).tolist()
    [1.0, 5.0]
    """
    if given is None:
        return weights
    if isinstance(given, str) and given == "balanced":
        total = np.bincount(numbers, weights, len(classes))
        # A class without weight keeps none.
        balance = np.divide(total.sum(), len(classes) * total, out=np.ones(len(classes)), where=total > 0)
        return weights * balance[numbers]
    if not isinstance(given, Mapping):
        raise InputError(f"class_weight is {given!r}, but it must be None, 'balanced' or a dict such as {{0: 1, 1: 5}}")
    for name, weight in given.items():
        if not isinstance(weight, Real) or not 0 <= float(weight) < float("inf"):
            raise InputError(
                f"class_weight has {weight!r} for class {name!r}, but it must be a finite number from 0 on"
            )
    names = classes.tolist()
    unknown, unnamed = [name for name in given if name not in names], [name for name in names if name not in given]
    if unknown and unnamed:  # a part of the rows, as in cross-validation, may lack a class
        raise InputError(
            f"class_weight names the class {unknown[0]!r}, but y has {', '.join(map(repr, names[:4]))}"
            f"{', …' if len(names) > 4 else ''}: name the classes as in y"
        )
    return weights * np.array([float(given.get(name, 1)) for name in names])[numbers]
