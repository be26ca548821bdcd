"""Accuracy against bytes on Fashion-MNIST: a small convolutional network on 16 nodes, all methods of `lessbits.neural`.

    python benchmarks/neural/fashion.py --data FOLDER --seconds 3600 --processes 8 --results fashion.jsonl
    python benchmarks/neural/fashion.py --summary fashion.jsonl

Every method has the same number of configurations, those of `fashion_methods.py`. They are run in rounds, one of every
method, on one split. Then the configuration of each method that `fashion_table.py` chooses is run with other seeds, and
the other split follows. Runs that are in the results already are not repeated.
"""

import argparse
import gzip
import json
import multiprocessing
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from fashion_methods import OPTIMIZERS, ROUNDS
from fashion_table import chosen, print_summary

from lessbits import neural
from lessbits.datasets import split_labels
from lessbits.neural import Metric, NeuralProblem, SimulateOptions

SPLITS = {"dirichlet 0.1": 0.1, "identical": 1e6}
CHUNK = 100  # test samples that are judged at once
SCALE = ("nodes", "steps", "batch", "samples", "held_out", "width", "records")


class Job(NamedTuple):
    """A run: the number of a round, the split, the method's name in that round, and a seed."""

    round: int
    split: str
    method: str
    seed: int


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the four .gz files of Fashion-MNIST")
    parser.add_argument("--seconds", type=float, default=600.0, help="no run begins later than this")
    parser.add_argument("--processes", type=int, default=1, help="runs at the same time")
    parser.add_argument("--results", type=Path, default=Path("fashion.jsonl"), help="lines of JSON, one per run")
    parser.add_argument("--summary", type=Path, help="print the tables of these results, and run nothing")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--samples", type=int, default=60_000, help="training samples")
    parser.add_argument("--held-out", type=int, default=4_000, help="test samples")
    parser.add_argument("--width", type=int, default=8, help="channels of the first layer")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--records", type=int, default=25, help="evaluations in a run")
    parser.add_argument("--rounds", type=int, default=len(ROUNDS), help="configurations of each method")
    parser.add_argument("--seeds", type=int, default=3, help="of the configurations that are chosen")
    given = parser.parse_args()
    if given.summary is None:
        run_all(given)
    print_summary(given.summary or given.results)


def run_all(given):
    """Run what is not in the results yet: of each split all rounds, then other seeds of what was chosen."""
    deadline = time.time() + given.seconds
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for split in SPLITS:
            tried = [
                Job(number, split, method, 0)
                for number, methods in enumerate(ROUNDS[: given.rounds])
                for method in methods
            ]
            run_jobs(given, tried, pool, deadline)
            lines = read(given)
            if not missing(tried, lines):
                best = {method: chosen(lines, split, method) for method in ROUNDS[0]}
                again = [Job(best[each], split, each, seed) for seed in range(1, given.seeds) for each in best]
                run_jobs(given, again, pool, deadline)


def read(given):
    """Return the results at this scale."""
    if not given.results.is_file():
        return []
    lines = [json.loads(line) for line in given.results.read_text().splitlines()]
    return [line for line in lines if line["scale"] == {name: getattr(given, name) for name in SCALE}]


def missing(jobs, lines):
    done = {Job(*(line[name] for name in Job._fields)) for line in lines}
    return [job for job in jobs if job not in done]


def run_jobs(given, jobs, pool, deadline):
    """Run jobs in all processes, and write each result when it is there."""
    waiting = [(given, job, deadline) for job in missing(jobs, read(given))]
    for line in pool.imap_unordered(run_job, waiting):
        if line is not None:
            with given.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{line['split']}, {line['method']}, round {line['round']}: {line['seconds']:.0f} s", flush=True)


def run_job(work):
    """Return the line of a run, or None if it is too late to begin."""
    given, job, deadline = work
    if time.time() > deadline:
        return None
    method, began = ROUNDS[job.round][job.method], time.monotonic()
    options = SimulateOptions(max(1, given.steps // given.records))
    problem = make_problem(given, SPLITS[job.split], job.seed)
    trace = neural.simulate(problem, OPTIMIZERS[job.round], method, "ring", given.steps, job.seed, options)
    kept = {each: trace[each].tolist() for each in ("step", "bytes", "accuracy", "accuracy_worst")}
    line = {**job._asdict(), "scale": {name: getattr(given, name) for name in SCALE}, "settings": repr(method)}
    return line | {"device": jax.default_backend(), "seconds": time.monotonic() - began, "records": kept}


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
    return _problem(
        given.data, given.samples, given.held_out, given.nodes, given.width, given.batch, concentration, seed
    )


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


if __name__ == "__main__":
    main()
