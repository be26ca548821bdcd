"""Sensors agree on an average over radio links with a limited number of bits.

Thirty sensors in a field exchange messages with those nearby. Each has measured 20 quantities with some noise, and they
want the mean of all measurements. A battery allows 4 kbit per link. How close do they get with each kind of message?
"""

import argparse

import jax
import networkx
import numpy as np

import lessbits

jax.config.update("jax_enable_x64", True)

BUDGET = 4000  # bits per link


def main(quick: bool) -> dict[str, lessbits.Trace]:
    """Spend the budget with each kind of message, print what error is left, and return the runs."""
    sensors, quantities = (12, 10) if quick else (30, 20)
    field = networkx.random_geometric_graph(sensors, 0.6 if quick else 0.35, seed=4)
    network = lessbits.make_network(field)
    truth = np.random.default_rng(0).normal(size=quantities)
    measured = truth + np.random.default_rng(1).normal(size=(sensors, quantities))
    problem = lessbits.Consensus.make(measured)
    print(f"{sensors} sensors, {network.edges} edges, {BUDGET} bits for each link")
    traces = {}
    for name, quantizer in (("primal-dual", "exact"), ("primal-dual", "dit-4"), ("lead", "dit-4"), ("tree", "grid:10")):
        method = lessbits.make_method(name, problem, network, quantizer, stepsizes="practical")
        trace = lessbits.simulate(problem, network, method, iterations=400, until=1e-20, record_every=1)
        traces[f"{name} with {quantizer}"] = trace
        within = trace["wire_bits_per_link"] <= BUDGET
        error = float(trace["error"][within][-1])
        print(f"{name:>12} {quantizer:>8}: error {error:8.1e} after {within.sum() - 1:3d} exchanges")
    return traces


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sensors")
    parser.add_argument("--plot", metavar="FILE", help="write a plot of the runs to this file")
    given = parser.parse_args()
    traces = main(given.quick)
    if given.plot:
        for label, trace in traces.items():
            axis = trace.plot("wire_bits_per_link", label=label)
        axis.legend()
        axis.figure.savefig(given.plot)
