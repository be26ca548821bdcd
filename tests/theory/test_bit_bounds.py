"""The lower bound on bits: figures by hand, limits, and a code that comes close to it."""

import math

import numpy as np
import pytest

from lessbits import InputError, make_network
from lessbits.networks.tree import spanning_tree
from lessbits.theory import consensus_bits_per_link, cut_bits, tree_bits_per_link, tree_round_bits_per_link


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


def entropy(levels):
    counts = np.unique(levels, return_counts=True)[1] / len(levels)
    return float(-(counts * np.log2(counts)).sum())


def test_a_round_with_uniform_quantizers_needs_what_is_said():
    """Nine nodes in a path; steps of widths √12u and √12v, and the error and the entropy that come of it."""
    nodes, dim, error = 9, 200_000, 20.0
    below = spanning_tree(make_network("path", nodes)).below
    assert sorted(below) == [1, 1, 2, 2, 3, 3, 4, 4]
    vectors = np.random.default_rng(0).normal(size=(nodes, dim)) / nodes
    down, up = error / 2 / dim, error / 2 / dim / (nodes - 1)

    def coded(numbers, variance):
        levels = np.rint(numbers / math.sqrt(12 * variance))
        return levels * math.sqrt(12 * variance), entropy(levels)

    spent, arms = 0.0, []
    for arm in (vectors[:4], vectors[:4:-1]):
        total = 0.0
        for vector in arm:
            total, bits = coded(total + vector, up)
            spent += bits
        arms.append(total)
    result, bits = coded(sum(arms) + vectors[4], down)
    spent += (nodes - 1) * bits
    links = 2 * (nodes - 1)
    assert ((result - vectors.sum(0)) ** 2).sum() == pytest.approx(error, rel=0.02)
    with_scalars = tree_round_bits_per_link(below, links, dim, error, scalar=True)
    assert dim * spent / links == pytest.approx(with_scalars, rel=2e-3)
    ideal, bound = tree_round_bits_per_link(below, links, dim, error), tree_bits_per_link(below, links, dim, error)
    assert consensus_bits_per_link(nodes, links, dim, error) < bound < ideal < dim * spent / links


def test_the_ring_of_100_with_a_tree():
    below = spanning_tree(make_network("ring", 100)).below
    assert tree_bits_per_link(below, 200, 250, 1e-3) == pytest.approx(1222, abs=1)
    assert tree_round_bits_per_link(below, 200, 250, 1e-3) == pytest.approx(1784, abs=1)


def test_sets_have_a_node():
    with pytest.raises(InputError, match="only 9 can be"):
        cut_bits(10, 10, 5, 1e-3)
