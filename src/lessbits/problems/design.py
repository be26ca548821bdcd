"""Feature matrices A_i of the nodes, dense or sparse, with the two products that linear models need."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.memory import check_fits, free_memory
from lessbits._internal.pytrees import pytree, static
from lessbits.problems.ragged import KINDS, RaggedSums, count_kinds

if TYPE_CHECKING:
    from scipy import sparse

VECTORS = 4  # numbers per node and dimension of the smallest run: iterate, gradient, dual variable and message
LARGEST_COUNT = 2**31 - 1  # nodes, dimensions and samples are counted in 32-bit integers
LITTLE = 10**8  # bytes that are not worth a look at the free memory


class Layout(NamedTuple):
    """Sizes that fit the matrices of all nodes, so that every process pads its part in the same way."""

    nodes: int
    total: int  # samples of all nodes
    samples: int  # of the largest node
    entries: int = 1  # non-zeros of the node that has most
    longest_row: int = 1  # non-zeros
    row_kinds: tuple[int, ...] = ()  # rows of each kind (see `ragged`) of the node that has most of them
    column_kinds: tuple[int, ...] = ()  # columns, likewise

    @classmethod
    def of(cls, sizes: np.ndarray) -> "Layout":
        """Combine the sizes of all nodes."""
        samples, entries, longest, *kinds = sizes.max(axis=0).tolist()
        return cls(
            len(sizes),
            int(sizes[:, 0].sum()),
            max(1, samples),
            max(1, entries),
            max(1, longest),
            tuple(kinds[:KINDS]),
            tuple(kinds[KINDS:]),
        )


def node_size(matrix: "np.ndarray | sparse.csr_matrix") -> list[int]:
    """Return samples, non-zeros, the non-zeros of the longest row, and the kinds of rows and columns of a matrix."""
    if isinstance(matrix, np.ndarray):
        return [len(matrix), 0, 0, *[0] * (2 * KINDS)]
    longest = int(np.diff(matrix.indptr).max(initial=0))
    return [matrix.shape[0], matrix.nnz, longest, *count_kinds(matrix), *count_kinds(matrix.T.tocsr())]


def lay_out(matrices: "Sequence[np.ndarray | sparse.csr_matrix]") -> Layout:
    """Return the layout of all nodes' matrices."""
    check_problem_fits(1, matrices[0].shape[1])  # counting takes an array of that width
    return Layout.of(np.array([node_size(matrix) for matrix in matrices]))


def check_problem_fits(nodes: int, dim: int, rows: int = 0) -> None:
    """Raise an `InputError` if a problem with some vectors of `dim` numbers per node, and `rows`, does not fit."""
    needed = 8 * nodes * dim * (VECTORS + rows)
    if needed > LITTLE:
        what = f"a problem of {nodes:,} node{'s' * (nodes > 1)} and {dim:,} dimensions"
        check_fits(needed, free_memory(), what, "take fewer nodes, dimensions or samples")


@pytree
class DenseDesign:
    """Rows a_ij of all nodes, padded with zeros to the longest node."""

    features: jax.Array  # [nodes, samples, dim]

    @classmethod
    def make(cls, parts: Sequence[np.ndarray], layout: Layout) -> "DenseDesign":
        """Stack the nodes' matrices."""
        stacked = np.zeros((len(parts), layout.samples, parts[0].shape[1]))
        for node, part in enumerate(parts):
            stacked[node, : len(part)] = part
        return cls(jnp.asarray(stacked, jnp.result_type(float)))

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.features.shape[-1]

    def margins(self, x: jax.Array) -> jax.Array:
        """A_i x_i, [nodes, samples]."""
        return jnp.einsum("nmd,nd->nm", self.features, x)

    def combine(self, coefficients: jax.Array) -> jax.Array:
        """A_iᵀ c_i, [nodes, dim]."""
        return jnp.einsum("nmd,nm->nd", self.features, coefficients)

    def gram(self, coefficients: jax.Array) -> jax.Array:
        """A_iᵀ diag(c_i) A_i, [nodes, dim, dim]."""
        return jnp.einsum("nmd,nm,nme->nde", self.features, coefficients, self.features)

    def squared_norms(self) -> jax.Array:
        """‖a_ij‖², [nodes, samples]."""
        return jnp.einsum("nmd,nmd->nm", self.features, self.features)

    def node_matrix(self, node: int) -> np.ndarray:
        """A_i on the host, in float64."""
        return np.asarray(self.features[node], float)

    def rows(self, indices: jax.Array) -> "DenseDesign":
        """The chosen rows of each node, [nodes, batch]."""
        return DenseDesign(jnp.take_along_axis(self.features, indices[..., None], axis=1))


