"""Sites: names for rows of samples. Each site is a node."""

from typing import Any

import numpy as np

from lessbits._internal.logging import warn_once
from lessbits._internal.wording import counted
from lessbits.datasets.arrays import as_sites
from lessbits.errors import InputError


def read_sites(given: Any, count: int, what: str) -> np.ndarray:
    """Return the site of each row, as whole numbers or text.

    Args:
        given: One name or number for each row.
        count: The number of rows.
        what: What the sites belong to, for messages.
    """
    sites = as_sites(given, f"the sites of {what}")
    if len(sites) != count:
        sizes = f"{counted(count, 'row')} and {counted(len(sites), 'site')}"
        raise InputError(f"{what} has {sizes}, but each row needs one: give as many")
    return strip_names(sites, what)


def strip_names(sites: np.ndarray, what: str) -> np.ndarray:
    """Return names of sites without spaces around them, and log a warning if there were some.

    "Bern" and "Bern " look alike, and would be two nodes.
    """
    if sites.dtype.kind not in "UO" or not all(isinstance(name, str) for name in sites):
        return sites
    stripped = np.array([name.strip() for name in sites])
    changed = [name for name, bare in zip(sites.tolist(), stripped.tolist(), strict=True) if name != bare]
    if changed:
        warn_once(f"spaces around the names of sites of {what} are left out (such as in {changed[0]!r})")
    return stripped


def site_names(sites: np.ndarray) -> tuple[str, ...]:
    """Return the names in sorted order, which is the order of the nodes. Numbers are sorted as numbers.

    >>> site_names(np.array([10, 9, 10])), site_names(np.array(["west", "east"]))
    (('9', '10'), ('east', 'west'))
    """
    return tuple(str(name) for name in np.unique(sites).tolist())


def rows_of_sites(sites: np.ndarray, what: str) -> list[np.ndarray]:
    """Return the rows of each site, in the order of `site_names`; log a warning about sites with a single row."""
    names, where, counts = np.unique(sites, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InputError(
            f"all rows of {what} are of the site {str(names[0])!r}, but a network has at least two nodes: give another "
            "column of sites, or leave the sites out to split the rows"
        )
    single = names[counts == 1]
    if len(single):
        warn_once(
            f"{len(single)} of {len(names)} sites of {what} have a single row (such as {str(single[0])!r}): if that is "
            "not meant, the column names rows, not sites"
        )
    return [np.flatnonzero(where == node) for node in range(len(names))]
