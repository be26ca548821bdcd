"""Accuracy against bytes on Fashion-MNIST: a small convolutional network on 16 nodes, all methods of `lessbits.neural`.

    python benchmarks/neural/fashion.py --data FOLDER --seconds 3600 --processes 8 --results fashion.jsonl
    python benchmarks/neural/fashion.py --summary fashion.jsonl

Every method has the same number of configurations, those of `fashion_methods.py`. `rounds.py` says in which order they
are run.
"""

import gzip
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from fashion_methods import ROUNDS, optimizers
from rounds import Study, main

from lessbits import make_network
from lessbits.datasets import split_labels
from lessbits.neural import Metric, NeuralProblem

SPLITS = {"dirichlet 0.1": 0.1, "identical": 1e6}
CHUNK = 100  # test samples that are judged at once
SCALE = {"nodes": 16, "steps": 1500, "batch": 16, "samples": 60_000, "held_out": 4_000, "width": 8, "records": 25}


@cache
def read_images(folder, part, count):
    """Return the patches of images that the first layer takes, made once for all runs, and the labels."""
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28, 1)[:count]
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8)[:count]
    found = patches(np, images / np.float32(255) - np.float32(0.3))
    return jnp.asarray(found), jnp.asarray(labels.astype(np.int32))


def read_idx(path, offset):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=offset)


def patches(numpy, images):
    """Return the patches of a 3 × 3 convolution with stride 2 of images of even size.

    It is one product with all patches then: on a CPU 15 to 30 times faster than XLA's own with so few channels.
    """
    half = images.shape[1] // 2
    images = numpy.pad(images, ((0, 0), (0, 1), (0, 1), (0, 0)))
    parts = [images[:, i : i + 2 * half : 2, j : j + 2 * half : 2] for i in range(3) for j in range(3)]
    return numpy.concatenate(parts, -1)


def make_problem(given, concentration, seed):
    """Return the network, the samples dealt to nodes, and the accuracy on the test samples; made once."""
    sizes = given.samples, given.held_out, given.nodes, given.width, given.batch
    return _problem(given.data, *sizes, concentration, seed), make_network("ring", nodes=given.nodes)


@cache
def _problem(folder, samples, held_out, nodes, width, batch, concentration, seed):
    data, test = read_images(folder, "train", samples), read_images(folder, "t10k", held_out)

    def init(key):
        keys = jax.random.split(key, 3)
        shapes = {"first": (3, 3, 1, width), "second": (3, 3, width, 2 * width), "out": (7 * 7 * 2 * width, 10)}
        params = {}
        for each, (name, shape) in zip(keys, shapes.items(), strict=True):
            deviation = np.float32(np.sqrt(2 / np.prod(shape[:-1])))
            params[name] = deviation * jax.random.normal(each, shape, jnp.float32)
            params[f"{name}_bias"] = jnp.zeros(shape[-1], jnp.float32)
        return params

    def logits(params, images):
        x = images  # their patches
        for name in ("first", "second"):
            x = x if name == "first" else patches(jnp, x)
            x = jax.nn.relu(x @ params[name].reshape(-1, params[name].shape[-1]) + params[f"{name}_bias"])
        return x.reshape(len(x), -1) @ params["out"] + params["out_bias"]

    def loss(params, batch):
        images, labels = batch
        return optax.softmax_cross_entropy_with_integer_labels(logits(params, images), labels).mean()

    def accuracy(params, batch):
        def right(chunk):  # which the cache can hold
            images, labels = chunk
            return (logits(params, images).argmax(1) == labels).mean()

        return jax.lax.map(right, jax.tree.map(lambda each: each.reshape(-1, CHUNK, *each.shape[1:]), batch)).mean()

    shards = split_labels(np.asarray(data[1]), nodes, concentration, seed=seed)
    metrics = {"accuracy": Metric(accuracy, test, larger=True)}
    return NeuralProblem(init, loss, data, shards, batch=batch, metrics=metrics)


STUDY = Study(
    splits=SPLITS,
    rounds=ROUNDS,
    optimizers=optimizers,
    make_problem=make_problem,
    metric="accuracy",
    shares=(0.99, 0.97, 0.95, 0.9),
    goal=0.95,
    larger=True,
)

if __name__ == "__main__":
    main(STUDY, __doc__, SCALE, Path("fashion.jsonl"))
