"""Random combinations of network, problem and target, for `python benchmarks/defaults`."""

from functools import cache
from pathlib import Path

import networkx
import numpy as np

from lessbits import LeastSquares, load_samples, make_network, make_problem
from lessbits.datasets import Samples

NETWORKS = ("geometric", "barbell", "random-regular:4", "watts-strogatz:4:0.2", "tree", "ring", "star")
PROBLEMS = ("ridge", "shared ridge", "heterogeneous ridge", "logistic", "logistic", "softmax")
BINARY = ("a9a", "mushrooms", "w1a", "w8a")
ROWS = 800  # of a data set: all runs of a case take about a minute
# Like those of which an audit found that they need many times the bits of tuned step sizes: numbers -3 to -1.
AUDITED = (
    {"network": "random-regular:4", "nodes": 20, "problem": "ridge", "condition": 100.0, "dim": 50},
    {"network": "ring", "nodes": 20, "problem": "heterogeneous ridge", "condition": 1000.0, "dim": 50},
    {"network": "ring", "nodes": 20, "problem": "logistic", "condition": 1937.0, "data": "a9a", "split": "iid"},
)


def draw_case(seed: int) -> dict:
    """Return a case: the same for the same seed."""
    if seed < 0:
        return {"seed": seed, **AUDITED[seed], "goal": "error", "target": 1e-6, "quantizer": "dit-4"}
    draw = np.random.default_rng([23, seed])
    kind = PROBLEMS[draw.integers(len(PROBLEMS))]
    case = {
        "seed": seed,
        "network": NETWORKS[draw.integers(len(NETWORKS))],
        "nodes": int(draw.integers(8, 31)),
        "problem": kind,
        "condition": float(f"{10 ** draw.uniform(1, 4):.3g}"),
        "goal": ("error", "suboptimality")[draw.integers(2)],
        "target": float(f"{10 ** draw.uniform(-8, -2):.2g}"),  # of the goal at the start
        "quantizer": ("dit-3", "dit-4", "dit-5")[draw.integers(3)],
    }
    if kind.endswith("ridge"):
        return {**case, "dim": int(draw.integers(20, 101))}
    data = "digits" if kind == "softmax" and draw.integers(2) else "fashion" if kind == "softmax" else None
    return {
        **case,
        "data": data or BINARY[draw.integers(len(BINARY))],
        "split": ("iid", "sorted", "dirichlet:0.3")[draw.integers(3)],
    }


def make_parts(case: dict, data: Path):
    """Return the problem and the network of a case."""
    return _problem(case, data), _network(case)


def _network(case):
    if case["network"] == "tree":
        return make_network(networkx.random_labeled_tree(case["nodes"], seed=case["seed"]))
    return make_network(case["network"], case["nodes"], seed=abs(case["seed"]))


def _problem(case, data):
    nodes, seed, condition = case["nodes"], abs(case["seed"]), case["condition"]
    if case["problem"] == "ridge":
        return LeastSquares.random(nodes, case["dim"], condition=condition, seed=seed)
    if case["problem"].endswith("ridge"):
        return _ridge(case)
    samples = _samples(case["data"], data)
    loss = case["problem"]
    unit = make_problem(loss, samples, nodes, split=case["split"], regularization=1.0, seed=seed)
    curved = unit.smoothness - 1  # of the data
    return make_problem(loss, samples, nodes, split=case["split"], regularization=curved / (condition - 1), seed=seed)


def _ridge(case):
    """Nodes share their eigenvectors, or have scales and eigenvectors of their own, and minimisers far apart."""
    nodes, dim, shared = case["nodes"], case["dim"], case["problem"].startswith("shared")
    draw = np.random.default_rng([abs(case["seed"]), 1])
    spectrum = np.geomspace(1 / case["condition"], 1.0, dim)
    frame = np.linalg.qr(draw.normal(size=(dim, dim)))[0]
    features, targets = [], []
    for _ in range(nodes):
        own = frame if shared else np.linalg.qr(draw.normal(size=(dim, dim)))[0]
        scale = 1.0 if shared else 10 ** draw.uniform(-1, 0)
        exponent = 1.0 if shared else draw.uniform(0.2, 1)
        left = np.linalg.qr(draw.normal(size=(dim, dim)))[0]
        rows = np.sqrt(dim * scale) * (left * spectrum ** (exponent / 2)) @ own.T
        point = draw.normal(size=dim) * (1 if shared else 3)
        features.append(rows)
        targets.append(rows @ point + draw.normal(size=dim))
    return LeastSquares.from_parts(features, targets, 0.0)


@cache
def _samples(name, folder):
    """Return some rows of a data set, each of length 1."""
    if name == "fashion":
        return _fashion(folder)
    samples = load_samples(name) if name == "digits" else load_samples(next(Path(folder).glob(f"{name}.*")))
    keep = np.sort(np.random.default_rng(0).permutation(len(samples.labels))[:ROWS])
    rows = samples.features[keep]
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return Samples(rows[:, rows.any(axis=0)], samples.labels[keep], name=name).normalized_rows()


def _fashion(folder):
    """Return images of 7 by 7 numbers, the means of 4 by 4 pixels."""
    import gzip

    place = Path(folder) / "fashion-mnist"
    images, labels = (next(place.glob(f"train-{kind}*")) for kind in ("images", "labels"))
    read = {file: gzip.decompress(file.read_bytes()) for file in (images, labels)}
    pixels = np.frombuffer(read[images], np.uint8, offset=16, count=ROWS * 784).reshape(ROWS, 7, 4, 7, 4)
    numbers = np.frombuffer(read[labels], np.uint8, offset=8, count=ROWS)
    return Samples(pixels.mean(axis=(2, 4)).reshape(ROWS, 49), numbers, name="fashion").normalized_rows()
