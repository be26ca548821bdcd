"""Splits: the assignment of samples to nodes."""

import heapq
from typing import TYPE_CHECKING

import numpy as np

from lessbits.datasets.samples import Samples, check_samples
from lessbits.errors import InputError, check_name, check_number, check_seed, check_whole, shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SPLITS = ("iid", "sorted", "dirichlet", "uneven")
DEFAULT_CONCENTRATION = 1.0
DEFAULT_RATIO = 4.0

# Far above any useful value, and far below where the Dirichlet sampler overflows.
LARGEST_PARAMETER = 1e12

# More different labels than this are a regression target, even if they are whole numbers.
MOST_CLASSES = 100


def split_samples(samples: Samples, nodes: int, how: str = "sorted", seed: int = 0) -> list[np.ndarray]:
    """Return the rows of each node, as one index array per node.

    The splits are:

    - `iid`: shuffled, equal parts;
    - `sorted`: sorted by label (or regression target), equal parts, so that most nodes have samples of one class only;
    - `dirichlet:A`: each class is split in random proportions, Dirichlet(A); a small A makes them very uneven;
    - `uneven:R`: shuffled, with sizes that grow geometrically to R times the smallest.

    The first two drop the remainder, which are the last samples in their order. The other two use all samples, and give
    every node at least one.

    Args:
        samples: The samples to split.
        nodes: The number of nodes.
        how: The split, as above.
        seed: Seed of all random choices.

    >>> import numpy as np
    >>> samples = Samples(np.eye(6), np.array([1, 0, 1, 0, 1, 0]), "six")
    >>> [part.tolist() for part in split_samples(samples, nodes=2, how="sorted")]
    [[1, 3, 5], [0, 2, 4]]
    """
    name, colon, parameter = str(how).partition(":")
    check_name("split", name, SPLITS)
    _check_counts(samples, nodes, seed)
    random = np.random.default_rng(seed)
    if name == "dirichlet":
        concentration = _number(how, parameter, smallest=0.0, inclusive=False) if colon else DEFAULT_CONCENTRATION
        return _dirichlet(samples, nodes, concentration, random)
    if name == "uneven":
        ratio = _number(how, parameter, smallest=1.0, inclusive=True) if colon else DEFAULT_RATIO
        return _uneven(samples.count, nodes, ratio, random)
    if colon:
        raise InputError(f"the split is {how!r}, but {name!r} takes no number: leave out {colon + parameter!r}")
    order = random.permutation(samples.count) if name == "iid" else np.argsort(samples.labels, kind="stable")
    size = samples.count // nodes
    return list(order[: size * nodes].reshape(nodes, size))


