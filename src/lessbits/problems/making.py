"""Problems from samples: every site is a node, or the samples are split over nodes."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lessbits.datasets.samples import Samples, check_samples
from lessbits.datasets.splits import split_samples
from lessbits.errors import InputError, check_held, check_name
from lessbits.problems.least_squares import LeastSquares
from lessbits.problems.logistic import Logistic
from lessbits.problems.origin import Origin, remember_origin
from lessbits.problems.softmax import Softmax

Loss = Literal["least-squares", "logistic", "softmax"]
LOSSES = ("least-squares", "logistic", "softmax")


def make_problem(
    loss: Loss | str,
    samples: Samples,
    nodes: int | None = None,
    *,
    split: str = "sorted",
    regularization: float | None = None,
    seed: int = 0,
    held: Sequence[int] | np.ndarray | None = None,
) -> LeastSquares | Logistic | Softmax:
    """Make a problem of samples.

    If the samples have sites, every site is a node, in the order of `samples.site_names`. Else they are split. Labels
    of classes may be any numbers or text: of two classes, the smaller label is −1.

    Args:
        loss: "logistic" (two classes), "softmax" (any number of classes) or "least-squares" (numbers).
        samples: The samples.
        nodes: The number of nodes to split the samples over. Leave it out if the samples have sites.
        split: How samples without sites are split: "iid", "sorted", "dirichlet:A" or "uneven:R"; see `split_samples`.
        regularization: λ of the regularizer (λ/2)‖x‖²; by default 1 / number of samples.
        seed: Seed of the split.
        held: The nodes to keep; by default all. Other processes hold the others.

    >>> from lessbits import load_samples
    >>> make_problem("logistic", load_samples("breast-cancer").normalized_rows(), nodes=8, regularization=0.01)
    Logistic(8 nodes, dim 30, 568 samples, λ = 0.01)
    >>> clinics = Samples([[1.0], [2.0], [3.0], [4.0]], ["sick", "well", "well", "sick"], sites=["B", "A", "B", "A"])
    >>> make_problem("logistic", clinics, regularization=0.1)
    Logistic(2 nodes, dim 1, 4 samples, λ = 0.1)
    """
    check_name("loss", loss, LOSSES)
    check_samples(samples)
    parts = _rows_of_nodes(samples, nodes, split, seed)
    labels = None
    kept = check_held(held, len(parts))
    problem: LeastSquares | Logistic | Softmax
    if loss == "least-squares":
        if samples.classes is not None:
            raise InputError(
                f"data set {samples.name!r} has text as labels ({', '.join(map(repr, samples.classes[:4]))}), but "
                "least squares needs numbers: take logistic or softmax"
            )
        problem = LeastSquares.from_samples(samples, parts, samples.labels, regularization, kept)
    elif loss == "logistic":
        labels = np.unique(samples.labels)
        problem = Logistic.from_samples(samples, parts, samples.binary_labels(), regularization, kept)
    else:
        labels = np.unique(samples.labels)
        numbers, classes = samples.class_labels()
        problem = Softmax.from_samples(samples, parts, numbers, classes, regularization, kept)
    remember_origin(problem, Origin(labels, samples.classes, samples.columns, samples.site_names))
    return problem


def _rows_of_nodes(samples: Samples, nodes: int | None, split: str, seed: int) -> list[np.ndarray]:
    """Return the rows of each node."""
    if samples.sites is None:
        if nodes is None:
            raise InputError(
                f"data set {samples.name!r} has no sites, so the number of nodes is needed: give nodes, or name the "
                "site of each row"
            )
        return split_samples(samples, nodes, split, seed)
    parts = samples.site_rows()
    if nodes not in (None, len(parts)):
        raise InputError(
            f"nodes is {nodes}, but data set {samples.name!r} has {len(parts)} sites, and each is a node: leave it out"
        )
    return parts
