"""The counter-based random numbers: uniform, uncorrelated along every axis, and a pure function of their address.

Seeds are fixed, so each test gives the same numbers on every run; limits sit at probabilities near 1e-9, so that they
would also hold for nearly every other seed.
"""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lessbits._internal.randomness import Draws, Purpose, Step, draws, make_seed

LEAST_PROBABILITY = 1e-9
DEVIATIONS = 6.0  # a normal number leaves ±6 with probability 2e-9
SEEDS = (0, 1, 2, 12345, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 + 5, 2**64 - 1)


@partial(jax.jit, static_argnames=("count", "dtype"))
def to_uniform(draw: Draws, count: int, dtype=jnp.float64) -> jax.Array:
    return draw.uniform(count, jnp.dtype(dtype))


@partial(jax.jit, static_argnames="count")
def to_bits(draw: Draws, count: int) -> jax.Array:
    return draw.bits(count)


to_integers = jax.jit(Draws.integers, static_argnames="count")
compiled_draws = jax.jit(draws, static_argnames="stream")


def draw(seed: int = 0, iteration: int = 0, ids: int | list[int] = 400, stream: Purpose = Purpose.DUAL) -> Draws:
    rows = np.arange(ids) if isinstance(ids, int) else np.asarray(ids)
    return compiled_draws(Step(make_seed(seed), jnp.int32(iteration)), rows, stream)


def bits(count: int, **address) -> np.ndarray:
    """32-bit words, [rows, count]."""
    return np.asarray(to_bits(draw(**address), count))


def uniform(count: int = 500, **address) -> np.ndarray:
    """Numbers in float64, [rows, count]."""
    return np.asarray(to_uniform(draw(**address), count))


def assert_uncorrelated(first: np.ndarray, second: np.ndarray) -> None:
    """Compare the numbers, their squares, and their lowest bits."""
    first, second = first.ravel() - 0.5, second.ravel() - 0.5
    for view in (lambda number: number, np.square, lambda number: number * 2**30 % 1):
        correlation = np.corrcoef(view(first), view(second))[0, 1]
        assert abs(correlation) * np.sqrt(first.size) < DEVIATIONS


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_uniform(seed: int) -> None:
    numbers = uniform(seed=seed, iteration=seed % 1000).ravel()
    counts = np.histogram(numbers, bins=1000, range=(0, 1))[0]
    assert scipy.stats.chisquare(counts).pvalue > LEAST_PROBABILITY
    assert scipy.stats.kstest(numbers, "uniform").pvalue > LEAST_PROBABILITY


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_mean_and_variance_are_those_of_the_uniform_law(dtype) -> None:
    numbers = np.asarray(to_uniform(draw(seed=7), 500, dtype), float).ravel()
    assert abs(numbers.mean() - 1 / 2) < DEVIATIONS * np.sqrt(1 / 12 / numbers.size)
    assert abs(numbers.var() - 1 / 12) < DEVIATIONS * np.sqrt(1 / 180 / numbers.size)


@pytest.mark.parametrize("stream", Purpose)
def test_every_bit_is_a_fair_coin(stream: Purpose) -> None:
    words = bits(500, seed=3, stream=stream).ravel()
    for bit in range(32):
        ones = int((words >> bit & 1).sum())
        assert abs(2 * ones - words.size) < DEVIATIONS * np.sqrt(words.size)


