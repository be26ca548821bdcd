"""What a known dither tells: distances of levels from zero, and the order in which they are sent."""

import jax.numpy as jnp
import numpy as np
import pytest

from lessbits._internal.randomness import Draws, host_bits
from lessbits.codecs.dither_bins import BINS, Arrangement, bins_of, distances

KEY = np.array([2**32 - 1, 77], np.uint32)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_bins_are_sixteenths_of_the_dither(dtype):
    draws = Draws(jnp.asarray(KEY[:1]), jnp.asarray(KEY[1:]))
    numbers = bins_of(host_bits(*KEY, 5000), BINS)
    assert (numbers == np.floor(BINS * np.asarray(draws.uniform(5000, dtype))[0])).all()
    assert (numbers == np.asarray(bins_of(draws.bits(5000), BINS))[0]).all()


@pytest.mark.parametrize("bins", [1, 2, BINS])
def test_distances_are_those_of_the_interval_from_zero(bins):
    generator = np.random.default_rng(0)
    levels, dither = generator.integers(-4, 5, 1000), generator.random(1000)
    numbers = np.floor(bins * dither).astype(int)
    nearest = np.where(levels > 0, levels - dither, np.where(levels < 0, dither - levels - 1, 0))
    found = np.asarray(distances(jnp.asarray(levels), jnp.asarray(numbers), bins))
    assert (found == np.where(levels == 0, 0, np.floor(bins * nearest) + 1)).all()  # rounded up to the end of the bin


def test_levels_are_sent_by_bin_and_come_back():
    generator = np.random.default_rng(0)
    levels = generator.integers(-9, 10, 777).astype(np.int8)
    arrangement = Arrangement.of(*KEY, levels.size, BINS)
    sent = arrangement.arrange(levels)
    assert (arrangement.restore(sent) == levels).all()
    numbers = bins_of(host_bits(*KEY, levels.size), BINS)
    for number, part in enumerate(arrangement.parts(sent)):
        lower, upper = np.flatnonzero(numbers == number), np.flatnonzero(numbers == BINS - 1 - number)
        together = sorted([(at, levels[at]) for at in lower] + [(at, -levels[at]) for at in upper])
        assert part.tolist() == [level for _, level in together]
