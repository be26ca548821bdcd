"""Fits the parameters of level models: each model has the same mean features as a given distribution of levels."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

GRID = 2500  # points of a density, evenly spaced in the logarithm
FIT_STEPS = 80
RIDGE = 1e-4  # per non-zero feature: with few levels some of the means are equal
DIGITS = 14  # bits kept of a rate, so that machines with different rounding agree
ONE_MAGNITUDE = 0.03  # how far coordinates of equal magnitude differ

Features = Callable[[np.ndarray], Any]  # one array for each feature
Law = tuple[float, float, float, float]  # shape, degrees of freedom (one of them 0), P(x≠0), width


def level_moments(laws: Sequence[Law], most: int, features: Features) -> np.ndarray:
    """Return the means of the features of levels, [laws, features].

    A number x, at most `most`, is rounded to ⌊x⌋ or ⌊x⌋+1, up with the probability of its fractional part.
    """
    grid = np.exp(np.linspace(math.log(1e-5), math.log(300), GRID))
    result = []
    for shape, freedom, share, width in laws:
        mass = _mass(grid, shape, freedom)
        values = np.minimum(grid * width, most)
        below = np.minimum(np.floor(values), most - 1).astype(np.int64)
        up = values - below
        lower, upper = np.stack(features(below)), np.stack(features(below + 1))
        result.append(share * (lower @ (mass * (1 - up)) + upper @ (mass * up)))
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


def fit_models(moments: np.ndarray, statistics: np.ndarray, sizes: np.ndarray, heavy: np.ndarray) -> np.ndarray:
    """Return the rates of the models whose features have these means: the best codes for such laws.

    `statistics` are the features of each bucket of levels, [buckets, features], and `sizes` how many levels it has.
    Rates minimize the convex A(rates) + rates · means, here by damped Newton steps for all models at once. Heavy tails
    do without the third feature, l²: to have its mean, a model would give ±s more than the levels before.
    """
    units = np.maximum(moments / moments[:, :1], 1)
    units[heavy, 2] = np.inf
    table = statistics / units[:, None]
    wanted = moments / units
    ridge = RIDGE * wanted[:, :1]

    def judge(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        exponents = np.log(sizes) - np.matmul(table, rates[:, :, None])[:, :, 0]
        top = exponents.max(axis=1, keepdims=True)
        weights = np.exp(exponents - top)
        total = weights.sum(axis=1, keepdims=True)
        costs = np.log(total[:, 0]) + top[:, 0] + (wanted * rates).sum(1) + (ridge * rates**2).sum(1) / 2
        return costs, weights / total

    rates = np.full(wanted.shape, 0.1)
    rates[:, 0] += np.log(1 / wanted[:, 0])
    costs, weights = judge(rates)
    damping = np.full(len(wanted), 1e-3)
    for _ in range(FIT_STEPS):
        weighted = table * weights[:, :, None]
        means = weighted.sum(axis=1)
        spread = np.matmul(weighted.transpose(0, 2, 1), table) - means[:, :, None] * means[:, None]
        scale = np.einsum("kii->ki", spread)
        damped = spread + (damping[:, None] * scale + ridge)[:, :, None] * np.eye(means.shape[1])
        tried = rates + np.linalg.solve(damped, (means - wanted - ridge * rates)[:, :, None])[:, :, 0]
        new_costs, new_weights = judge(tried)
        # Near the minimum costs differ by rounding only. Go on until the rates themselves no longer change.
        better = new_costs <= costs + 1e-14
        rates = np.where(better[:, None], tried, rates)
        weights = np.where(better[:, None], new_weights, weights)
        costs = np.where(better, new_costs, costs)
        damping = np.where(better, damping / 10, damping * 8).clip(1e-12, 1e6)
    return _rounded(rates / units)


def _rounded(rates: np.ndarray) -> np.ndarray:
    mantissas, exponents = np.frexp(rates)
    return np.ldexp(np.rint(mantissas * 2**DIGITS) / 2**DIGITS, exponents)
