"""The two problems that are solved over slow links: what each site holds, the links, and the optimum."""

import gzip
import hashlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from losses import Loss, minimum

SITES = 4
RANDOM_FEATURES = 10_000


@dataclass(frozen=True)
class Task:
    """A problem, and the links over which it is solved.

    Attributes:
        name: A short name.
        title: What it is, for people.
        kind: The kind of its loss.
        parts: Features and labels of each site.
        regularization: λ.
        rate: Bits per second of each site's uplink.
        quantizer: What the quantized rows use.
        classes: The number of classes; 1 unless the loss is softmax.
    """

    name: str
    title: str
    kind: str
    parts: list
    regularization: float
    rate: float
    quantizer: str
    classes: int = 1

    def loss(self, part=None):
        """Return the loss of one site's rows, or of all rows."""
        if part is not None:
            features, labels = self.parts[part]
        else:
            features, labels = (
                _stacked([rows for rows, _ in self.parts]),
                np.concatenate([each for _, each in self.parts]),
            )
        return Loss(self.kind, features, labels, self.regularization, self.classes)

    def optimum(self, folder):
        """Return the least loss of all rows; it is kept in a folder, as it takes a while."""
        pooled = self.loss()
        mark = hashlib.blake2b(np.concatenate([labels for _, labels in self.parts]).astype(float).tobytes())
        mark.update(
            repr((self.name, pooled.features.shape, float(pooled.features.sum()), self.regularization)).encode()
        )
        file = Path(folder) / f"optimum-{mark.hexdigest()[:12]}.txt"
        if not file.exists():
            file.write_text(repr(minimum(pooled)))
        return float(file.read_text())

    def write(self, folder):
        """Write the rows of each site to files, for the command line and for NumPy; return both lists of files."""
        from scipy.sparse import csr_matrix, save_npz
        from sklearn.datasets import dump_svmlight_file

        ours, plain = [], []
        for number, (features, labels) in enumerate(self.parts):
            plain.append(Path(folder) / f"plain-{number}.npz")
            if isinstance(features, np.ndarray):
                ours.append(Path(folder) / f"rows-{number}.npz")
                np.savez(ours[-1], features=features, labels=labels)
                np.savez(plain[-1], features=features, labels=labels)
            else:
                ours.append(Path(folder) / f"rows-{number}.libsvm")
                dump_svmlight_file(features, labels, str(ours[-1]), zero_based=False)
                save_npz(plain[-1], csr_matrix(features))
                np.save(plain[-1].with_suffix(".labels.npy"), labels)
        return ours, plain


def _stacked(parts):
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts).tocsr()


def _split(features, labels):
    """Give each site so many consecutive rows."""
    edges = np.linspace(0, len(labels), SITES + 1).astype(int)
    return [(features[a:b], labels[a:b]) for a, b in pairwise(edges)]


def fashion(folder, quick=False):
    """Softmax regression on random Fourier features of Fashion-MNIST: d = 100 000, at 10 Mbit/s."""
    rows = SITES * 250
    place = Path(folder) / "fashion-mnist"
    with gzip.open(place / "train-images-idx3-ubyte.gz") as stream:
        images = np.frombuffer(stream.read(16 + 784 * rows)[16:], np.uint8).reshape(rows, 784) / 255
    with gzip.open(place / "train-labels-idx1-ubyte.gz") as stream:
        labels = np.frombuffer(stream.read(8 + rows)[8:], np.uint8).astype(int)
    count = 1000 if quick else RANDOM_FEATURES
    generator = np.random.default_rng(0)
    directions, phases = generator.normal(size=(784, count)) / 8, generator.uniform(0, 2 * np.pi, count)
    features = np.cos(images @ directions + phases)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    title = f"softmax regression on {count} random Fourier features of Fashion-MNIST, d = {10 * count}"
    return Task("fashion", title, "softmax", _split(features, labels), 0.01, 10e6, "dit-7", 10)


def w8a(folder, quick=False):
    """Logistic regression on w8a: d = 300, at 50 kbit/s."""
    from lessbits import load_samples

    samples = load_samples(str(Path(folder) / "w8a.libsvm.xz")).normalized_rows()
    features, labels = samples.features, np.where(np.asarray(samples.labels) > 0, 1.0, -1.0)
    if quick:
        features, labels = features[:4000], labels[:4000]
    title = f"logistic regression on w8a, {features.shape[0]} rows, d = {features.shape[1]}"
    return Task("w8a", title, "logistic", _split(features, labels), 0.001, 50e3, "dit-4")


TASKS = {"fashion": fashion, "w8a": w8a}
