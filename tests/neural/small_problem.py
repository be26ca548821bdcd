"""A small problem for the simulator: a network of one hidden layer on samples of three classes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lessbits.datasets import split_labels
from lessbits.neural import Metric, NeuralProblem

NODES = 4


def init(key):
    first, second = jax.random.split(key)
    return {
        "bias": jnp.zeros(8, jnp.float32),
        "hidden": jax.random.normal(first, (6, 8), jnp.float32),
        "out": jax.random.normal(second, (8, 3), jnp.float32),
    }


def logits(params, inputs):
    return jnp.tanh(inputs @ params["hidden"] + params["bias"][None]) @ params["out"]


def loss(params, batch):
    inputs, labels = batch
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits(params, inputs), labels))


def accuracy(params, batch):
    inputs, labels = batch
    return jnp.mean((jax.lax.argmax(logits(params, inputs), 1, jnp.int32) == labels).astype(jnp.float32))


def make_problem(nodes=NODES, concentration=0.1):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(300, 6)).astype(np.float32)
    labels = np.argmax(inputs @ random.normal(size=(6, 3)), axis=1).astype(np.int32)
    shards = split_labels(labels, nodes, concentration)
    metrics = {"loss": Metric(loss, (inputs, labels)), "accuracy": Metric(accuracy, (inputs, labels), larger=True)}
    return NeuralProblem(init, loss, (inputs, labels), shards, batch=8, metrics=metrics)
