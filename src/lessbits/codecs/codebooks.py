"""Probability models of levels that both ends know: up to 253 of them, identified by one byte.

A model gives level l the probability exp(-A - a·[l≠0] - b·|l| - c·l² - e·log(1+|l|)), with the approximate
logarithm of `buckets`. Four sums over a vector give its length under every model, and the sender takes the shortest. A
compiled loop computes these sums cheaply. Without the logarithm, heavy tails such as Student's t cost up to 10 % more.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from lessbits.codecs.buckets import buckets, logarithm
from lessbits.codecs.fitting import fit_models, level_moments

MOST_MODELS = 253
# Distributions of non-zero coordinates: one magnitude, generalized Gaussians (8 is nearly uniform, 2 Gaussian,
# 1 Laplace), and Student's t, whose width is not known from the norm, as a few coordinates make up most of that.
SHAPES = (math.inf, 8.0, 2.0, 1.4, 1.0, 0.7, 0.5)
WIDE_SHAPES = (2.0, 1.0, 0.6)
FREEDOMS = (1.0, 1.25, 1.5, 2.0, 3.0)
MOST_OCTAVES = 22  # steps of π; by factors of 2 up to d = 2 million


def features(magnitudes: Any) -> tuple[Any, Any, Any, Any]:
    """Return [l≠0], |l|, l² and the logarithm, for magnitudes as integers."""
    return magnitudes > 0, magnitudes, magnitudes * magnitudes, logarithm(magnitudes)


@dataclass(frozen=True, eq=False)
class Codebook:
    """Models of levels -s … s, one per row. Levels of one bucket are equally likely."""

    most: int  # s
    rates: np.ndarray  # [models, 4]: a, b, c and e

    @cached_property
    def statistics(self) -> np.ndarray:
        """The mean features of each bucket, [buckets, 4]."""
        return _bucket_features(self.most)

    @cached_property
    def normalizers(self) -> np.ndarray:
        """The normalizer A of each model."""
        exponents = np.log(_sizes(self.most)) - self.rates @ self.statistics.T
        top = exponents.max(axis=1)
        return np.log(np.exp(exponents - top[:, None]).sum(axis=1)) + top

    def __len__(self) -> int:
        """The number of models."""
        return len(self.rates)

    def bits(self, counts: np.ndarray) -> np.ndarray:
        """Return the length in bits under each model, low bits included; `counts` says how often each bucket occurs."""
        return (counts.sum() * self.normalizers + self.rates @ (counts @ self.statistics)) / np.log(2)

    def probabilities(self, model: int) -> np.ndarray:
        """Return the probabilities of the buckets, from that of -s to that of s."""
        one_sign = np.exp(-(self.statistics @ self.rates[model]) - self.normalizers[model])
        one_sign = one_sign * 2.0 ** buckets(self.most).low_bits
        return np.concatenate([one_sign[:0:-1], one_sign])


def _bucket_features(most: int) -> np.ndarray:
    starts, low_bits = buckets(most)
    middles = buckets(most).middles
    squares = middles**2 + (4.0**low_bits - 1) / 12
    return np.stack([starts > 0, middles, squares, logarithm(starts)], axis=1).astype(np.float64)


def _sizes(most: int) -> np.ndarray:
    """Return how many levels, of both signs, are in each bucket."""
    return 2.0 ** buckets(most).low_bits * np.where(buckets(most).starts > 0, 2, 1)


@lru_cache(maxsize=64)
def norm_codebook(most: int, dim: int) -> Codebook:
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
    moments = level_moments(laws, most, features)
    heavy = np.array([freedom > 0 for _, freedom, _, _ in laws])
    return Codebook(most, fit_models(moments, _bucket_features(most), _sizes(most), heavy))


@lru_cache(maxsize=1)
def width_codebook(most: int) -> Codebook:
    """Models for levels of any size: Gaussian, Laplace and heavier, with widths from 1/64 in steps of 2^(1/3)."""
    widths = 2.0 ** (np.arange(MOST_MODELS // len(WIDE_SHAPES)) / 3 - 6)
    laws = [(shape, 0.0, 1.0, width) for width in widths for shape in WIDE_SHAPES]
    moments = level_moments(laws, most, features)
    light = np.zeros(len(laws), bool)
    return Codebook(most, fit_models(moments, _bucket_features(most), _sizes(most), light))


@lru_cache(maxsize=1)
def sign_codebook() -> Codebook:
    """Models for levels -1, 0 and 1: evenly spaced in the logarithm of the odds of a non-zero, from 1e-7 to 1e7."""
    odds = np.geomspace(1e-7, 1e7, MOST_MODELS)
    rates = np.zeros((MOST_MODELS, 4))
    rates[:, 0] = -np.log(odds / 2)
    return Codebook(1, rates)
