"""Products with sparse matrices as sums over lists of different lengths, without a scatter.

A compiled scatter adds one number after the other. Here lists of similar length are padded with zeros to a power of two
and stored in one array, which is summed along an axis. On w8a that takes a third of the time.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import pytree
from lessbits._internal.summation import sum_pairwise

if TYPE_CHECKING:
    from scipy import sparse

KINDS = 32  # lists of 1, 2, 3 to 4, 5 to 8 … entries


def kinds_of(matrix: "sparse.csr_matrix") -> np.ndarray:
    """Return the smallest k of each row such that it has at most 2^k entries; -1 if it has none."""
    lengths = np.diff(matrix.indptr)
    return np.where(lengths > 0, np.ceil(np.log2(np.maximum(lengths, 1))).astype(int), -1)


def count_kinds(matrix: "sparse.csr_matrix") -> list[int]:
    """Return how many rows there are of each kind."""
    kinds = kinds_of(matrix)
    return np.bincount(kinds[kinds >= 0], minlength=KINDS).tolist()


@pytree
class RaggedSums:
    """Σ_k a_ik v_k for each row i of each node's matrix, with the rows of one kind in one array."""

    values: tuple[jax.Array, ...]  # for each kind that occurs, [nodes, rows, 2^kind]
    index: tuple[jax.Array, ...]  # int32, of the same shapes: which entry of v
    place: jax.Array  # int32 [nodes, all rows], position of each row's sum in the concatenated sums of all kinds

    @classmethod
    def make(cls, parts: Sequence["sparse.csr_matrix"], rows: int, most: Sequence[int]) -> "RaggedSums":
        """Lay out the nodes' matrices, padded to `rows` rows, with room for `most[k]` rows of kind k."""
        values, index, first = [], [], 0
        place = np.full((len(parts), rows), sum(most), np.int32)  # the entry after all others is zero
        for kind in np.flatnonzero(most).tolist():
            shape = (len(parts), most[kind], 1 << kind)
            entries, columns = np.zeros(shape), np.zeros(shape, np.int32)
            for node, part in enumerate(parts):
                chosen = np.flatnonzero(kinds_of(part) == kind)
                at = part.indptr[chosen][:, None] + np.arange(shape[2])
                inside = at < part.indptr[chosen + 1][:, None]
                entries[node, : len(chosen)][inside] = part.data[at[inside]]
                columns[node, : len(chosen)][inside] = part.indices[at[inside]]
                place[node, chosen] = first + np.arange(len(chosen))
            first += most[kind]
            values.append(jnp.asarray(entries, jnp.result_type(float)))
            index.append(jnp.asarray(columns))
        return cls(tuple(values), tuple(index), jnp.asarray(place))

    def __call__(self, vectors: jax.Array) -> jax.Array:
        """Return the sums for one vector per node, [nodes, rows]."""
        nodes, length = vectors.shape
        first, flat = (jnp.arange(nodes, dtype=jnp.int32) * length)[:, None, None], vectors.reshape(-1)
        return self._join([values * flat[index + first] for values, index in zip(self.values, self.index, strict=True)])

    def squared_norms(self) -> jax.Array:
        """Σ_k a_ik², [nodes, rows]."""
        return self._join([values**2 for values in self.values])

    def _join(self, terms: list[jax.Array]) -> jax.Array:
        nothing = jnp.zeros((self.place.shape[0], 1), jnp.result_type(float))
        joined = jnp.concatenate([*(sum_pairwise(each) for each in terms), nothing], axis=1)
        return jnp.take_along_axis(joined, self.place, axis=1)
