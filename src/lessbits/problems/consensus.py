"""Average consensus: every node holds a vector, and all compute the mean."""

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import put, pytree
from lessbits._internal.summation import squared_distances
from lessbits._internal.team import Team
from lessbits.datasets.arrays import as_rows, check_finite
from lessbits.errors import InputError, check_held, check_seed, check_whole
from lessbits.problems.base import Problem
from lessbits.problems.checks import check_range
from lessbits.problems.design import LARGEST_COUNT, check_problem_fits


@pytree
class Consensus(Problem):
    """f_i(x) = ½‖x - c_i‖², so L = μ = 1 and x* is the mean of the c_i.

    >>> Consensus.random(nodes=8, dim=5)
    Consensus(8 nodes, dim 5)
    """

    vectors: jax.Array  # c_i, [nodes, dim]
    counts: jax.Array

    averages = True

    @classmethod
    def make(cls, vectors: np.ndarray) -> "Consensus":
        """Average the rows of `vectors`: an array, nested lists, a pandas DataFrame or a SciPy sparse matrix."""
        vectors = as_rows(vectors, "the vectors")
        if not isinstance(vectors, np.ndarray):
            vectors = vectors.toarray()
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise InputError(
                f"consensus was given an array of shape {vectors.shape}, but it averages the rows of a matrix"
            )
        check_finite(vectors, "the vectors")
        check_range(vectors, "the vectors")
        return cls(put(vectors, jnp.result_type(float)), put(np.ones(len(vectors)), np.int32))

    @classmethod
    def random(cls, nodes: int, dim: int, seed: int = 0, held: np.ndarray | None = None) -> "Consensus":
        """Draw c_i from N(0, I), as the paper does; only the nodes `held` are kept, by default all."""
        nodes, dim = (check_whole(*size, 1, LARGEST_COUNT) for size in (("nodes", nodes), ("dim", dim)))
        seed = check_seed(seed)
        kept = check_held(held, nodes)
        check_problem_fits(nodes if kept is None else len(kept), dim)
        random = np.random.default_rng(seed)
        if kept is None:
            return cls.make(random.normal(size=(nodes, dim)))
        rows = (random.normal(size=dim) for _ in range(nodes))  # the same numbers, one node at a time
        return cls.make(np.stack([row for node, row in enumerate(rows) if node in set(kept)]))

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return self.vectors.shape[1]

    def start(self) -> jax.Array:
        """Each node starts at its own vector."""
        return self.vectors

    def gradient(self, x: jax.Array) -> jax.Array:
        """x_i - c_i."""
        return x - self.vectors

    def sample_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """The one sample of a node is its whole loss."""
        return self.gradient(x)

    def dual_gradient(self, z: jax.Array, guess: jax.Array) -> jax.Array:
        """c_i + z_i."""
        return self.vectors + z

    def losses(self, x: jax.Array) -> jax.Array:
        """½‖x_i - c_i‖²."""
        return 0.5 * squared_distances(x, self.vectors)

    def hessian(self, x: jax.Array) -> jax.Array:
        """The identity."""
        return jnp.broadcast_to(jnp.eye(self.dim, dtype=x.dtype), (*x.shape, self.dim))

    @property
    def smoothness(self) -> float:
        """1."""
        return 1.0

    @property
    def convexity(self) -> float:
        """1."""
        return 1.0

    def sample_smoothness(self, batch_size: int = 1) -> float:
        """1."""
        return 1.0

    def node_noise(self, solution: np.ndarray) -> np.ndarray:
        """No noise."""
        return np.zeros(self.nodes)

    def solve(self, team: Team) -> np.ndarray:
        """The mean, in float64."""
        return team.all_gather(np.asarray(self.vectors, float)).mean(0)
