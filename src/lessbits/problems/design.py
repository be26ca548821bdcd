"""Feature matrices A_i of the nodes, dense or sparse, with the two products that linear models need."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from lessbits.pytrees import pytree, static


class Layout(NamedTuple):
    """What all nodes' matrices fit into, wherever they are held, so that a part of the nodes is padded as the whole."""

    nodes: int
    total: int  # samples of all nodes
    samples: int  # of the largest node
    entries: int  # non-zeros of the fullest node
    longest_row: int  # non-zeros

    @classmethod
    def of(cls, sizes: np.ndarray) -> "Layout":
        """Join the sizes of all nodes."""
        return cls(len(sizes), int(sizes[:, 0].sum()), *(max(1, int(size)) for size in sizes.max(axis=0)))


def node_size(matrix: np.ndarray | sparse.csr_matrix) -> list[int]:
    """Return samples, non-zeros, and the non-zeros of the longest row of a node's matrix."""
    if isinstance(matrix, np.ndarray):
        return [len(matrix), 0, 0]
    return [matrix.shape[0], matrix.nnz, int(np.diff(matrix.indptr).max(initial=0))]


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
    """Non-zero entries of all nodes, twice: by row for A x, by column for Aᵀ c, so that both add up in one sweep.

    Each node's list is padded to the longest with zeros.
    """

    values: jax.Array  # [nodes, entries], row by row
    columns: jax.Array  # int32 [nodes, entries]
    row: jax.Array  # int32 [nodes, entries], never decreasing
    row_start: jax.Array  # int32 [nodes, samples + 1]
    by_column: jax.Array  # int32 [nodes, entries], the order that sorts entries by column
    samples: int = static()
    dim: int = static()
    longest_row: int = static()

    @classmethod
    def make(cls, parts: Sequence[sparse.csr_matrix], layout: Layout) -> "SparseDesign":
        """Lay out the nodes' matrices."""
        samples, shape = layout.samples, (len(parts), layout.entries)
        values, columns = np.zeros(shape), np.zeros(shape, np.int32)
        row, by_column = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        row_start = np.zeros((len(parts), samples + 1), np.int32)
        for node, part in enumerate(parts):
            filled = part.nnz
            values[node, :filled], columns[node, :filled] = part.data, part.indices
            columns[node, filled:] = part.shape[1] - 1
            row[node, :filled] = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            row[node, filled:] = samples - 1
            row_start[node, : part.shape[0] + 1] = part.indptr
            row_start[node, part.shape[0] + 1 :] = filled
            by_column[node] = np.argsort(columns[node], kind="stable")
        return cls(
            jnp.asarray(values, jnp.result_type(float)),
            jnp.asarray(columns),
            jnp.asarray(row),
            jnp.asarray(row_start),
            jnp.asarray(by_column),
            samples=samples,
            dim=parts[0].shape[1],
            longest_row=layout.longest_row,
        )

    def margins(self, x: jax.Array) -> jax.Array:
        """A_i x_i, [nodes, samples]."""
        products = self.values * jnp.take_along_axis(x, self.columns, axis=1)
        return _sorted_sums(products, self.row, self.samples)

    def combine(self, coefficients: jax.Array) -> jax.Array:
        """A_iᵀ c_i, [nodes, dim]."""
        products = self.values * jnp.take_along_axis(coefficients, self.row, axis=1)
        ordered = jnp.take_along_axis(products, self.by_column, axis=1)
        return _sorted_sums(ordered, jnp.take_along_axis(self.columns, self.by_column, axis=1), self.dim)

    def gram(self, coefficients: jax.Array) -> jax.Array:
        """A_iᵀ diag(c_i) A_i, [nodes, dim, dim]."""
        return self.dense().gram(coefficients)

    def squared_norms(self) -> jax.Array:
        """‖a_ij‖², [nodes, samples]."""
        return _sorted_sums(self.values**2, self.row, self.samples)

    def node_matrix(self, node: int) -> sparse.csr_matrix:
        """A_i on the host, in float64."""
        start, end = np.asarray(self.row_start[node]), int(self.row_start[node, -1])
        entries = np.asarray(self.values[node, :end], float), np.asarray(self.columns[node, :end])
        return sparse.csr_matrix((*entries, start), shape=(self.samples, self.dim))

    def rows(self, indices: jax.Array) -> DenseDesign:
        """The chosen rows of each node, [nodes, batch], dense: a batch is small."""
        first = jnp.take_along_axis(self.row_start, indices, axis=1)
        end = jnp.take_along_axis(self.row_start, indices + 1, axis=1)
        entry = first[..., None] + jnp.arange(self.longest_row)
        inside = entry < end[..., None]
        flat = jnp.minimum(entry, self.values.shape[1] - 1).reshape(indices.shape[0], -1)
        values = jnp.where(inside, jnp.take_along_axis(self.values, flat, axis=1).reshape(entry.shape), 0)
        columns = jnp.take_along_axis(self.columns, flat, axis=1).reshape(entry.shape)
        node, batch = jnp.arange(indices.shape[0])[:, None, None], jnp.arange(indices.shape[1])[None, :, None]
        dense = jnp.zeros((*indices.shape, self.dim), self.values.dtype)
        return DenseDesign(dense.at[node, batch, columns].add(values))

    def dense(self) -> DenseDesign:
        """The same with all zeros written out."""
        nodes = jnp.arange(self.values.shape[0])[:, None]
        empty = jnp.zeros((self.values.shape[0], self.samples, self.dim), self.values.dtype)
        return DenseDesign(empty.at[nodes, self.row, self.columns].add(self.values))


Design = DenseDesign | SparseDesign


def _sorted_sums(values: jax.Array, segment: jax.Array, segments: int) -> jax.Array:
    def one(values: jax.Array, segment: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(values, segment, segments, indices_are_sorted=True)

    return jax.vmap(one)(values, segment)
