"""Least squares and ridge regression."""

from dataclasses import replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import pytree
from lessbits.errors import LARGEST_CONDITION, InputError, check_held, check_number, check_seed, check_whole
from lessbits.problems.base import Problem
from lessbits.problems.design import LARGEST_COUNT, Layout, check_problem_fits
from lessbits.problems.linear import LARGEST_DENSE, LinearModel
from lessbits.problems.reference import in_double


@pytree
class LeastSquares(LinearModel):
    """φ(a·x, b) = ½(a·x - b)²; ridge regression if λ > 0.

    >>> problem = LeastSquares.random(nodes=4, dim=3, condition=50)
    >>> print(f"{problem.condition_number:.0f}")
    50
    """

    factor: jax.Array | None = None  # Cholesky factors of the local Hessians, for dual gradients

    curvature_bound = 1.0

    @classmethod
    def random(
        cls,
        nodes: int,
        dim: int,
        samples: int | None = None,
        condition: float = 100.0,
        seed: int = 0,
        held: np.ndarray | None = None,
    ) -> "LeastSquares":
        """Draw a problem in which every node's Hessian has one spectrum, from 1/κ to 1 in equal ratios.

        The eigenvectors are random and the nodes' minimisers differ. No regularizer is added: λ = 0. Only the nodes
        `held` are kept, by default all.
        """
        nodes, dim = (check_whole(*size, 1, LARGEST_COUNT) for size in (("nodes", nodes), ("dim", dim)))
        seed = check_seed(seed)
        samples = dim if samples is None else check_whole("samples", samples, 1, LARGEST_COUNT)
        from threadpoolctl import threadpool_limits

        check_number("the condition number", condition, 1, LARGEST_CONDITION)
        if samples < dim:
            raise InputError(
                f"a random least-squares problem was requested with {samples} samples per node, but it needs at least "
                f"as many samples as the {dim} dimensions"
            )
        kept = check_held(held, nodes) or range(nodes)
        check_problem_fits(len(kept), dim, 2 * samples)
        random = np.random.default_rng(seed)
        spectrum = np.geomspace(1 / condition, 1.0, dim) if dim > 1 else np.ones(1)
        features, targets = [], []
        for node in range(nodes):
            # Drawn for all nodes, so that the numbers of a node do not depend on which nodes are kept.
            frames = random.normal(size=(samples, dim)), random.normal(size=(dim, dim))
            point, error = random.normal(size=dim), random.normal(size=samples)
            if node not in kept:
                continue
            with threadpool_limits(1):  # the number of threads changes the last bits of a factorisation
                (left, _), (right, _) = (np.linalg.qr(frame) for frame in frames)
                matrix = np.sqrt(samples) * (left * np.sqrt(spectrum)) @ right.T
                targets.append(matrix @ point + error)
            features.append(matrix)
        layout = Layout(nodes, nodes * samples, samples)
        return cls.assemble(features, targets, 0.0, (float(spectrum[0]), float(spectrum[-1])), layout)

    @staticmethod
    def loss(margin: jax.Array, target: jax.Array) -> jax.Array:
        """½(a·x - b)²."""
        return 0.5 * (margin - target) ** 2

    @staticmethod
    def slope(margin: jax.Array, target: jax.Array) -> jax.Array:
        """a·x - b."""
        return margin - target

    @staticmethod
    def curvature(margin: jax.Array, target: jax.Array) -> jax.Array:
        """1."""
        return jnp.ones_like(margin)

    def with_dual(self) -> Problem:
        """Factor the local Hessians once."""
        if self.convexity <= 0:
            raise InputError(
                "a node's least-squares loss has μ = 0, so its dual gradient is not unique: add regularization above 0"
            )
        hessians = self.hessian(self.start())
        return replace(self, factor=jnp.linalg.cholesky(hessians))

    def dual_gradient(self, z: jax.Array, guess: jax.Array) -> jax.Array:
        """Solve H_i x = z_i - ∇f_i(0)."""
        if self.factor is None:
            return super().dual_gradient(z, guess)
        right_side = (z - self.gradient(jnp.zeros_like(z)))[..., None]
        return jax.vmap(lambda factor, side: jax.scipy.linalg.cho_solve((factor, True), side))(self.factor, right_side)[
            ..., 0
        ]

    @property
    def convexity(self) -> float:
        """Smallest eigenvalue of a local Hessian."""
        if self.condition is not None:
            return self.condition[0]
        if self.penalty is not None:
            return self._penalised_convexity
        return self._data_curvature[0] + float(self.regularization[0])

    @cached_property
    def _penalised_convexity(self) -> float:
        """μ of data and penalties together, node by node; the smallest penalty if a Hessian is too large to form."""
        least = self.penalties[0]
        if self.dim > LARGEST_DENSE:
            return least
        with in_double(self) as wide:
            pull, weights = np.asarray(wide.pull(jnp.ones((self.nodes, self.dim)))), np.asarray(wide.sample_weight)
        lowest = np.inf
        for node in range(self.nodes):
            matrix = self.design.node_matrix(node)
            dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
            values = np.linalg.eigvalsh((dense * weights[node][:, None]).T @ dense + np.diag(pull[node]))
            # An eigenvalue of the size of rounding errors counts as zero.
            lowest = min(lowest, values[0] if values[0] > self.dim * np.finfo(float).eps * values[-1] else 0.0)
        return max(least, float(lowest))