@pytest.mark.parametrize("axis", ["coordinate", "iteration", "id", "stream", "seed"])
def test_the_first_number_of_many_addresses_is_uniform_too(axis: str) -> None:
    """A method may use one number a row only, such as option D's coin."""
    size = 1 << 14
    if axis == "coordinate":
        numbers = uniform(size, ids=1)
    elif axis == "id":
        numbers = uniform(1, ids=size)
    elif axis == "stream":
        numbers = np.concatenate([uniform(1, ids=size // len(Purpose), stream=stream) for stream in Purpose])
    else:
        steps = jnp.arange(size)
        zeros = jnp.zeros_like(steps)
        seeds = jnp.stack([steps if axis == "seed" else zeros, zeros], -1).astype(jnp.uint32)
        iterations = steps if axis == "iteration" else zeros

        def one(seed: jax.Array, iteration: jax.Array) -> jax.Array:
            return draws(Step(seed, iteration), jnp.arange(1), Purpose.COIN).uniform(1, jnp.dtype(jnp.float64))

        numbers = np.asarray(jax.vmap(one)(seeds, iterations))
    numbers = numbers.ravel()
    assert scipy.stats.chisquare(np.histogram(numbers, bins=128, range=(0, 1))[0]).pvalue > LEAST_PROBABILITY
    assert_uncorrelated(numbers[:-1], numbers[1:])


@pytest.mark.parametrize("distance", [1, 2, 3, 16, 256])
def test_neighbouring_coordinates_are_uncorrelated(distance: int) -> None:
    numbers = uniform(seed=1)
    assert_uncorrelated(numbers[:, distance:], numbers[:, :-distance])


@pytest.mark.parametrize("distance", [1, 2, 100, 128])
def test_neighbouring_ids_are_uncorrelated(distance: int) -> None:
    numbers = uniform(seed=1)
    assert_uncorrelated(numbers[distance:], numbers[:-distance])


@pytest.mark.parametrize("other", [1, 2, 3, 1024, 2**20, 2**31 - 1])
def test_iterations_are_uncorrelated(other: int) -> None:
    assert_uncorrelated(uniform(seed=1, iteration=0), uniform(seed=1, iteration=other))


def test_streams_are_uncorrelated() -> None:
    numbers = [uniform(seed=1, stream=stream) for stream in Purpose]
    for row, first in enumerate(numbers):
        for second in numbers[row + 1 :]:
            assert_uncorrelated(first, second)


def test_seeds_are_uncorrelated_beyond_32_bits_too() -> None:
    numbers = [uniform(seed=seed)[:100] for seed in SEEDS]
    for row, first in enumerate(numbers):
        for second in numbers[row + 1 :]:
            assert_uncorrelated(first, second)


def test_exchanging_iteration_and_id_gives_other_numbers() -> None:
    """The link 3 in iteration 5 must not repeat the link 5 in iteration 3, nor a shifted row of it."""
    assert_uncorrelated(
        np.concatenate([uniform(1000, iteration=step, ids=[100 + step]) for step in range(20)]),
        np.concatenate([uniform(1000, iteration=100 + step, ids=[step]) for step in range(20)]),
    )
    rows = np.concatenate([bits(500, iteration=step) for step in range(4)])
    expected = rows.size**2 / 2**33  # pairs of equal words among independent ones
    repeated = rows.size - np.unique(rows).size
    assert abs(repeated - expected) < DEVIATIONS * np.sqrt(expected)


def test_triples_of_coordinates_fill_the_cube() -> None:
    """Lattices and short hashes show in three dimensions first."""
    numbers = uniform(seed=9)[:, :498].reshape(-1, 3)
    counts = np.histogramdd(numbers, bins=8, range=[(0, 1)] * 3)[0]
    assert scipy.stats.chisquare(counts.ravel()).pvalue > LEAST_PROBABILITY


def test_a_row_does_not_depend_on_the_company_it_is_drawn_in() -> None:
    everyone = bits(500, seed=5, iteration=9)
    order = np.random.default_rng(0).permutation(400)
    for ids in ([7], [7, 3, 390], order):
        assert np.array_equal(bits(500, seed=5, iteration=9, ids=ids), everyone[np.asarray(ids)])
    assert np.array_equal(bits(5, seed=5, iteration=9), everyone[:, :5]), "more coordinates change none"


def test_numbers_stay_what_they_were() -> None:
    """A change here breaks every recorded run, and every pair of ranks with different versions."""
    assert bits(3, seed=2**40 + 3, iteration=17, ids=[5]).tolist() == [[2101961566, 1016766042, 1175544548]]


EXTREME_WORDS = [0, 1, 2**31 - 1, 2**31, 2**32 - 1]


class SuppliedGradient(Draws):
    """Chosen bits in place of random ones."""

    __slots__ = ()

    def bits(self, count: int) -> jax.Array:
        return self.low


@pytest.mark.parametrize(("dtype", "resolution"), [(jnp.float32, 2.0**-24), (jnp.float64, 2.0**-33)])
def test_uniform_is_strictly_inside_and_symmetric(dtype, resolution: float) -> None:
    words = jnp.asarray([[*EXTREME_WORDS, *range(1000, 2000)]], jnp.uint32)
    numbers = np.asarray(SuppliedGradient(words, words).uniform(words.size, jnp.dtype(dtype)))[0]
    assert numbers.dtype == dtype
    assert (numbers > 0).all()
    assert (numbers < 1).all()
    # Signed words: the smallest is 2^31 and the largest 2^31 - 1.
    assert numbers[3] == resolution
    assert numbers[2] == 1 - resolution
    mirrored = np.asarray(SuppliedGradient(~words, words).uniform(words.size, jnp.dtype(dtype)))[0]
    assert np.array_equal(numbers + mirrored, np.ones_like(numbers)), "flipping all bits mirrors the number at 1/2"


def test_float32_is_the_same_without_float64(in_float32) -> None:
    numbers = to_uniform(draw(seed=1), 500, jnp.float32)
    assert numbers.dtype == jnp.float32
    with jax.enable_x64(True):
        assert np.array_equal(numbers, to_uniform(draw(seed=1), 500, jnp.float32))


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 97, 250])
def test_integers_are_uniform_below_their_bound(bound: int) -> None:
    numbers = np.asarray(to_integers(draw(seed=bound), 500, jnp.int32(bound)))
    assert numbers.dtype == np.int32
    assert numbers.min() >= 0
    assert numbers.max() <= bound - 1
    counts = np.bincount(numbers.ravel(), minlength=bound)
    assert bound == 1 or scipy.stats.chisquare(counts).pvalue > LEAST_PROBABILITY


def test_integers_take_a_bound_for_each_row() -> None:
    bounds = np.array([1, 2, 5, 7, 100, 1000])
    numbers = np.asarray(to_integers(draw(seed=4, ids=6), 100_000, jnp.asarray(bounds)))
    for row, bound in zip(numbers, bounds, strict=True):
        assert len(np.unique(row)) == bound
        assert row.min() == 0
        assert row.max() == bound - 1
        counts = np.bincount(row)
        assert bound == 1 or scipy.stats.chisquare(counts).pvalue > LEAST_PROBABILITY


def test_split_is_independent_of_its_parent_and_of_other_splits() -> None:
    parent = draw(seed=8)
    family = [parent, *(parent.split(stream) for stream in Purpose), parent.split(Purpose.DUAL).split(Purpose.DUAL)]
    numbers = [np.asarray(to_uniform(member, 500))[:100] for member in family]
    for row, first in enumerate(numbers):
        assert scipy.stats.kstest(first.ravel(), "uniform").pvalue > LEAST_PROBABILITY
        assert_uncorrelated(first[:, 1:], first[:, :-1])
        assert_uncorrelated(first[1:], first[:-1])
        for second in numbers[row + 1 :]:
            assert_uncorrelated(first, second)
            for distance in (1, 5):  # a split that only shifts the counter would show here
                assert_uncorrelated(first[:, distance:], second[:, :-distance])
                assert_uncorrelated(second[:, distance:], first[:, :-distance])


def test_seeds_are_split_into_two_words() -> None:
    assert make_seed(0).tolist() == [0, 0]
    assert make_seed(2**32).tolist() == [0, 1]
    assert make_seed(2**64 - 1).tolist() == [2**32 - 1] * 2
    assert make_seed(5).dtype == jnp.uint32
    distinct = {tuple(bits(2, seed=seed, ids=1).ravel().tolist()) for seed in SEEDS}
    assert len(distinct) == len(SEEDS)
    assert all(first < second for first, second in pairwise(SEEDS))
