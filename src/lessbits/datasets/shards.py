"""Data in one file per node, which only the process of that node reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lessbits._internal.team import Team
from lessbits.datasets.samples import Samples, load_samples
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
            return [part.labels for part in self.samples]
        # A node may have samples of one class only, so classes are those of all nodes.
        return [part.with_classes(self.classes, binary=problem == "logistic") for part in self.samples]


def load_shards(
    pattern: str, nodes: Sequence[int], features: int | None, team: Team, normalize: bool = False
) -> Shards:
    """Load the files of these nodes. `{node}` in the pattern stands for the number of the node."""
    from scipy import sparse

    files = [pattern.replace(NODE, str(node)) for node in nodes]
    for node, file in zip(nodes, files, strict=True):
        if not Path(file).is_file():
            raise InputError(f"there is no file {file!r}, which node {node} needs: {pattern!r} names one for each node")
    samples = [load_samples(file, features, download=False) for file in files]
    if normalize:
        samples = [part.normalized_rows() for part in samples]
    if len({sparse.issparse(part.features) for part in samples}) > 1:
        raise InputError(f"the files {pattern} are of several kinds: make all of them libsvm files")
    # A file may not use the last features, so all get the width of the widest.
    widths = team.all_gather(np.array([part.dim for part in samples]))
    samples = [_widen(part, int(widths.max())) for part in samples]
    labels = team.all_gather(np.unique(np.concatenate([part.labels for part in samples])))
    return Shards(samples, np.unique(labels))


def _widen(samples: Samples, width: int) -> Samples:
    from scipy import sparse

    if samples.dim == width:
        return samples
    rows: sparse.csr_matrix = samples.features
    wide = sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(samples.count, width))
    return Samples(wide, samples.labels, samples.name)
