"""Losses of a linear prediction a·x. Least squares and logistic regression differ in one scalar function only."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import computed_once, static
from lessbits._internal.summation import separate, squared_norms, sum_pairwise
from lessbits.datasets.samples import Samples, check_samples
from lessbits.errors import check_held
from lessbits.problems.base import Problem, batch_smoothness
from lessbits.problems.checks import (
    check_numbers,
    check_parts,
    check_range,
    check_regularization,
    check_split,
)
from lessbits.problems.design import DenseDesign, Design, Layout, SparseDesign, check_problem_fits, lay_out
from lessbits.problems.origin import Origin, remember_origin
from lessbits.problems.reference import in_double

if TYPE_CHECKING:
    from scipy import sparse

LARGEST_DENSE = 3000  # size of a Gram matrix up to which all its eigenvalues are computed


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(Problem):
    """f_i(x) = (n/m) Σ_j φ(a_ij·x, b_ij) + (λ/2)‖x‖², with m the number of all samples.

    When the nodes have equally many samples the sum is their mean; when they do not, the factor makes (1/n) Σ f_i the
    mean loss of all samples pooled, which is what a user expects to minimise. With a `penalty` p the regularizer is
    (λ/2) Σ_k p_k x_k²: zero for an intercept.
    """

    design: Design
    targets: jax.Array  # b_ij, [nodes, samples]
    sample_weight: jax.Array  # n/m, or zero where a node has fewer samples, [nodes, samples]
    regularization: jax.Array  # λ, [nodes]
    counts: jax.Array
    condition: tuple[float, float] | None = static(default=None)  # (μ, L) where they are known by construction
    penalty: jax.Array | None = None  # p, [nodes, dim]; None if all are one

    curvature_bound: ClassVar[float]  # sup φ''

    @classmethod
    def from_parts(
        cls,
        features: Sequence,
        targets: Sequence,
        regularization: float | None = None,
        condition: tuple | None = None,
        layout: Layout | None = None,
    ) -> Self:
        """Take the features and the targets of each node, and check them; λ is 1/m by default.

        Args:
            features: A matrix for each node: arrays, nested lists, pandas DataFrames, or SciPy sparse matrices.
            targets: An array for each node, with one target per row.
            regularization: λ.
            condition: (μ, L), where they are known.
            layout: Where other processes hold further nodes, the layout of all nodes.
        """
        check_regularization(regularization)
        rows, given = check_parts(features, targets)
        numbers, labels = cls.read_targets(given, layout is None)
        problem = cls.assemble(rows, numbers, regularization, condition, layout)
        remember_origin(problem, Origin(labels))
        return problem

    @classmethod
    def from_samples(
        cls,
        samples: Samples,
        parts: Sequence[np.ndarray],
        targets: np.ndarray,
        regularization: float | None = None,
        held: Sequence[int] | np.ndarray | None = None,
    ) -> Self:
        """Deal samples to nodes: node i gets the rows `parts[i]`; only the nodes `held` are kept, by default all."""
        check_regularization(regularization)
        check_samples(samples)
        rows, given = check_split(samples.count, parts, targets)
        (numbers,), labels = cls.read_targets([given], True)
        layout = lay_out([samples.features[part] for part in rows])
        kept = [rows[node] for node in check_held(held, len(rows)) or range(len(rows))]
        features = [samples.features[part] for part in kept]
        problem = cls.assemble(features, [numbers[part] for part in kept], regularization, layout=layout)
        remember_origin(problem, Origin(labels))
        return problem

    @classmethod
    def read_targets(cls, parts: list[np.ndarray], all_here: bool) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Return the targets as the loss wants them, and for classes the labels that they were."""
        return check_numbers(parts), None

    @classmethod
    def assemble(
        cls,
        features: Sequence,
        targets: Sequence[np.ndarray],
        regularization: float | None,
        condition: tuple | None = None,
        layout: Layout | None = None,
    ) -> Self:
        """Lay out features and targets that are float64 and known to be right; else use `from_parts`."""
        for part, target in zip(features, targets, strict=True):
            check_range(part, "the features")
            check_range(target, "the targets")
        counts = np.array([len(part) for part in targets])
        layout = layout or lay_out(features)
        if regularization is None:
            regularization = 1 / layout.total
        dense = isinstance(features[0], np.ndarray)
        check_problem_fits(len(targets), features[0].shape[1], layout.samples if dense else 0)
        padded = np.zeros((len(targets), layout.samples))
        for node, part in enumerate(targets):
            padded[node, : len(part)] = part
        inside = np.arange(layout.samples) < counts[:, None]
        kind = jnp.result_type(float)
        design = DenseDesign.make(features, layout) if dense else SparseDesign.make(features, layout)
        return cls(
            design,
            jnp.asarray(padded, kind),
            jnp.asarray(inside * (layout.nodes / layout.total), kind),
            jnp.full(len(targets), regularization, kind),
            jnp.asarray(counts, jnp.int32),
            condition,
        )

    @staticmethod
    @abstractmethod
    def loss(margin: jax.Array, target: jax.Array) -> jax.Array:
        """φ(a·x, b)."""

    @staticmethod
    @abstractmethod
    def slope(margin: jax.Array, target: jax.Array) -> jax.Array:
        """φ'(a·x, b)."""

    @staticmethod
    @abstractmethod
    def curvature(margin: jax.Array, target: jax.Array) -> jax.Array:
        """φ''(a·x, b)."""

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.design.dim

    def pull(self, x: jax.Array) -> jax.Array:
        """The regularizer's gradient λx_i, or λ p_i x_i."""
        return pull(x, self.regularization, self.penalty)

    def gradient(self, x: jax.Array) -> jax.Array:
        """(n/m) Σ_j φ'(a_ij·x_i) a_ij + λx_i."""
        slopes = self.sample_weight * self.slope(self.design.margins(x), self.targets)
        # Each slope is used for every entry of its row.
        slopes = computed_once(slopes, self.counts[0] >= 0)
        return self.design.combine(slopes) + self.pull(x)

    def sample_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """Mean over the batch of m_i (n/m) φ'(a_ij·x_i) a_ij + λx_i."""
        rows = self.design.rows(indices)
        slopes = self.slope(rows.margins(x), jnp.take_along_axis(self.targets, indices, axis=1))
        counts = self.counts[:, None].astype(self.sample_weight.dtype)
        weight = counts * jnp.take_along_axis(self.sample_weight, indices, axis=1) / indices.shape[1]
        return rows.combine(weight * slopes) + self.pull(x)

    def losses(self, x: jax.Array) -> jax.Array:
        """f_i(x_i)."""
        data = sum_pairwise(separate(self.sample_weight * self.loss(self.design.margins(x), self.targets)))
        if self.penalty is None:
            return data + separate(0.5 * self.regularization * squared_norms(x))
        return data + separate(0.5 * sum_pairwise(separate(x * self.pull(x))))

    def hessian(self, x: jax.Array) -> jax.Array:
        """(n/m) A_iᵀ diag(φ'') A_i + λI."""
        curvatures = self.sample_weight * self.curvature(self.design.margins(x), self.targets)
        pull = self.pull(jnp.ones_like(x))
        return self.design.gram(curvatures) + pull[:, None] * jnp.eye(self.dim, dtype=x.dtype)[None]

    @cached_property
    def _data_curvature(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue of (n/m) A_iᵀA_i over the nodes."""
        weights = np.asarray(self.sample_weight, float)
        extremes = [_gram_extremes(self.design.node_matrix(node), weights[node]) for node in range(self.nodes)]
        return min(low for low, _ in extremes), max(high for _, high in extremes)

    @property
    def smoothness(self) -> float:
        """An upper bound of the eigenvalues of local Hessians."""
        if self.condition is not None:
            return self.condition[1]
        return self.curvature_bound * self._data_curvature[1] + self.penalties[1]

    def sample_smoothness(self, batch_size: int = 1) -> float:
        """From the sample with the largest norm."""
        counts = self.counts[:, None].astype(self.sample_weight.dtype)
        lengths = np.asarray(self.design.squared_norms() * self.sample_weight * counts, float)
        single = self.curvature_bound * float(lengths.max()) + self.penalties[1]
        return batch_smoothness(self.smoothness, single, batch_size)

    @property
    def nearly_flat(self) -> bool:
        """With a penalty per coordinate, some coordinates may depend on samples of other nodes only."""
        return self.penalty is not None or super().nearly_flat

    @property
    def convexity(self) -> float:
        """λ, or zero if a coordinate is free; least squares may have more."""
        return self.penalties[0]

    @property
    def penalties(self) -> tuple[float, float]:
        """The smallest and the largest penalty of a coordinate."""
        return extreme_penalties(self.regularization, self.penalty)

    def node_noise(self, solution: np.ndarray) -> np.ndarray:
        """E‖∇f_ij‖² - ‖∇f_i‖², without the regularizer, which is the same in each sample."""
        with in_double(self) as wide:
            x = jnp.broadcast_to(jnp.asarray(solution), (self.nodes, self.dim))
            slopes = wide.sample_weight * self.slope(wide.design.margins(x), wide.targets)
            mean = squared_norms(wide.design.combine(slopes))
            second_moment = wide.counts.astype(slopes.dtype) * sum_pairwise(
                separate(slopes**2 * wide.design.squared_norms())
            )
            # With one sample per node the two are equal up to rounding.
            return np.asarray(jnp.where(second_moment - mean > 1e-12 * second_moment, second_moment - mean, 0))


def pull(x: jax.Array, regularization: jax.Array, penalty: jax.Array | None) -> jax.Array:
    """Return the gradient of the regularizer at each node."""
    return regularization[:, None] * (x if penalty is None else penalty * x)


def extreme_penalties(regularization: jax.Array, penalty: jax.Array | None) -> tuple[float, float]:
    """Return the smallest and the largest factor that a coordinate's square is penalised with."""
    scale = np.ones(1) if penalty is None else np.asarray(penalty[0], float)
    return float(regularization[0]) * float(scale.min()), float(regularization[0]) * float(scale.max())


def _gram_extremes(matrix: "np.ndarray | sparse.csr_matrix", weight: np.ndarray) -> tuple[float, float]:
    """Smallest and largest eigenvalue of Aᵀ diag(w) A."""
    from scipy import sparse

    scaled = sparse.diags_array(np.sqrt(weight)) @ matrix
    rows, columns = scaled.shape
    if min(rows, columns) > LARGEST_DENSE:
        from scipy.sparse.linalg import svds

        return 0.0, float(svds(scaled, k=1, return_singular_vectors=False, rng=0)[0]) ** 2
    gram = scaled.T @ scaled if columns <= rows else scaled @ scaled.T
    values = np.linalg.eigvalsh(gram.toarray() if sparse.issparse(gram) else gram)
    # An eigenvalue of the size of rounding errors counts as zero.
    singular = columns > rows or values[0] <= max(rows, columns) * np.finfo(float).eps * values[-1]
    return (0.0 if singular else float(values[0])), float(values[-1])
