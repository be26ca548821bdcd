"""Consensus against plain NumPy and against peers."""

import time

import numpy as np
import plain
from peers import peer_runs
from timing import compare, our_run

from lessbits import Consensus, make_method, make_network

NODES, DIM = 100, 250
SIZES = {"theta": 0.1, "eta": 0.5, "alpha": 0.5}
METHODS = ("broadcast", "edge", "independent", "exact", "lead", "choco")
NETWORKS = {
    "ring": "ring",
    "star": "star",
    "torus": "torus:10x10",
    "4-regular": "random-regular:4",
    "erdos-renyi 0.2": "erdos-renyi:0.2",
    "complete": "complete",
}


def make(problem, network, name, **sizes):
    """Return a method by its short name, with the step sizes that plain NumPy has unless others are given."""
    if name == "lead":
        return make_method("lead", problem, network, "dit-5", gamma=0.1, eta=0.5, alpha=0.5)
    if name == "choco":
        return make_method("choco", problem, network, "dit-5", gamma=0.1, eta=0.5, alpha=1.0, decay=0.0)
    if name == "exact":
        return make_method("primal-dual", problem, network, "exact", **SIZES)
    return make_method("primal-dual", problem, network, "dit-5", messages=name, **{**SIZES, **sizes})


def plain_run(problem, network, name, iterations, record_every=10):
    """The same in plain NumPy."""
    vectors = np.asarray(problem.vectors)
    solution, start = vectors.mean(axis=0), np.zeros_like(vectors)
    step = plain.make_step(network, name)

    def run():
        clock = time.perf_counter()
        plain.run(step, lambda x: x - vectors, start, solution, iterations, record_every)
        return (time.perf_counter() - clock) / iterations

    return run


def iteration(told):
    """An iteration of consensus: ring of 100 nodes, d = 250, dit-5, float64, metrics every 10 iterations"""
    problem, network = Consensus.random(NODES, DIM), make_network("ring", NODES)
    runs, ours = {}, {}
    for name in METHODS:
        ours[name] = our_run(problem, network, make(problem, network, name), 10_000)
        runs[name], runs[f"{name}, NumPy"] = ours[name], plain_run(problem, network, name, 500)
    runs["without metrics"] = our_run(problem, network, make(problem, network, "broadcast"), 10_000, 10_000)
    more, missing = peer_runs(NODES, DIM, 50)
    found = compare(runs)
    beside = compare(
        {"broadcast": ours["broadcast"], **more}
    )  # apart: some keep a processor busy after they have ended
    rows = []
    for name in METHODS:
        row = {"program": name, "µs": 1e6 * found[name]}
        row["times faster than NumPy"] = found[f"{name}, NumPy"] / found[name]
        rows.append({**row, "NumPy µs": 1e6 * found[f"{name}, NumPy"], "compile s": ours[name].compile_seconds})
    rows.append({"program": "broadcast, metrics at the end alone", "µs": 1e6 * found["without metrics"]})
    for name in more:
        rows.append({"program": name, "µs": 1e6 * beside[name], "times broadcast": beside[name] / beside["broadcast"]})
    return rows + [{"program": f"{name}: skipped, {why}"} for name, why in missing.items()]


def networks(told):
    """An iteration on networks of 100 nodes, d = 250, dit-5: µs, and how many times faster than NumPy"""
    rows = []
    for shown, spelling in NETWORKS.items():
        problem, network = Consensus.random(NODES, DIM), make_network(spelling, NODES, seed=0)
        count = max(200, 400_000 // network.links)
        runs = {}
        for name in METHODS:
            runs[name] = our_run(problem, network, make(problem, network, name), count)
            runs[f"{name}, NumPy"] = plain_run(problem, network, name, max(100, count // 20))
        found = compare(runs, rounds=5)
        row = {"network": shown, "links": network.links}
        for name in METHODS:
            row[name] = f"{1e6 * found[name]:.0f} ({found[f'{name}, NumPy'] / found[name]:.1f} ×)"
        rows.append(row)
    return rows
