"""Logistic regression against SciPy's sparse products, and with one sample per iteration."""

import jax
import numpy as np
import scipy.sparse as sparse
from timing import compare, our_run, timed

from lessbits import InputError, Settings, make_method
from lessbits.config.build import build_parts
from lessbits.datasets import load_samples

NODES = 16


def parts(w8a):
    """The problem and the network."""
    settings = Settings(problem="logistic", data=w8a, features=300, nodes=NODES, network="ring", split="iid")
    return build_parts(settings)[:2]


def logistic(told):
    """Logistic regression on w8a, 16 nodes, full batch: the gradient of all nodes, and an iteration, against SciPy"""
    try:
        problem, network = parts(told.w8a)
    except InputError as error:
        return [{"program": f"skipped: {error}"}]
    loaded = load_samples(told.w8a, 300)
    method = make_method("primal-dual", problem, network, "dit-5", messages="broadcast", theta=1e-3, eta=1.0, alpha=0.5)
    x = np.random.default_rng(0).normal(size=(NODES, 300))
    gradient, ours = jax.jit(lambda problem, x: problem.gradient(x)), jax.numpy.asarray(x)
    gradient(problem, ours).block_until_ready()
    # Nodes beside each other in one matrix, as a good programmer has it: both products at once for all.
    rows = np.array_split(np.arange(loaded.features.shape[0]), NODES)
    blocks = sparse.block_diag([loaded.features[part] for part in rows], format="csr")
    back, signs = blocks.T.tocsr(), np.asarray(loaded.labels)

    def scipy_gradient():
        margins = signs * (blocks @ x.ravel())
        return back @ (-signs / (1 + np.exp(margins)))

    found = compare(
        {
            "our gradient": timed(lambda: gradient(problem, ours).block_until_ready()),
            "our iteration, broadcast dit-5": our_run(problem, network, method, 100),
            "SciPy's gradient": timed(scipy_gradient),
        }
    )
    theirs = found["SciPy's gradient"]
    return [{"program": name, "ms": 1e3 * value, "times SciPy's": value / theirs} for name, value in found.items()]


def stochastic(told):
    """One sample per iteration: logistic regression, 16 nodes, d = 300 (w8a), dit-5, ring"""
    try:
        problem, network = parts(told.w8a)
    except InputError as error:
        return [{"program": f"skipped: {error}"}]
    runs = {}
    for option in ("C", "D"):
        for messages in ("broadcast", "independent"):
            sizes = {"theta": 1e-3, "eta": 0.1, "alpha": 0.5}
            method = make_method(
                "primal-dual", problem, network, "dit-5", option=option, messages=messages, batch_size=1, **sizes
            )
            runs[f"option {option}, {messages}"] = our_run(problem, network, method, 10_000, 1000)
    found = compare(runs, rounds=5)
    return [{"program": name, "µs": 1e6 * seconds} for name, seconds in found.items()]
