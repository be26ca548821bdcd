"""Tuning: many step sizes side by side against one after the other."""

import numpy as np
from consensus import make
from timing import compare, timed

from lessbits import Consensus, make_network
from lessbits.engines.simulate.sweep import Budget, SweepOptions, sweep

NODES, DIM, RUNS, ITERATIONS = 100, 250, 8, 3000


def tuning(told):
    """Tuning: 8 values of θ of broadcast messages, dit-5, ring of 100, d = 250, 3000 iterations each"""
    problem, network = Consensus.random(NODES, DIM), make_network("ring", NODES)
    method = make(problem, network, "broadcast")
    configurations = [{"theta": float(theta)} for theta in np.geomspace(0.01, 0.1, RUNS)]
    budget = Budget(ITERATIONS)

    def one_by_one():
        for sizes in configurations:
            sweep(problem, network, method, [sizes], budget, SweepOptions(record_every=10))

    def together(width=None):
        sweep(problem, network, method, configurations, budget, SweepOptions(record_every=10, width=width))

    ways = {
        "one after the other": one_by_one,
        "as tune does": together,
        "lanes of one program, 2 wide": lambda: together(2),
        "lanes of one program, 8 wide": lambda: together(8),
    }
    for way in ways.values():
        way()  # compile
    found = compare({name: timed(way) for name, way in ways.items()}, rounds=3)
    alone = found["one after the other"]
    return [{"how": name, "s": value, "times faster": alone / value} for name, value in found.items()]
