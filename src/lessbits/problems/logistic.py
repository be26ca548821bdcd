"""L2-regularised logistic regression."""

import jax
import numpy as np

from lessbits._internal.pytrees import pytree
from lessbits.problems.checks import to_signs
from lessbits.problems.linear import LinearModel


@pytree
class Logistic(LinearModel):
    """φ(a·x, b) = log(1 + exp(-b a·x)) with labels b = ±1.

    Two other labels, such as 0 and 1, are mapped, the smaller one to -1, and a warning is logged.

    >>> from lessbits import load_samples, split_samples
    >>> samples = load_samples("breast-cancer").normalized_rows()
    >>> parts = split_samples(samples, nodes=8, how="sorted")
    >>> Logistic.from_samples(samples, parts, samples.binary_labels(), regularization=0.01)
    Logistic(8 nodes, dim 30, 568 samples, λ = 0.01)
    """

    curvature_bound = 0.25

    @classmethod
    def read_targets(cls, parts: list[np.ndarray], all_here: bool) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Return the labels as ±1, and the two labels that they were."""
        return to_signs(parts, all_here)

    @staticmethod
    def loss(margin: jax.Array, target: jax.Array) -> jax.Array:
        """log(1 + exp(-b a·x))."""
        return jax.nn.softplus(-target * margin)

    @staticmethod
    def slope(margin: jax.Array, target: jax.Array) -> jax.Array:
        """-b / (1 + exp(b a·x))."""
        return -target * jax.nn.sigmoid(-target * margin)

    @staticmethod
    def curvature(margin: jax.Array, target: jax.Array) -> jax.Array:
        """The sigmoid's slope."""
        probability = jax.nn.sigmoid(margin)
        return probability * (1 - probability)
