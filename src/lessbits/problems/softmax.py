"""L2-regularised softmax (multinomial logistic) regression."""

from collections.abc import Sequence
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import computed_once, pytree, static
from lessbits.datasets.samples import Samples, check_samples
from lessbits.errors import InputError, check_held
from lessbits.problems.base import Problem, batch_smoothness
from lessbits.problems.checks import check_parts, check_regularization, check_split, to_class_numbers
from lessbits.problems.design import Design, Layout, lay_out
from lessbits.problems.linear import extreme_penalties, pull
from lessbits.problems.logistic import Logistic
from lessbits.problems.origin import Origin, remember_origin


@pytree
class Softmax(Problem):
    """f_i(X) = (n/m) Σ_j [log Σ_c exp(a_ij·X_c) - a_ij·X_b] + (λ/2)‖X‖², x = X flattened, features × classes.

    A `penalty` p makes it (λ/2) Σ_k p_k ‖X_k‖². If the last feature, the intercept, has none, then adding one number to
    all its entries changes nothing, and noise would let them drift; so half the square of their mean is added, which is
    zero at the solution.

    >>> from lessbits import load_samples, split_samples
    >>> samples = load_samples("iris")
    >>> labels, classes = samples.class_labels()
    >>> Softmax.from_samples(samples, split_samples(samples, nodes=3), labels, classes, regularization=0.1)
    Softmax(3 nodes, dim 12, 150 samples, λ = 0.1)
    """

    design: Design
    labels: jax.Array  # int32 [nodes, samples]
    sample_weight: jax.Array
    regularization: jax.Array
    counts: jax.Array
    classes: int = static()
    penalty: jax.Array | None = None  # p, [nodes, features × classes]; None if all are one
    intercept: bool = static(default=False)  # whether the last feature has none

    @classmethod
    def from_parts(
        cls,
        features: Sequence,
        labels: Sequence,
        classes: int | None = None,
        regularization: float | None = None,
        layout: Layout | None = None,
    ) -> "Softmax":
        """Take the features and the labels of each node, and check them; λ is 1/m by default.

        Args:
            features: A matrix for each node: arrays, nested lists, pandas DataFrames, or SciPy sparse matrices.
            labels: An array for each node, with a class number from 0 to `classes` - 1 per row. Other labels are
                mapped in sorted order, and a warning is logged.
            classes: The number of classes; by default as many as there are labels.
            regularization: λ.
            layout: Where other processes hold further nodes, the layout of all nodes.
        """
        check_regularization(regularization)
        rows, given = check_parts(features, labels)
        numbers, values = to_class_numbers(given, classes, layout is None)
        base = Logistic.assemble(rows, numbers, regularization, layout=layout)
        return cls._remembered(base, values)

    @classmethod
    def from_samples(
        cls,
        samples: Samples,
        parts: Sequence[np.ndarray],
        labels: np.ndarray,
        classes: int,
        regularization: float | None = None,
        held: Sequence[int] | np.ndarray | None = None,
    ) -> "Softmax":
        """Deal samples to nodes: node i gets the rows `parts[i]`; labels are 0 … classes - 1."""
        check_regularization(regularization)
        check_samples(samples)
        rows, given = check_split(samples.count, parts, labels)
        (numbers,), values = to_class_numbers([given], classes)
        layout = lay_out([samples.features[part] for part in rows])
        kept = [rows[node] for node in check_held(held, len(rows)) or range(len(rows))]
        features = [samples.features[part] for part in kept]
        base = Logistic.assemble(features, [numbers[part] for part in kept], regularization, layout=layout)
        return cls._remembered(base, values)

    @classmethod
    def _remembered(cls, base: Logistic, values: np.ndarray) -> "Softmax":
        problem = cls.with_classes(base, len(values))
        remember_origin(problem, Origin(values))
        return problem

    @classmethod
    def with_classes(cls, base: Logistic, classes: int) -> "Softmax":
        """Take layout and weights of a logistic problem whose targets are class numbers."""
        if classes < 2:
            raise InputError(f"softmax regression was given {classes} class, but it needs at least two")
        return cls(
            base.design,
            base.targets.astype(jnp.int32),
            base.sample_weight,
            base.regularization,
            base.counts,
            classes,
            None if base.penalty is None else jnp.repeat(base.penalty, classes, axis=1),
            intercept=base.penalty is not None and not base.penalty[0, -1],
        )

    @property
    def dim(self) -> int:
        """Features times classes."""
        return self.design.dim * self.classes

    def margins(self, x: jax.Array) -> jax.Array:
        """a_ij·X_c of each sample and class, [nodes, samples, classes]."""
        return self._margins(self.design, x)

    def _margins(self, design: Design, x: jax.Array) -> jax.Array:
        matrices = x.reshape(x.shape[0], design.dim, self.classes)
        return jax.vmap(design.margins, in_axes=2, out_axes=2)(matrices)

    def _combine(self, design: Design, coefficients: jax.Array) -> jax.Array:
        columns = jax.vmap(design.combine, in_axes=2, out_axes=2)(coefficients)
        return columns.reshape(columns.shape[0], -1)

    def _slopes(self, margins: jax.Array, labels: jax.Array) -> jax.Array:
        return jax.nn.softmax(margins) - jax.nn.one_hot(labels, self.classes, dtype=margins.dtype)

    def _pull(self, x: jax.Array) -> jax.Array:
        """The regularizer's gradient, which is linear in x."""
        pulled = pull(x, self.regularization, self.penalty)
        if not self.intercept:
            return pulled
        shift = x[..., -self.classes :].mean(-1, keepdims=True) / self.classes
        return pulled.at[..., -self.classes :].add(shift)

    def gradient(self, x: jax.Array) -> jax.Array:
        """(n/m) Σ_j a_ij (p_ij - e_b)ᵀ + λX_i."""
        slopes = self.sample_weight[..., None] * self._slopes(self.margins(x), self.labels)
        slopes = computed_once(slopes, self.counts[0] >= 0)
        return self._combine(self.design, slopes) + self._pull(x)

    def sample_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """The same over a batch."""
        rows = self.design.rows(indices)
        slopes = self._slopes(self._margins(rows, x), jnp.take_along_axis(self.labels, indices, axis=1))
        counts = self.counts[:, None].astype(self.sample_weight.dtype)
        weight = counts * jnp.take_along_axis(self.sample_weight, indices, axis=1) / indices.shape[1]
        return self._combine(rows, weight[..., None] * slopes) + self._pull(x)

    def losses(self, x: jax.Array) -> jax.Array:
        """f_i(X_i)."""
        margins = self.margins(x)
        right = jnp.take_along_axis(margins, self.labels[..., None], axis=-1)[..., 0]
        data = (self.sample_weight * (jax.nn.logsumexp(margins, axis=-1) - right)).sum(-1)
        return data + 0.5 * (x * self._pull(x)).sum(-1)

    def hessian(self, x: jax.Array) -> jax.Array:
        """By differentiating the gradient."""
        nodes = jnp.arange(self.nodes)

        def one(node: jax.Array, point: jax.Array) -> jax.Array:
            return jax.jacfwd(lambda p: self.restrict(node[None]).gradient(p[None])[0])(point)

        return jax.vmap(one)(nodes, x)

    @cached_property
    def smoothness(self) -> float:
        """Half the largest eigenvalue of a local data matrix: the softmax's Hessian is at most ½."""
        data = Logistic(
            self.design,
            self.labels.astype(self.sample_weight.dtype),
            self.sample_weight,
            self.regularization,
            self.counts,
        )
        return 0.5 * data._data_curvature[1] + self._stiffness

    def sample_smoothness(self, batch_size: int = 1) -> float:
        """From the sample with the largest norm."""
        counts = self.counts[:, None].astype(self.sample_weight.dtype)
        lengths = np.asarray(self.design.squared_norms() * self.sample_weight * counts, float)
        single = 0.5 * float(lengths.max()) + self._stiffness
        return batch_smoothness(self.smoothness, single, batch_size)

    @property
    def nearly_flat(self) -> bool:
        """With a penalty per coordinate, some coordinates may depend on samples of other nodes only."""
        return self.penalty is not None or super().nearly_flat

    @property
    def convexity(self) -> float:
        """λ, or zero if a coordinate is free."""
        return extreme_penalties(self.regularization, self.penalty)[0]

    @property
    def _stiffness(self) -> float:
        """The largest curvature of the regularizer."""
        return max(extreme_penalties(self.regularization, self.penalty)[1], self.intercept / self.classes)
