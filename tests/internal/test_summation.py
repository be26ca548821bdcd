"""Sums in one fixed order: right for every length, and the same bits in any company."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lessbits._internal.summation import add_pairwise, squared_distances, squared_norms, sum_pairwise
from lessbits.quantizers.base import distances, norms

pytestmark = pytest.mark.optimized  # bits are compared


def numbers(*shape: int, dtype=np.float64) -> np.ndarray:
    """Numbers of many magnitudes and both signs."""
    generator = np.random.default_rng(sum(shape))
    return (generator.normal(size=shape) * 10.0 ** generator.integers(-6, 6, shape)).astype(dtype)


def rounding(terms: np.ndarray, axis: int) -> np.ndarray:
    """A pairwise tree rounds at most ⌈log2 n⌉ + 1 times on the way of each term."""
    levels = math.ceil(math.log2(max(terms.shape[axis], 2))) + 1
    return levels * np.finfo(terms.dtype).eps * np.abs(terms).sum(axis=axis, dtype=np.float64)


def exact_sum(terms: np.ndarray, axis: int) -> np.ndarray:
    return np.apply_along_axis(lambda line: math.fsum(line.tolist()), axis, terms.astype(np.float64))


def test_sum_pairwise_is_right_for_every_length() -> None:
    """The second row holds integers: a term left out or counted twice cannot hide in rounding."""
    terms = np.stack([numbers(300), np.arange(1.0, 301.0) ** 2])
    lengths = [*range(18), 31, 32, 33, 100, 127, 250, 255, 300]
    sums = jax.jit(lambda array: [sum_pairwise(array[:, :length]) for length in lengths])(terms)
    for length, total in zip(lengths, sums, strict=True):
        assert total.shape == (2,)
        assert abs(float(total[0]) - math.fsum(terms[0, :length])) <= rounding(terms[0, :length], -1)
        assert float(total[1]) == length * (length + 1) * (2 * length + 1) / 6


@pytest.mark.parametrize(
    ("axis", "dtype"),
    [(0, np.float32), (1, np.float64), (2, np.float32), (-1, np.float64), (-2, np.float32), (-3, np.float64)],
)
def test_sum_pairwise_takes_any_axis(axis: int, dtype) -> None:
    terms = numbers(5, 7, 9, dtype=dtype)
    total = np.asarray(jax.jit(sum_pairwise, static_argnames="axis")(terms, axis=axis))
    assert total.dtype == dtype
    assert total.shape == terms.sum(axis=axis).shape
    assert (np.abs(total - exact_sum(terms, axis)) <= rounding(terms, axis)).all()


def test_sum_pairwise_of_nothing_is_zero() -> None:
    assert sum_pairwise(jnp.zeros((4, 0))).tolist() == [0.0] * 4
    assert sum_pairwise(jnp.zeros((0, 3)), axis=0).tolist() == [0.0] * 3
    assert sum_pairwise(jnp.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 99])
def test_add_pairwise_is_right_for_every_count(count: int) -> None:
    terms = numbers(count, 4, 2)
    total = np.asarray(jax.jit(add_pairwise)(list(terms)))
    assert total.shape == (4, 2)
    assert (np.abs(total - exact_sum(terms, 0)) <= rounding(terms, 0)).all()
    integers = [np.float64(2.0**bit) for bit in range(min(count, 50))]
    assert add_pairwise(integers) == 2.0 ** len(integers) - 1, "each term once"


def test_pairwise_rounds_less_than_one_after_the_other() -> None:
    terms = np.full(4096, 0.1, np.float32)
    truth = math.fsum(terms.tolist())
    one_after_the_other = np.float32(0)
    for term in terms:
        one_after_the_other += term
    assert abs(float(jax.jit(sum_pairwise)(terms)) - truth) < 1e-2 * abs(float(one_after_the_other) - truth)


@pytest.mark.parametrize("length", [0, 1, 3, 250])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squared_norms_are_right(length: int, dtype) -> None:
    vectors = numbers(6, length, dtype=dtype)
    squares = vectors.astype(np.float64) ** 2
    found = np.asarray(jax.jit(squared_norms)(vectors))
    assert found.dtype == dtype
    levels = math.ceil(math.log2(max(length, 2))) + 2
    assert (np.abs(found - exact_sum(squares, -1)) <= levels * np.finfo(dtype).eps * squares.sum(-1)).all()


@pytest.mark.parametrize("length", [5, 7, 250])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_do_not_depend_on_the_number_of_rows(length: int, dtype) -> None:
    """What lets 4 ranks with 25 nodes each repeat 1 rank with 100, bit for bit.

    Lengths from 5 to 7 catch fused multiplications and additions.
    """
    vectors = np.random.default_rng(0).normal(size=(100, length)).astype(dtype)
    compiled = jax.jit(lambda array: (squared_norms(array), sum_pairwise(array)))
    norms, sums = map(np.asarray, compiled(vectors))
    for rows in (slice(0, 1), slice(10, 13), slice(3, 100)):
        some_norms, some_sums = compiled(vectors[rows])
        assert np.array_equal(some_norms, norms[rows])
        assert np.array_equal(some_sums, sums[rows])


def test_bits_do_not_depend_on_the_number_of_rows_when_terms_are_added() -> None:
    terms = [jnp.asarray(numbers(100, 30)) * factor for factor in range(1, 8)]
    everyone = np.asarray(jax.jit(add_pairwise)(terms))
    for rows in (slice(0, 1), slice(10, 13)):
        assert np.array_equal(jax.jit(add_pairwise)([term[rows] for term in terms]), everyone[rows])


@pytest.mark.parametrize("length", [1, 7, 8, 33, 250])
def test_squared_distances_are_the_norms_of_differences_bit_for_bit(length: int) -> None:
    vectors, others = numbers(5, length), numbers(6, length)[:5]
    found = jax.jit(squared_distances)(vectors, others)
    assert np.array_equal(found, jax.jit(lambda x, y: squared_norms(x - y))(vectors, others))
    assert np.array_equal(jax.jit(squared_distances)(vectors, others[0]), squared_norms(vectors - others[0]))


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 1), (2, 33), pytest.param((2, 250), marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e-6, 1.0, 1e6, 1e20, 1e30])
def test_norms_are_right_in_float32_where_squares_leave_the_range(shape: tuple[int, int], size: float) -> None:
    vectors = jnp.full(shape, size / math.sqrt(shape[1]), jnp.float32)
    for function in (norms, jax.jit(norms), jax.jit(lambda x: distances(x, jnp.zeros_like(x)))):
        np.testing.assert_allclose(function(vectors), size, rtol=1e-5)
