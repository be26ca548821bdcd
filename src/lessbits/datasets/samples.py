"""Samples: rows of features, with a label and optionally a site for each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits.datasets.arrays import as_labels, as_rows, check_finite, is_frame
from lessbits.datasets.columns import column_sizes, divide_columns
from lessbits.datasets.sites import read_sites, rows_of_sites, site_names
from lessbits.errors import InputError, shown

if TYPE_CHECKING:
    import pandas
    from scipy import sparse


def check_samples(given: Any) -> None:
    """Raise an `InputError` unless these are `Samples`."""
    if not isinstance(given, Samples):
        raise InputError(
            f"samples are a {type(given).__name__}, but they must be Samples: write Samples(features, labels), "
            "Samples.from_frame(frame, target=…) or load_samples(file)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """Rows of features, with one label per row.

    Features may be an array, nested lists, a pandas DataFrame or a SciPy sparse matrix of any format. Labels may be
    numbers or text. They are converted to float64; sparse indices are sorted and unique. Empty rows are valid samples.

    Attributes:
        features: Array [samples, dim], or CSR matrix.
        labels: Array [samples]. Labels that are text become 0, 1, … in sorted order.
        name: Name of the data set.
        sites: The site of each row, whole numbers or text; None without sites. Each site is a node.
        classes: The names of the labels 0, 1, …, if the labels are text.
        columns: The names of the features, if they are known.

    >>> Samples(np.eye(3), np.array([0, 1, 1]), "mine").binary_labels().tolist()
    [-1.0, 1.0, 1.0]
    >>> Samples([[1, 2], [3, 4]], ["sick", "healthy"], sites=["Basel", "Bern"]).site_names
    ('Basel', 'Bern')
    """

    features: "np.ndarray | sparse.csr_matrix"
    labels: np.ndarray
    name: str = "data"
    sites: np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Convert to float64; raise InputError if shapes do not match or values are not finite."""
        what = f"data set {self.name!r}"
        if is_frame(self.features):
            object.__setattr__(self, "columns", tuple(str(name) for name in self.features.columns))  # type: ignore[union-attr]
        features = as_rows(self.features, f"the features of {what}")
        labels, classes = as_labels(self.labels, f"the labels of {what}"), self.classes
        if labels.dtype.kind == "U":
            names, labels = np.unique(labels, return_inverse=True)
            labels, classes = labels.astype(np.float64), tuple(names.tolist())
        if features.ndim != 2 or labels.shape != features.shape[:1] or 0 in features.shape:
            raise InputError(
                f"{what} has features of shape {features.shape} and labels of shape {labels.shape}, "
                "but they must be [samples, dim] and [samples], with at least one of each"
            )
        columns = _check_names(self.columns, what, "columns", features.shape[1])
        if (classes := _check_names(classes, what, "classes")) and not np.isin(labels, np.arange(len(classes))).all():
            raise InputError(f"{what} names {len(classes)} classes, so its labels must be from 0 to {len(classes) - 1}")
        check_finite(features, f"the features of {what}", columns)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "classes", classes)
        if self.sites is not None:
            object.__setattr__(self, "sites", read_sites(self.sites, len(labels), what))

    @classmethod
    def from_frame(
        cls, frame: "pandas.DataFrame", target: str, site: str | None = None, name: str = "frame"
    ) -> "Samples":
        """Take the samples of a pandas DataFrame: all columns but `target` and `site` are features.

        Args:
            frame: One row per sample. Features must be numbers, without missing values.
            target: The column to predict: numbers, or text for classes.
            site: The column that names the site of each row. Each site is a node.
            name: A name for the data, for messages.

        >>> import pandas
        >>> frame = pandas.DataFrame({"age": [40, 50, 60], "sick": ["no", "yes", "no"], "clinic": ["A", "B", "B"]})
        >>> Samples.from_frame(frame, target="sick", site="clinic")
        Samples('frame', 3 samples, 1 features, dense, 2 different labels, 2 sites)
        """
        from lessbits.datasets.tables import check_columns

        chosen = check_columns(frame, target, site, f"data set {name!r}")
        sites = None if site is None else frame[chosen[1]]
        return cls(frame.drop(columns=chosen), frame[chosen[0]], name, sites)

    def __repr__(self) -> str:
        """Show the sizes, not the data."""
        kind = "dense" if isinstance(self.features, np.ndarray) else "sparse"
        labels = f"{len(np.unique(self.labels))} different labels"
        sites = "" if self.sites is None else f", {len(self.site_names)} sites"
        return f"Samples({self.name!r}, {self.count} samples, {self.dim} features, {kind}, {labels}{sites})"

    @property
    def count(self) -> int:
        """The number of samples."""
        return int(self.features.shape[0])

    @property
    def dim(self) -> int:
        """The number of features."""
        return int(self.features.shape[1])

    @property
    def site_names(self) -> tuple[str, ...]:
        """The names of the sites in sorted order, which is the order of the nodes; empty without sites."""
        return () if self.sites is None else site_names(self.sites)

    def site_rows(self) -> list[np.ndarray]:
        """Return the rows of each site, in the order of `site_names`."""
        if self.sites is None:
            raise InputError(f"data set {self.name!r} has no sites: give some, or split the samples")
        return rows_of_sites(self.sites, f"data set {self.name!r}")

    def take(self, rows: np.ndarray) -> "Samples":
        """Return the samples in these rows, in this order."""
        try:
            rows = np.arange(self.count)[rows]
        except (IndexError, TypeError, ValueError):
            raise InputError(
                f"rows is {shown(rows)}, but it must be a list of rows of data set {self.name!r}, from 0 to "
                f"{self.count - 1}"
            ) from None
        sites = None if self.sites is None else self.sites[rows]
        return replace(self, features=self.features[rows], labels=self.labels[rows], sites=sites)

    def binary_labels(self) -> np.ndarray:
        """Return the labels of two classes as −1.0 (the smaller label) and +1.0."""
        return self.with_classes(np.unique(self.labels), binary=True)

    def class_labels(self) -> tuple[np.ndarray, int]:
        """Return the class of each sample, 0 to C − 1 in the order of the labels, and the number of classes C."""
        values = np.unique(self.labels)
        return self.with_classes(values, binary=False), len(values)

    def with_classes(self, values: np.ndarray, binary: bool) -> np.ndarray:
        """Return the class of each sample among the sorted labels `values`: its index, or −1.0 and +1.0 if `binary`."""
        if binary and len(values) != 2:
            raise InputError(
                f"data set {self.name!r} has {len(values)} class{'es' if len(values) > 1 else ''} "
                f"(labels {self.name_labels(values)}), but exactly two are needed here: "
                "choose another data set, or softmax regression for more than two"
            )
        unknown = self.labels[~np.isin(self.labels, values)]
        if len(unknown):
            raise InputError(
                f"data set {self.name!r} has the label {self.name_labels(unknown[:1])}, but the labels here are "
                f"{self.name_labels(values)}: leave those samples out"
            )
        if binary:
            return np.where(self.labels == values[1], 1.0, -1.0)
        fractional = values[values != np.rint(values)]
        # Two fractional labels are two classes. More are a regression target.
        if len(fractional) and len(values) > 2:
            raise InputError(
                f"data set {self.name!r} has labels that are not whole numbers ({self.name_labels(fractional)}), "
                "but classes are needed here: choose a data set with classes, or treat this one as a regression"
            )
        return np.searchsorted(values, self.labels)

    def with_class_names(self, names: tuple[str, ...]) -> "Samples":
        """Return the samples with labels that count in these names, which have all names of these samples."""
        own = self.classes or ()
        used = {own[int(label)] for label in np.unique(self.labels)} if own else set()
        unknown = sorted(used - set(names))
        if not own or unknown:
            given = f"the label {unknown[0]!r}" if unknown else f"numbers as labels ({self.name_labels(self.labels)})"
            raise InputError(
                f"data set {self.name!r} has {given}, but the labels here are {', '.join(map(repr, names))}: "
                "make the labels agree"
            )
        numbers = np.array([names.index(one) if one in names else -1 for one in own], dtype=np.float64)
        return replace(self, labels=numbers[self.labels.astype(int)], classes=names)

    def with_columns(self, columns: tuple[str, ...] | None) -> "Samples":
        """Return the samples with the features of these names, in this order."""
        if columns is None or self.columns is None or self.columns == columns:
            return self
        missing, extra = (
            sorted(set(one) - set(other)) for one, other in ((columns, self.columns), (self.columns, columns))
        )
        if missing or extra:
            words = [f"{name!r} is missing" for name in missing[:1]] + [f"{name!r} is new" for name in extra[:1]]
            raise InputError(f"data set {self.name!r} has other columns ({', '.join(words)}): make the columns agree")
        order = [self.columns.index(name) for name in columns]
        return replace(self, features=self.features[:, order], columns=columns)

    def normalized_rows(self) -> "Samples":
        """Return the samples with every nonzero row scaled to 2-norm 1."""
        from scipy import sparse

        largest = abs(self.features).max(axis=1)
        # First divide by the largest entry, because squares of 1e200 or 1e-200 overflow or underflow.
        if sparse.issparse(self.features):
            rows = _divide_rows(self.features, largest.toarray().ravel())
            norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        else:
            rows = _divide_rows(self.features, largest)
            norms = np.linalg.norm(rows, axis=1)
        return replace(self, features=_divide_rows(rows, norms))

    def scaled_columns(self, sizes: np.ndarray | None = None) -> "Samples":
        """Return the samples with every column divided by its standard deviation. Nothing is subtracted.

        So sparse features stay sparse, and a column that is the same in all rows, such as ones for an intercept, stays
        as it is.

        Args:
            sizes: Numbers to divide by instead, such as `training.column_spreads()` for samples to test on.
        """
        divisors = self.column_spreads() if sizes is None else as_rows(sizes, "the sizes of columns")
        if divisors.shape != (self.dim,):
            raise InputError(f"sizes has the shape {divisors.shape}, but it must have one number for each column")
        return replace(self, features=divide_columns(self.features, divisors))

    def column_spreads(self) -> np.ndarray:
        """Return the standard deviation of every column over all samples."""
        return column_sizes(self.features, centred=True)

    def name_labels(self, values: np.ndarray) -> str:
        """Return the first few of these labels, by name if they have names, for a message."""
        shown = [repr(self.classes[int(value)]) if self.classes else f"{value:g}" for value in values[:4].tolist()]
        return ", ".join(shown) + (", ..." if len(values) > 4 else "")


def _check_names(given: Any, what: str, kind: str, count: int | None = None) -> tuple[str, ...] | None:
    """Return the names of columns or classes as a tuple; raise InputError unless these are different texts."""
    if given is None:
        return None
    names = () if isinstance(given, str) or not isinstance(given, Sequence) else tuple(given)
    fit = all(isinstance(name, str) for name in names) and len(set(names)) == len(names) == (count or len(names))
    if not names or not fit:
        raise InputError(
            f"the {kind} of {what} are {shown(given)}, but they must be a list of{f' {count}' if count else ''} "
            "different names"
        )
    return names


def _divide_rows(features: Any, divisors: np.ndarray) -> Any:
    """Return each row divided by its divisor, rows with divisor 0 as they are."""
    from scipy import sparse

    divisors = np.where(divisors > 0, divisors, 1.0)
    if not sparse.issparse(features):
        return features / divisors[:, None]
    rows = features.copy()
    rows.data /= np.repeat(divisors, np.diff(rows.indptr))
    return rows