def split_labels(labels: "ArrayLike", nodes: int, concentration: float = 0.1, seed: int = 0) -> list[np.ndarray]:
    """Return the rows of each node for labels alone, split by Dirichlet proportions, as training loops need them.

    This is the usual model of nodes with different data: the samples of each class are dealt in proportions drawn from
    a Dirichlet distribution. With 0.1 most nodes have a few classes only; with 100 all have nearly the same.

    Args:
        labels: The class of each sample; any numbers or texts.
        nodes: The number of nodes.
        concentration: The parameter of the Dirichlet distribution, above 0.
        seed: Seed of the proportions and of the order of samples.

    >>> parts = split_labels([0, 0, 0, 0, 1, 1, 1, 1], nodes=2, concentration=0.1, seed=1)
    >>> sorted(int(row) for part in parts for row in part)
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    given = np.asarray(labels)
    if given.ndim != 1 or not len(given):
        raise InputError(f"labels have the shape {given.shape}, but there must be one for each sample")
    classes, numbers = np.unique(given, return_inverse=True)
    if len(classes) > MOST_CLASSES:
        raise InputError(
            f"there are {len(classes)} different labels, but a split by class takes {MOST_CLASSES} at most"
        )
    samples = Samples(np.zeros((len(given), 1)), numbers.astype(np.float64), "labels")
    _check_counts(samples, nodes, seed)
    check_number("concentration", concentration, 0, LARGEST_PARAMETER)
    if not concentration > 0:
        raise InputError(f"concentration is {concentration:g}, but it must be above 0: 0.1 makes very different nodes")
    return _dirichlet(samples, nodes, float(concentration), np.random.default_rng(seed))


def _check_counts(samples: Samples, nodes: int, seed: int) -> None:
    """Raise InputError unless the counts and the seed are valid and every node gets a sample."""
    check_samples(samples)
    check_whole("the number of nodes", nodes, 1)
    check_seed(seed)
    if samples.count < nodes:
        raise InputError(
            f"data set {samples.name!r} has {samples.count} samples for {shown(nodes)} nodes, "
            f"but every node needs at least one: take at most {samples.count} nodes, or more samples"
        )


def _number(how: str, parameter: str, smallest: float, inclusive: bool) -> float:
    """Return the number after the colon of `how`, checked against its limits."""
    try:
        value = float(parameter)
    except ValueError:
        value = float("nan")
    if (value > smallest or (inclusive and value == smallest)) and value <= LARGEST_PARAMETER:
        return value
    name = how.partition(":")[0]
    bound = f"of at least {smallest:g}" if inclusive else f"above {smallest:g}"
    raise InputError(
        f"the split is {how!r}, but the number after the colon must be {bound} and at most {LARGEST_PARAMETER:g}: "
        f"write for example '{name}:2.5', or {name!r} alone"
    )


def _dirichlet(samples: Samples, nodes: int, concentration: float, random: np.random.Generator) -> list[np.ndarray]:
    """Split the samples of each class between the nodes in Dirichlet proportions."""
    classes, count = samples.class_labels()
    if count > MOST_CLASSES:
        raise InputError(
            f"data set {samples.name!r} has {count} different labels, but the split 'dirichlet' needs classes, "
            f"at most {MOST_CLASSES}: take 'sorted', 'iid' or 'uneven'"
        )
    owner = np.empty(samples.count, dtype=np.int64)
    for label in range(count):
        rows = random.permutation(np.flatnonzero(classes == label))
        shares = random.dirichlet(np.full(nodes, concentration))
        # The last cut is left out, because rounding may make the sum of the shares slightly less than 1.
        cuts = np.rint(np.cumsum(shares)[:-1] * len(rows))
        owner[rows] = np.searchsorted(cuts, np.arange(len(rows)), side="right")
    ends = np.cumsum(np.bincount(owner, minlength=nodes))
    return _fill_empty(np.split(np.argsort(owner, kind="stable"), ends[:-1]))


def _uneven(count: int, nodes: int, ratio: float, random: np.random.Generator) -> list[np.ndarray]:
    """Cut shuffled samples into parts that grow geometrically, the last `ratio` times as large as the first."""
    weights = ratio ** (np.arange(nodes) / max(nodes - 1, 1) - 1.0)
    ideal = count * weights / weights.sum()
    sizes = np.floor(ideal).astype(np.int64)
    # The remainder goes to the largest fractions, and to the later of equal ones, so that sizes never decrease.
    missing = count - int(sizes.sum())
    sizes[np.argsort(ideal - sizes, kind="stable")[nodes - missing :]] += 1
    return _fill_empty(np.split(random.permutation(count), np.cumsum(sizes)[:-1]))


def _fill_empty(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Give every empty part one row of the currently largest part."""
    heap = [(-len(part), node) for node, part in enumerate(parts) if len(part)]
    heapq.heapify(heap)
    for node, part in enumerate(parts):
        if not len(part):
            size, largest = heap[0]
            parts[node], parts[largest] = parts[largest][-1:], parts[largest][:-1]
            heapq.heapreplace(heap, (size + 1, largest))
    return parts
