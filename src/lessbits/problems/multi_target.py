"""Least squares and ridge regression with several targets per sample."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import computed_once, put, pytree
from lessbits._internal.team import Team
from lessbits.problems.base import Problem
from lessbits.problems.design import Design
from lessbits.problems.least_squares import LeastSquares
from lessbits.problems.linear import pull


@pytree
class MultiTargetLeastSquares(Problem):
    """f_i(X) = (n/m) Σ_j ½‖Xᵀa_ij - b_ij‖² + (λ/2)‖X‖², x = X flattened, features × targets.

    Each target is a least-squares problem with the same features. So L, μ and the noise-free constants are those of
    one target, and the Hessian of one is a block of the whole.

    >>> rows, targets = np.eye(3), np.arange(6.0).reshape(3, 2)
    >>> one = LeastSquares.from_parts([rows, rows], [targets[:, 0], targets[:, 0]], regularization=0.1)
    >>> MultiTargetLeastSquares.with_targets(one, [targets, targets])
    MultiTargetLeastSquares(2 nodes, dim 6, 6 samples)
    """

    first: LeastSquares  # the first target alone
    targets: jax.Array  # b_ij, [nodes, samples, targets]
    counts: jax.Array

    @classmethod
    def with_targets(cls, first: LeastSquares, parts: Sequence[np.ndarray]) -> "MultiTargetLeastSquares":
        """Take layout, weights and penalties of the problem of one target, and all targets of each node's rows."""
        padded = np.zeros((*first.targets.shape, parts[0].shape[1]))
        for node, part in enumerate(parts):
            padded[node, : len(part)] = part
        return cls(first, put(padded, first.targets.dtype), first.counts)

    @property
    def dim(self) -> int:
        """Features times targets."""
        return self.first.dim * self.targets.shape[-1]

    def _slopes(self, design: Design, x: jax.Array, targets: jax.Array) -> jax.Array:
        """Xᵀa_ij - b_ij, [nodes, samples, targets]."""
        return jax.vmap(design.margins, in_axes=2, out_axes=2)(self._matrices(x)) - targets

    def _matrices(self, x: jax.Array) -> jax.Array:
        return x.reshape(x.shape[0], self.first.dim, -1)

    def _combine(self, design: Design, coefficients: jax.Array) -> jax.Array:
        columns = jax.vmap(design.combine, in_axes=2, out_axes=2)(coefficients)
        return columns.reshape(columns.shape[0], -1)

    def _pull(self, x: jax.Array) -> jax.Array:
        """The regularizer's gradient."""
        penalty, outputs = self.first.penalty, self.targets.shape[-1]
        return pull(x, self.first.regularization, None if penalty is None else jnp.repeat(penalty, outputs, axis=1))

    def gradient(self, x: jax.Array) -> jax.Array:
        """(n/m) Σ_j a_ij (Xᵀa_ij - b_ij)ᵀ + λX_i."""
        slopes = self.first.sample_weight[..., None] * self._slopes(self.first.design, x, self.targets)
        slopes = computed_once(slopes, self.counts[0] >= 0)
        return self._combine(self.first.design, slopes) + self._pull(x)

    def sample_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """The same over a batch."""
        rows = self.first.design.rows(indices)
        slopes = self._slopes(rows, x, jnp.take_along_axis(self.targets, indices[..., None], axis=1))
        weights = self.first.sample_weight
        counts = self.counts[:, None].astype(weights.dtype)
        weight = counts * jnp.take_along_axis(weights, indices, axis=1) / indices.shape[1]
        return self._combine(rows, weight[..., None] * slopes) + self._pull(x)

    def losses(self, x: jax.Array) -> jax.Array:
        """f_i(X_i)."""
        squares = (self._slopes(self.first.design, x, self.targets) ** 2).sum(-1)
        return 0.5 * ((self.first.sample_weight * squares).sum(-1) + (x * self._pull(x)).sum(-1))

    def hessian(self, x: jax.Array) -> jax.Array:
        """The Hessian of one target, for each."""
        outputs = self.targets.shape[-1]
        one = self.first.hessian(self._matrices(x)[..., 0])
        return jnp.einsum("nkl,cd->nkcld", one, jnp.eye(outputs, dtype=x.dtype)).reshape(-1, self.dim, self.dim)

    @property
    def smoothness(self) -> float:
        """L of one target."""
        return self.first.smoothness

    def sample_smoothness(self, batch_size: int = 1) -> float:
        """L of the batches of one target."""
        return self.first.sample_smoothness(batch_size)

    @property
    def convexity(self) -> float:
        """μ of one target."""
        return self.first.convexity

    @property
    def nearly_flat(self) -> bool:
        """As for one target."""
        return self.first.nearly_flat

    def mean_curvature(self, point: np.ndarray, team: Team) -> float:
        """Smallest eigenvalue of the mean Hessian of one target, which is the same everywhere."""
        return self.first.mean_curvature(point[: self.first.dim], team)
