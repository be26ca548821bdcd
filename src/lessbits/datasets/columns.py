"""The size of each column of features, for arrays and sparse matrices."""

from typing import Any

import numpy as np

ROUNDING = 1e-12  # a column whose values differ by less than this share of the largest is constant


def column_sizes(features: Any, centred: bool) -> np.ndarray:
    """Return the standard deviation of each column if `centred`, else its root mean square.

    >>> column_sizes(np.array([[3.0, 1.0], [-3.0, 1.0]]), centred=True)
    array([3., 0.])
    >>> column_sizes(np.array([[3.0, 1.0], [-3.0, 1.0]]), centred=False)
    array([3., 1.])
    """
    from scipy import sparse

    largest = _dense(abs(features).max(axis=0))
    # First divide by the largest entry, because squares of 1e200 overflow.
    scaled = divide_columns(features, largest)
    mean = _dense(scaled.mean(axis=0)) if centred else np.zeros(scaled.shape[1])
    if sparse.issparse(scaled):  # entries that are not stored are 0, and differ from the mean by the mean
        stored = np.bincount(scaled.indices, minlength=scaled.shape[1])
        squares = np.bincount(scaled.indices, (scaled.data - mean[scaled.indices]) ** 2, scaled.shape[1])
        squares = (squares + (scaled.shape[0] - stored) * mean**2) / scaled.shape[0]
    else:
        squares = np.mean((scaled - mean) ** 2, axis=0)
    sizes = np.sqrt(squares)
    return largest * np.where(sizes > ROUNDING, sizes, 0.0)


def divide_columns(features: Any, divisors: np.ndarray) -> Any:
    """Return each column divided by its divisor, columns with divisor 0 as they are. Sparse rows stay sparse."""
    from scipy import sparse

    divisors = np.where(divisors > 0, divisors, 1.0)
    if not sparse.issparse(features):
        return features / divisors
    rows = features.copy()
    rows.data /= divisors[rows.indices]
    return rows


def _dense(row: Any) -> np.ndarray:
    return np.asarray(row.toarray() if hasattr(row, "toarray") else row).ravel()
