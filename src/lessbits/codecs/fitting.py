"""Fits the parameters of level models: each model has the same mean features as a given distribution of levels."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

GRID = 2500  # points of a density, evenly spaced in the logarithm
FIT_STEPS = 80
AT_ONCE = 16  # models
SETTLED = 1e-11  # relative change of the rates at which a fit ends
RIDGE = 1e-4  # per non-zero feature: with few levels some of the means are equal
DIGITS = 14  # bits kept of a rate, so that machines with different rounding agree
ONE_MAGNITUDE = 0.03  # how far coordinates of equal magnitude differ

Features = Callable[[np.ndarray], Any]  # one array for each feature
Law = tuple[float, float, float, float]  # shape, degrees of freedom (one of them 0), P(x≠0), width


def level_moments(laws: Sequence[Law], most: int, bins: int, features: Features) -> np.ndarray:
    """Return the means of the features of distances (see `dither_bins`), [laws, features].

    A number x, at most `most`, becomes ⌊x + ξ⌋ with ξ uniform in [0, 1). With one bin the distance is this level. With
    more it is, whatever x is, one of `bins` consecutive integers up to ⌊bins·x⌋, or with the probability of the
    fractional part up to the next one; those below zero count as zero.
    """
    grid = np.exp(np.linspace(math.log(1e-5), math.log(300), GRID))
    result = []
    for shape, freedom, share, width in laws:
        mass = _mass(grid, shape, freedom)
        fine = np.minimum(grid * width, most) * bins
        below = np.floor(fine).astype(np.int64)
        up = fine - below
        total = np.zeros(len(features(below)))
        for offset in range(1 - bins, 2):
            distances = np.clip(below + offset, 0, most * bins)
            weights = mass * ((1 - up) if offset == 1 - bins else up if offset == 1 else 1.0)
            total += [np.sum(each * weights) for each in features(distances)]
        result.append(share / bins * total)
    return np.array(result)


def _mass(grid: np.ndarray, shape: float, freedom: float) -> np.ndarray:
    """Return the share of each magnitude of the grid; the root mean square is 1 where there is a shape."""
    if shape == math.inf:
        mass = np.exp(-((np.log(grid) / ONE_MAGNITUDE) ** 2) / 2)
    elif shape:
        stretch = math.exp((math.lgamma(1 / shape) - math.lgamma(3 / shape)) / 2)
        mass = grid * np.exp(-np.minimum((grid / stretch) ** shape, 700))
    else:
        mass = grid * (1 + grid**2 / freedom) ** (-(freedom + 1) / 2)
    return mass / mass.sum()


def fit_models(moments: np.ndarray, tables: np.ndarray, sizes: np.ndarray, heavy: np.ndarray) -> np.ndarray:
    """Return the rates of the models whose features have these means: the best codes for such laws.

    `tables` are the features of each symbol in each bin of the dither, [bins, symbols, features], and `sizes` how many
    levels a symbol has. Rates minimize the convex A(rates) + rates · means, where A is the mean over bins of the
    normalizer. Heavy tails do without the third feature, the square: to have its mean, a model would give ±s more than
    the levels before.
    """
    # Few models at once: products of larger matrices start threads, which wait for each other on a busy machine.
    parts = [slice(start, start + AT_ONCE) for start in range(0, len(moments), AT_ONCE)]
    return np.concatenate([_fit(moments[part], tables, sizes, heavy[part]) for part in parts])


def _fit(moments: np.ndarray, tables: np.ndarray, sizes: np.ndarray, heavy: np.ndarray) -> np.ndarray:
    """Return the rates of some models, found by damped Newton steps for all at once."""
    units = np.maximum(moments / moments[:, :1], 1)
    units[heavy, 2] = np.inf
    wanted = moments / units
    ridge = RIDGE * wanted[:, :1]
    count = tables.shape[-1]
    products = (tables[..., :, None] * tables[..., None, :]).reshape(*tables.shape[:2], count * count)

    def judge(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        exponents = np.log(sizes) - np.matmul(rates / units, tables.transpose(0, 2, 1))
        top = exponents.max(axis=2, keepdims=True)
        weights = np.exp(exponents - top)
        total = weights.sum(axis=2, keepdims=True)
        normalizers = (np.log(total) + top)[..., 0].mean(axis=0)
        return normalizers + (wanted * rates).sum(1) + (ridge * rates**2).sum(1) / 2, weights / total

    rates = np.full(wanted.shape, 0.1)
    rates[:, 0] += np.log(1 / wanted[:, 0])
    costs, weights = judge(rates)
    damping = np.full(len(wanted), 1e-3)
    for _ in range(FIT_STEPS):
        by_bin = np.matmul(weights, tables) / units  # [bins, models, features]
        second = np.matmul(weights, products).mean(axis=0).reshape(-1, count, count)
        spread = second / (units[:, :, None] * units[:, None]) - np.einsum("uki,ukj->kij", by_bin, by_bin) / len(tables)
        scale = np.einsum("kii->ki", spread)
        damped = spread + (damping[:, None] * scale + ridge)[:, :, None] * np.eye(count)
        step = np.linalg.solve(damped, (by_bin.mean(axis=0) - wanted - ridge * rates)[:, :, None])[:, :, 0]
        new_costs, new_weights = judge(rates + step)
        # Near the minimum costs differ by rounding only. Go on until the rates themselves no longer change.
        better = new_costs <= costs + 1e-14
        rates = np.where(better[:, None], rates + step, rates)
        weights = np.where(better[:, None], new_weights, weights)
        costs = np.where(better, new_costs, costs)
        damping = np.where(better, damping / 10, damping * 8).clip(1e-12, 1e6)
        if better.all() and (np.abs(step) <= SETTLED * (1 + np.abs(rates))).all():
            break
    return _rounded(rates / units)


def _rounded(rates: np.ndarray) -> np.ndarray:
    mantissas, exponents = np.frexp(rates)
    return np.ldexp(np.rint(mantissas * 2**DIGITS) / 2**DIGITS, exponents)
