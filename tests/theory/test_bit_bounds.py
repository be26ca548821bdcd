"""The lower bound on bits: figures by hand, limits, and a code that comes close to it."""

import math

import numpy as np
import pytest

from lessbits import InputError
from lessbits.theory import consensus_bits_per_link, cut_bits


def test_the_ring_of_100():
    assert cut_bits(100, 50, 250, 1e-3) / 2 == pytest.approx(643, abs=1)
    assert consensus_bits_per_link(100, 200, 250, 1e-3) == pytest.approx(705, abs=1)


def test_half_the_distance_costs_a_bit_per_coordinate():
    assert cut_bits(10, 5, 30, 1e-4) - cut_bits(10, 5, 30, 4e-4) == pytest.approx(30)
    assert cut_bits(10, 5, 30, 1e9) == 0


def test_a_scalar_quantizer_is_a_quarter_bit_above_the_bound():
    """Two nodes: one sends its number with steps of width w, whose error is w²/12."""
    width, random = 0.05, np.random.default_rng(0)
    numbers = random.normal(size=1_000_000)
    levels = np.rint(numbers / width)
    counts = np.unique(levels, return_counts=True)[1] / len(numbers)
    error = np.mean((numbers - width * levels) ** 2) / 4  # the average of two has half of it
    excess = -(counts * np.log2(counts)).sum() - cut_bits(2, 1, 1, error)
    assert excess == pytest.approx(math.log2(math.pi * math.e / 6) / 2, abs=0.01)


def test_sets_have_a_node():
    with pytest.raises(InputError, match="only 9 can be"):
        cut_bits(10, 10, 5, 1e-3)
