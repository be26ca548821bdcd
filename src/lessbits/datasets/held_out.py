"""Samples held out of training, to test the model on."""

import numpy as np

from lessbits.datasets.samples import Samples, check_samples
from lessbits.errors import InputError, check_number, check_seed


def hold_out(samples: Samples, share: float, seed: int = 0) -> tuple[Samples, Samples]:
    """Return the samples to train on and those held out, both in their given order.

    The samples held out are drawn at random, the same share at each site. Every site keeps at least one.

    Args:
        samples: All samples.
        share: The share to hold out, above 0 and below 1.
        seed: Seed of the random choice.

    >>> training, test = hold_out(Samples(np.eye(10), np.arange(10) % 2, "ten"), 0.2)
    >>> training.count, test.count
    (8, 2)
    """
    check_samples(samples)
    check_number("the share of samples held out", share)
    seed = check_seed(seed)
    if not 0 < share < 1:
        raise InputError(f"the share of samples held out is {share:g}, but it must be above 0 and below 1, such as 0.2")
    random = np.random.default_rng([seed, 1])  # not the numbers that split samples over nodes
    held = np.zeros(samples.count, dtype=bool)
    groups = [np.arange(samples.count)] if samples.sites is None else samples.site_rows()
    for rows in groups:
        held[random.permutation(rows)[: min(round(share * len(rows)), len(rows) - 1)]] = True
    if not held.any():
        raise InputError(
            f"a share of {share:g} of data set {samples.name!r}, which has {samples.count} samples, is no sample: hold "
            "out more"
        )
    return samples.take(np.flatnonzero(~held)), samples.take(np.flatnonzero(held))
