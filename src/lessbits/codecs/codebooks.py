"""Probability models of levels that both ends know: up to 253 of them, identified by one byte.

A model gives level l the probability exp(-A - a·[v≠0] - b·v - c·v² - e·log(1+v)), with v the level's distance from zero
(see `dither_bins`; without a known dither it is |l|), the approximate logarithm of `buckets`, and a normalizer A for
each bin of the dither. Four sums over a vector give its length under every model, and the sender takes the shortest. A
compiled loop computes these sums cheaply. Without the logarithm, heavy tails such as Student's t cost up to 10 % more.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from lessbits.codecs.buckets import buckets, logarithm
from lessbits.codecs.dither_bins import folded
from lessbits.codecs.fitting import Law, fit_models, level_moments

MOST_MODELS = 253
# Distributions of non-zero coordinates: one magnitude, generalized Gaussians (8 is nearly uniform, 2 Gaussian,
# 1 Laplace), and Student's t, whose width is not known from the norm, as a few coordinates make up most of that.
SHAPES = (math.inf, 8.0, 2.0, 1.4, 1.0, 0.7, 0.5)
WIDE_SHAPES = (2.0, 1.0, 0.6)
FREEDOMS = (1.0, 1.25, 1.5, 2.0, 3.0)
MOST_OCTAVES = 22  # steps of π; by factors of 2 up to d = 2 million


def features(distances: Any) -> tuple[Any, Any, Any, Any]:
    """Return [v≠0], v, v² and the logarithm, for distances as integers."""
    return distances > 0, distances, distances * distances, logarithm(distances)


@dataclass(frozen=True, eq=False)
class Codebook:
    """Models of levels -s … s, one per row. Levels of one bucket are equally likely."""

    most: int  # s
    bins: int  # of the dither: 1 if it is not known
    rates: np.ndarray  # [models, 4]: a, b, c and e

    @cached_property
    def statistics(self) -> np.ndarray:
        """The mean features of each symbol, from -s to s, in each folded bin, [bins, symbols, 4]."""
        return _symbol_features(self.most, self.bins)

    @cached_property
    def normalizers(self) -> np.ndarray:
        """The normalizer A of each model in each folded bin, [models, bins]."""
        exponents = np.log(_sizes(self.most)) - np.matmul(self.rates, self.statistics.transpose(0, 2, 1))
        top = exponents.max(axis=2)
        return (np.log(np.exp(exponents - top[..., None]).sum(axis=2)) + top).T

    def __len__(self) -> int:
        """The number of models."""
        return len(self.rates)

    def bits(self, counts: np.ndarray) -> np.ndarray:
        """Return the length in bits under each model, low bits included.

        `counts` says how often each symbol occurs in each folded bin, [bins, symbols].
        """
        found = counts.nonzero()
        sums = counts[found] @ self.statistics[found]
        return (self.normalizers @ counts.sum(axis=1) + self.rates @ sums) / np.log(2)

    def probabilities(self, model: int) -> np.ndarray:
        """Return the probabilities of the symbols, from -s to s, in each folded bin, [bins, symbols]."""
        exponents = self.statistics @ self.rates[model] + self.normalizers[model][:, None]
        return np.exp(-exponents) * _sizes(self.most)


def _symbol_features(most: int, bins: int) -> np.ndarray:
    """Return the mean features of each symbol in each folded bin; -l is as far from zero as l in the mirrored bin."""
    middles, low_bits = buckets(most).middles, buckets(most).low_bits
    spread = bins**2 * (4.0**low_bits - 1) / 12

    def one_sign(number: int) -> np.ndarray:
        distances = np.where(middles > 0, bins * middles - number, 0)
        columns = distances > 0, distances, distances**2 + spread, logarithm(distances)
        return np.stack(columns, axis=1).astype(np.float64)

    signs = [(one_sign(bins - 1 - number), one_sign(number)) for number in range(folded(bins))]
    return np.stack([np.concatenate([negative[:0:-1], positive]) for negative, positive in signs])


def _sizes(most: int) -> np.ndarray:
    """Return how many levels each symbol has, from -s to s."""
    sizes = 2.0 ** buckets(most).low_bits
    return np.concatenate([sizes[:0:-1], sizes])


def _fitted(laws: list[Law], most: int, bins: int, heavy: list[bool]) -> Codebook:
    moments, tables = level_moments(laws, most, bins, features), _symbol_features(most, bins)
    return Codebook(most, bins, fit_models(moments, tables, _sizes(most), np.array(heavy)))


@lru_cache(maxsize=64)
def norm_codebook(most: int, dim: int, bins: int) -> Codebook:
    """Models for levels of dithering by the norm: the root mean square of s·x/‖x‖ is s/√d, whatever x is.

    As the size is known, models differ in shape alone: a coordinate is non-zero with probability π = 1 … 1/d and then
    has one of a few distributions, rounded to integers.
    """
    size = most / math.sqrt(dim)
    octaves = min(math.ceil(math.log2(max(dim, 2))) + 1, MOST_OCTAVES)
    dense = np.geomspace(1, 1 / dim, octaves)
    narrow = np.geomspace(1, dim**-0.75, min(2 * octaves, (MOST_MODELS - len(SHAPES) * octaves) // len(FREEDOMS)))
    laws = [(shape, 0.0, share, size / math.sqrt(share)) for share in dense for shape in SHAPES]
    laws += [(0.0, freedom, 1.0, size * width) for width in narrow for freedom in FREEDOMS]
    return _fitted(laws, most, bins, [freedom > 0 for _, freedom, _, _ in laws])


@lru_cache(maxsize=2)
def width_codebook(most: int, bins: int) -> Codebook:
    """Models for levels of any size: Gaussian, Laplace and heavier, with widths from 1/64 in steps of 2^(1/3)."""
    widths = 2.0 ** (np.arange(MOST_MODELS // len(WIDE_SHAPES)) / 3 - 6)
    laws = [(shape, 0.0, 1.0, width) for width in widths for shape in WIDE_SHAPES]
    return _fitted(laws, most, bins, [shape < 1 for shape, _, _, _ in laws])


@lru_cache(maxsize=1)
def sign_codebook() -> Codebook:
    """Models for levels -1, 0 and 1: evenly spaced in the logarithm of the odds of a non-zero, from 1e-7 to 1e7."""
    odds = np.geomspace(1e-7, 1e7, MOST_MODELS)
    rates = np.zeros((MOST_MODELS, 4))
    rates[:, 0] = -np.log(odds / 2)
    return Codebook(1, 1, rates)
