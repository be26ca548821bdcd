"""Vectors cut into chunks of equal length, one message each, so that a long path can carry several at once."""

import jax
import jax.numpy as jnp
from jax import lax


def chunk_length(dim: int, chunks: int) -> int:
    """Return the coordinates of a chunk. The last one is filled up with zeros."""
    return -(-dim // chunks)


def fewest_chunks(dim: int, chunks: int) -> int:
    """Return how many chunks of this length there are without empty ones.

    >>> chunk_length(10, 7), fewest_chunks(10, 7)
    (2, 5)
    """
    return -(-dim // chunk_length(dim, chunks))


def take_chunk(vectors: jax.Array, chunks: int, numbers: jax.Array) -> jax.Array:
    """Return a chunk of each row, given by its number."""
    if chunks == 1:
        return vectors
    return _in_chunks(vectors, chunks)[lax.iota(jnp.int32, vectors.shape[0]), numbers]


def add_to_chunk(vectors: jax.Array, chunks: int, numbers: jax.Array, more: jax.Array) -> jax.Array:
    """Return the rows with `more` added to a chunk of each, given by its number."""
    if chunks == 1:
        return vectors + more
    rows, dim = vectors.shape
    added = _in_chunks(vectors, chunks).at[lax.iota(jnp.int32, rows), numbers].add(more)
    return added.reshape(rows, -1)[:, :dim]


def _in_chunks(vectors: jax.Array, chunks: int) -> jax.Array:
    rows, dim = vectors.shape
    length = chunk_length(dim, chunks)
    return jnp.pad(vectors, ((0, 0), (0, chunks * length - dim))).reshape(rows, chunks, length)
