"""Linear systems by elimination, in an order that does not depend on threads: the same bits in every process."""

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.summation import separate


def eliminate(matrices: jax.Array, least: jax.Array | float) -> jax.Array:
    """Return the factors of symmetric matrices A = LDLᵀ, [rows, d, d]: D on the diagonal, L below it.

    Pivots below `least` are raised to it. So a matrix that rounding has made indefinite gets positive curvature.
    """
    places = lax.iota(jnp.int32, matrices.shape[-1])

    def step(number: int, factors: jax.Array) -> jax.Array:
        row = factors[:, number]
        pivot = jnp.maximum(row[:, number], least)
        below = places > number
        share = jnp.where(below, factors[:, :, number] / pivot[:, None], 0)
        rest = jnp.where(below, row, 0)
        factors = factors - separate(share[:, :, None] * rest[:, None, :])
        column = jnp.where(places == number, pivot[:, None], jnp.where(below, share, factors[:, :, number]))
        return factors.at[:, :, number].set(column)

    return lax.fori_loop(0, matrices.shape[-1], step, matrices)


def solve(factors: jax.Array, vectors: jax.Array) -> jax.Array:
    """Return A⁻¹v for each row, from what `eliminate` returned."""
    last = factors.shape[-1] - 1
    places = lax.iota(jnp.int32, last + 1)

    def down(number: int, vectors: jax.Array) -> jax.Array:
        share = jnp.where(places > number, factors[:, :, number], 0)
        return vectors - separate(share * vectors[:, number, None])

    def up(count: int, vectors: jax.Array) -> jax.Array:
        number = last - count
        share = jnp.where(places < number, factors[:, number], 0)
        return vectors - separate(share * vectors[:, number, None])

    vectors = lax.fori_loop(0, last + 1, down, vectors) / jnp.diagonal(factors, axis1=1, axis2=2)
    return lax.fori_loop(0, last + 1, up, vectors)
