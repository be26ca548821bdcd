"""Times on a GPU: small, many at once, large, the paper's Table 3, and a million nodes.

    python benchmarks/gpu [SECTION …] [--out FOLDER]

Writes FOLDER/gpu.json and FOLDER/gpu.md. This runs what `make bench` runs, in sizes that a GPU is for. Compiling is
apart.
"""

import math
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "speed"))

from consensus import make
from size import STEADY
from timing import compare, copy_run, our_run, run_sections

from lessbits import Consensus, make_network
from lessbits.engines.simulate.sweep import Budget, SweepOptions, sweep
from lessbits.experiments.paper import DIM, NODES, TABLE_3
from lessbits.experiments.table3 import tune_cell

LANES = 128


def both(section):
    """Run a section in float32 and in float64."""

    def run(told):
        rows = []
        for bits in (32, 64):
            jax.config.update("jax_enable_x64", bits == 64)
            rows += [{"precision": bits, **row} for row in section(told)]
        return rows

    run.__name__, run.__doc__ = section.__name__, section.__doc__
    return run


@both
def small(told):
    """Consensus, 100 nodes, d = 250, dit-5, metrics every 10 iterations"""
    rows = []
    for spelling, messages in (("ring", "broadcast"), ("ring", "edge"), ("ring", "independent"), ("star", "broadcast")):
        problem, network = Consensus.random(NODES, DIM), make_network(spelling, NODES)
        run = our_run(problem, network, make(problem, network, messages, theta=0.01), 20_000)
        seconds = compare({"run": run}, rounds=3)["run"]
        row = {"network": spelling, "messages": messages, "µs per iteration": 1e6 * seconds}
        rows.append({**row, "seconds to compile": run.compile_seconds})
    return rows


@both
def lanes(told):
    """128 step sizes at once: consensus, ring of 100 nodes, d = 250, dit-5, broadcast, metrics every 10 iterations"""
    problem, network = Consensus.random(NODES, DIM), make_network("ring", NODES)
    method = make(problem, network, "broadcast")
    sizes = [{"theta": float(theta)} for theta in np.geomspace(0.001, 0.1, LANES)]

    def run(iterations):
        clock = time.perf_counter()
        sweep(problem, network, method, sizes, Budget(iterations), SweepOptions(record_every=10))
        return time.perf_counter() - clock

    first = run(10)
    # What starting takes falls out.
    short, long = (compare({"run": partial(run, iterations)}, rounds=3)["run"] for iterations in (2000, 12_000))
    return [{"µs per iteration, for all": 1e6 * (long - short) / 10_000, "seconds of the first": first}]


def large(told):
    """Bandwidth: consensus, ring of 1000 nodes, d = 300 000, float32, dit-5, broadcast, metrics every 50 iterations"""
    jax.config.update("jax_enable_x64", False)
    bandwidth = 1 / compare({"copy": copy_run(4096)})["copy"]
    nodes, dim = 1000, 300_000
    network = make_network("ring", nodes)
    problem = Consensus.make(jax.random.normal(jax.random.key(0), (nodes, dim)))
    method = make(problem, network, "broadcast", **STEADY)
    seconds = compare({"run": our_run(problem, network, method, 200, 50)}, rounds=3)["run"]
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    rows = []
    # Arrays of float32: x, z, h, g and what rounding took from h and g, each read and written, and c, read; levels of
    # one byte, written and read. A quantizer needs the norm first, so x - h is read twice: x, h and h's rest once more,
    # and x is written and read between.
    for counted, size in (("each array once", 13 * 4 + 2), ("the difference again after its norm", 17 * 4 + 2)):
        moved = size * nodes * dim
        row = {"bytes that must move": counted, "bytes": f"{moved:,}", "ms per iteration": 1e3 * seconds}
        row |= {"TB/s": moved / seconds / 1e12, "copy TB/s": bandwidth / 1e12, "share": moved / seconds / bandwidth}
        rows.append({**row, "peak GB": peak / 1e9})
    return rows


def table3(told):
    """The whole tuning of the paper's Table 3, with compiling and without, float64"""
    jax.config.update("jax_enable_x64", True)
    rows = []
    for title in ("with compiling", "again, compiled"):
        clock, cells, iterations = time.perf_counter(), 0, 0
        for network, names in TABLE_3.items():
            guess = 0.0
            for name in names:
                found = tune_cell(NODES, DIM, network, name, guess)
                guess = math.log10(found["theta"])
                cells, iterations = cells + 1, iterations + found["iterations"]
        row = {"cells": cells, "iterations of the best": f"{iterations:,}"}
        rows.append({"run": title, **row, "seconds": time.perf_counter() - clock})
    return rows


def million(told):
    """A million nodes: consensus on a torus of 1000 × 1000, d = 64, float32, dit-5, broadcast"""
    jax.config.update("jax_enable_x64", False)
    nodes, dim = 10**6, 64
    clock = time.perf_counter()
    network = make_network("torus:1000x1000", nodes)
    making = time.perf_counter() - clock
    problem = Consensus.make(jnp.asarray(jax.random.normal(jax.random.key(0), (nodes, dim))))
    run = our_run(problem, network, make(problem, network, "broadcast", **STEADY), 200, 50)
    seconds = compare({"run": run}, rounds=3)["run"]
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    row = {"ms per iteration": 1e3 * seconds, "seconds to make the network": making}
    return [{**row, "seconds to compile": run.compile_seconds, "peak GB": peak / 1e9}]


if __name__ == "__main__":
    run_sections("gpu", Path(__file__).parent, __doc__, (small, lanes, large, million, table3))
