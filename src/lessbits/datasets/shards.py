"""Data in one file per node, which only the process of that node reads."""

import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lessbits._internal.team import Team
from lessbits.datasets.loading import load_samples
from lessbits.datasets.samples import Samples
from lessbits.datasets.tables import table_format
from lessbits.errors import InputError

NODE = "{node}"  # in the name of a data file, stands for the number of the node


@dataclass(frozen=True)
class Shards:
    """The samples of the nodes of this process, and the classes of all nodes."""

    samples: list[Samples]
    classes: np.ndarray  # the labels of all nodes, sorted

    def targets(self, problem: str) -> list[np.ndarray]:
        """Return the targets of each node: the labels, ±1 for logistic regression, or class indices."""
        if problem == "least-squares":
            if self.samples[0].classes is not None:
                raise InputError(
                    f"the labels of the files are text, such as {self.samples[0].classes[0]!r}, but least squares "
                    "needs numbers: take logistic or softmax"
                )
            return [part.labels for part in self.samples]
        # A node may have samples of one class only, so classes are those of all nodes.
        return [part.with_classes(self.classes, binary=problem == "logistic") for part in self.samples]


def count_shards(pattern: str) -> int:
    """Return how many files there are, counted from node 0."""
    return next(node for node in itertools.count() if not os.path.isfile(pattern.replace(NODE, str(node))))


def load_shards(
    pattern: str,
    nodes: Sequence[int],
    features: int | None,
    team: Team,
    normalize: bool = False,
    target: str | None = None,
    ignore: Sequence[str] = (),
    classes: bool = True,
) -> Shards:
    """Load the files of these nodes. `{node}` in the pattern stands for the number of the node.

    Args:
        pattern: Name of the files.
        nodes: The nodes that this process holds.
        features: The number of features, if libsvm files do not use all of them.
        team: The processes that hold all nodes.
        normalize: Whether to scale every row to length 1.
        target: The column to predict, of CSV or Parquet files.
        ignore: Columns that are not used.
        classes: Whether labels are classes. Other labels are not told to other processes.
    """
    from scipy import sparse

    files = [pattern.replace(NODE, str(node)) for node in nodes]
    for node, file in zip(nodes, files, strict=True):
        if not os.path.isfile(file):
            raise InputError(f"there is no file {file!r}, which node {node} needs: {pattern!r} names one for each node")
    samples = [load_samples(file, features, download=False, target=target, ignore=ignore) for file in files]
    if normalize:
        samples = [part.normalized_rows() for part in samples]
    if len({sparse.issparse(part.features) for part in samples}) > 1:
        raise InputError(f"the files {pattern} are of several kinds: make all of them libsvm files")
    # A file may not use the last features, so all get the width of the widest.
    widths = team.all_gather(np.array([part.dim for part in samples]))
    samples = [_widen(part, int(widths.max())) for part in samples]
    if table_format(pattern) is not None:
        samples = _same_names(samples, team)
    if not classes:
        return Shards(samples, np.zeros(0))
    labels = team.all_gather(np.unique(np.concatenate([part.labels for part in samples])))
    return Shards(samples, np.unique(labels))


def _same_names(samples: list[Samples], team: Team) -> list[Samples]:
    """Return tables with columns in one order, and with labels that count in one list of names, if they are text."""
    columns = _gather_names(team, samples[0].columns or ())[: samples[0].dim]
    samples = [part.with_columns(tuple(columns)) for part in samples]
    if not team.all_gather(np.array([part.classes is not None for part in samples])).any():
        return samples
    names = _gather_names(team, [name for part in samples for name in part.classes or ()])
    return [part.with_class_names(tuple(sorted(set(names)))) for part in samples]


def _gather_names(team: Team, names: Sequence[str]) -> list[str]:
    """Return the names of all processes, in their order."""
    lines = "".join(f"{json.dumps(name)}\n" for name in names)  # JSON has no line breaks within a text
    joined = team.all_gather(np.frombuffer(lines.encode(), np.uint8)).tobytes().decode()
    return [json.loads(line) for line in joined.splitlines()]


def _widen(samples: Samples, width: int) -> Samples:
    from scipy import sparse

    if samples.dim == width:
        return samples
    if not sparse.issparse(samples.features):
        raise InputError(
            f"data set {samples.name!r} has {samples.dim} features, but another node has {width}: make the columns of "
            "all files agree"
        )
    rows: sparse.csr_matrix = samples.features
    wide = sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(samples.count, width))
    return replace(samples, features=wide)
