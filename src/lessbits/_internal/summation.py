"""Sums with a fixed order of addition.

XLA may order `sum(-1)` differently for 25 rows than for 100. Then a run on four ranks differs from a run on one in the
last bit. The order of an explicit pairwise tree depends on the number of terms only, and its rounding error is smaller.

On a GPU each level of a tree is a kernel launch, so there the compiler may choose the order. The same program still
gives the same bits, but another number of rows may give others.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from lessbits._internal.pytrees import on_cpu

FOLDED = 8  # parts of a row that are added in one sweep


def add_pairwise(terms: Sequence[Any]) -> Any:
    """Return the sum of arrays of one shape, or of `Sum` objects, added pairwise."""
    level = list(terms)
    while len(level) > 1:
        pairs = [left + right for left, right in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def sum_pairwise(array: jax.Array, axis: int = -1) -> jax.Array:
    """Sum over one axis: add the second half to the first until one slice is left."""
    if array.shape[axis] == 0 or not on_cpu():
        return jnp.sum(array, axis=axis)
    while (length := array.shape[axis]) > 1:
        half = length // 2
        first, second, odd = jnp.split(array, [half, 2 * half], axis=axis)
        # An odd last term is added at the next level.
        array = first + second if length % 2 == 0 else jnp.concatenate([first + second, odd], axis=axis)
    return jnp.squeeze(array, axis=axis)


def squared_norms(vectors: jax.Array) -> jax.Array:
    """Return the squared 2-norm of each row."""
    return _squares(lambda start, end: vectors[..., start:end], vectors.shape[-1])


def squared_distances(vectors: jax.Array, point: jax.Array) -> jax.Array:
    """Squared distance of each row from a point, or from the same row of others, without storing differences."""

    def part(start: int, end: int) -> jax.Array:
        return vectors[..., start:end] - lax.broadcast_to_rank(point[..., start:end], vectors.ndim)

    return _squares(part, vectors.shape[-1])


def _squares(part: Callable[[int, int], jax.Array], length: int) -> jax.Array:
    """Sum the squares of coordinates; `part(start, end)` returns a range of them."""
    if not on_cpu():
        return jnp.sum(part(0, length) ** 2, axis=-1)
    fold = length // FOLDED
    # Eight parts of a row are added in one loop. With a tree from the start XLA would store all squares first.
    parts = [part(number * fold, (number + 1) * fold) for number in range(FOLDED if fold else 0)]
    sums = [add_pairwise([separate(each * each) for each in parts])] if parts else []
    rest = part(FOLDED * fold, length)
    return sum_pairwise(jnp.concatenate([*sums, separate(rest * rest)], axis=-1))


@jax.custom_jvp
def separate(products: jax.Array) -> jax.Array:
    """Clear the last bit of products, so that their sum can be rounded in one way only.

    A compiler may turn a·a + b·b into fma(a, a, b·b) or into fma(b, b, a·a), and the choice can depend on the number of
    rows. An operation on the bits prevents both; an `optimization_barrier` does not.
    """
    word = jnp.dtype(f"int{8 * products.dtype.itemsize}")
    return lax.bitcast_convert_type(lax.bitcast_convert_type(products, word) & ~1, products.dtype)


@separate.defjvp
def _separate_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Use the derivative of the products: operations on bits have none."""
    return separate(*primals), tangents[0]


class Sum(NamedTuple):
    """A sum and its rounding error, which together have about twice the digits."""

    value: jax.Array
    lost: jax.Array

    @classmethod
    def of(cls, value: jax.Array) -> "Sum":
        """Return an exact value: its rounding error is zero."""
        return cls(value, jnp.zeros_like(value))

    def __add__(self, other: "Sum") -> "Sum":  # type: ignore[override]
        """Add, and keep the rounding error (Knuth's two-sum, then a fast two-sum to normalize)."""
        rough = self.value + other.value
        kept = rough - self.value
        lost = (self.value - (rough - kept)) + (other.value - kept) + (self.lost + other.lost)
        value = rough + lost
        return Sum(value, lost - (value - rough))


def no_digits_lost(value: jax.Array) -> jax.Array | None:
    """Return zero lost digits of a sum that begins with a value; None in float64, where they are not kept."""
    return jnp.zeros_like(value) if value.dtype == jnp.float32 else None


def subtract(value: jax.Array, lost: jax.Array | None, product: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """Return value - product, and the digits that rounding has lost so far, if they are kept (compensated summation).

    `Sum` would be exact in all digits, at twice the time: here a product is far smaller than the value.
    """
    if lost is None:
        return value - product, None
    term = lost - separate(product)
    rough = value + term
    kept = rough - value
    return rough, (value - (rough - kept)) + (term - kept)


Summable = TypeVar("Summable", jax.Array, Sum)


def add_slices(stacked: Summable) -> Summable:
    """Sum along the first axis: add the second half to the first until one slice is left."""
    if not on_cpu():
        return add_up(stacked)
    while (length := jax.tree.leaves(stacked)[0].shape[0]) > 1:
        half = length // 2
        first = jax.tree.map(lambda array: array[:half], stacked)  # noqa: B023
        second = jax.tree.map(lambda array: array[half : 2 * half], stacked)  # noqa: B023
        odd = jax.tree.map(lambda array: array[2 * half :], stacked)  # noqa: B023
        added = first + second
        # An odd last slice is added at the next level.
        stacked = added if length % 2 == 0 else jax.tree.map(lambda a, b: jnp.concatenate([a, b]), added, odd)
    return jax.tree.map(lambda array: array[0], stacked)


def add_up(stacked: Summable) -> Summable:
    """Sum along the first axis in an order that the compiler chooses."""
    zero = jax.tree.map(lambda array: jnp.zeros((), array.dtype), stacked)
    return lax.reduce(stacked, zero, lambda left, right: left + right, [0])
