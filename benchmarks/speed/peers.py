"""Peers that install from the package index, on consensus over a ring: seconds per iteration, or why not."""

import contextlib
import io
from types import SimpleNamespace

import numpy as np
from timing import timed


def tvopt_run(nodes, dim, iterations):
    """Average consensus with uniformly quantized messages; no metrics."""
    from tvopt import networks
    from tvopt.distributed_solvers import average_consensus

    network = networks.QuantizedNetwork(networks.circle_graph(nodes), 0.1)
    start = np.random.default_rng(0).normal(size=(dim, 1, nodes))
    return timed(lambda: average_consensus(network, start, iterations), iterations)


def decopt_run(nodes, dim, iterations):
    """Gossip with compressed differences and dithering, as `DecGD` does it; the gradient and the loss are nothing."""
    from dec_opt.dec_gd import DecGD

    class NoModel:
        """Averages alone."""

        def loss(self, samples, labels):
            return 0.0

        def lr(self, **told):
            return 1.0

        def get_grad(self, **told):
            return 0.0

    data = SimpleNamespace(
        A_train=np.zeros((nodes, dim)), y_train=np.zeros(nodes), A_test=np.zeros((1, dim)), y_test=np.zeros(1)
    )
    told = SimpleNamespace(
        topology="ring",
        n_cores=nodes,
        num_bits=4,
        quantization_function="qsgd",
        dropout_p=None,
        fraction_coordinates=None,
        epochs=iterations,
        seed=0,
        stochastic=False,
        algorithm="ours",
        Q=1,
        consensus_lr=0.1,
    )

    def run():
        with contextlib.redirect_stdout(io.StringIO()):  # it prints each iteration
            DecGD(data, told, NoModel())

    return timed(run, iterations)


PEERS = {"tvopt": tvopt_run, "decopt": decopt_run}


def peer_runs(nodes, dim, iterations):
    """Those that are installed, and reasons for the others."""
    runs, missing = {}, {}
    for name, make in PEERS.items():
        try:
            runs[name] = make(nodes, dim, iterations)
            runs[name]()
        except Exception as error:  # whatever is wrong with a peer, we go on without it
            runs.pop(name, None)
            missing[name] = f"{type(error).__name__}: {error}"
    return runs, missing