@pytree
class SparseDesign:
    """Non-zero entries of all nodes, three times: as lists, by row for A x, and by column for Aᵀ c.

    Each node's list is padded to the longest with zeros.
    """

    values: jax.Array  # [nodes, entries], row by row
    columns: jax.Array  # int32 [nodes, entries]
    row: jax.Array  # int32 [nodes, entries], never decreasing
    row_start: jax.Array  # int32 [nodes, samples + 1]
    by_row: RaggedSums
    by_column: RaggedSums
    samples: int = static()
    dim: int = static()
    longest_row: int = static()

    @classmethod
    def make(cls, parts: Sequence["sparse.csr_matrix"], layout: Layout) -> "SparseDesign":
        """Lay out the nodes' matrices."""
        samples, dim, shape = layout.samples, parts[0].shape[1], (len(parts), layout.entries)
        values, columns = np.zeros(shape), np.zeros(shape, np.int32)
        row = np.zeros(shape, np.int32)
        row_start = np.zeros((len(parts), samples + 1), np.int32)
        for node, part in enumerate(parts):
            filled = part.nnz
            values[node, :filled], columns[node, :filled] = part.data, part.indices
            columns[node, filled:] = part.shape[1] - 1
            row[node, :filled] = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            row[node, filled:] = samples - 1
            row_start[node, : part.shape[0] + 1] = part.indptr
            row_start[node, part.shape[0] + 1 :] = filled
        return cls(
            jnp.asarray(values, jnp.result_type(float)),
            jnp.asarray(columns),
            jnp.asarray(row),
            jnp.asarray(row_start),
            RaggedSums.make(parts, samples, layout.row_kinds),
            RaggedSums.make([part.T.tocsr() for part in parts], dim, layout.column_kinds),
            samples=samples,
            dim=dim,
            longest_row=layout.longest_row,
        )

    def margins(self, x: jax.Array) -> jax.Array:
        """A_i x_i, [nodes, samples]."""
        return self.by_row(x)

    def combine(self, coefficients: jax.Array) -> jax.Array:
        """A_iᵀ c_i, [nodes, dim]."""
        return self.by_column(coefficients)

    def gram(self, coefficients: jax.Array) -> jax.Array:
        """A_iᵀ diag(c_i) A_i, [nodes, dim, dim]."""
        return self.dense().gram(coefficients)

    def squared_norms(self) -> jax.Array:
        """‖a_ij‖², [nodes, samples]."""
        return self.by_row.squared_norms()

    def node_matrix(self, node: int) -> "sparse.csr_matrix":
        """A_i on the host, in float64."""
        from scipy import sparse

        start, end = np.asarray(self.row_start[node]), int(self.row_start[node, -1])
        entries = np.asarray(self.values[node, :end], float), np.asarray(self.columns[node, :end])
        return sparse.csr_matrix((*entries, start), shape=(self.samples, self.dim))

    def rows(self, indices: jax.Array) -> DenseDesign:
        """The chosen rows of each node, [nodes, batch], dense: a batch is small."""
        first = jnp.take_along_axis(self.row_start, indices, axis=1)
        end = jnp.take_along_axis(self.row_start, indices + 1, axis=1)
        entry = first[..., None] + jnp.arange(self.longest_row, dtype=first.dtype)[None, None]
        inside = entry < end[..., None]
        flat = jnp.minimum(entry, self.values.shape[1] - 1).reshape(indices.shape[0], -1)
        values = jnp.where(inside, jnp.take_along_axis(self.values, flat, axis=1).reshape(entry.shape), 0)
        columns = jnp.take_along_axis(self.columns, flat, axis=1).reshape(entry.shape)
        node, batch = jnp.arange(indices.shape[0])[:, None, None], jnp.arange(indices.shape[1])[None, :, None]
        dense = jnp.zeros((*indices.shape, self.dim), self.values.dtype)
        return DenseDesign(dense.at[node, batch, columns].add(values))

    def dense(self) -> DenseDesign:
        """The same as dense matrices."""
        nodes = jnp.arange(self.values.shape[0])[:, None]
        empty = jnp.zeros((self.values.shape[0], self.samples, self.dim), self.values.dtype)
        return DenseDesign(empty.at[nodes, self.row, self.columns].add(self.values))


Design = DenseDesign | SparseDesign
