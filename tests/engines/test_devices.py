"""Nodes dealt to several devices: the same run, bit for bit."""

import os
import subprocess
import sys

import pytest

from lessbits import Consensus, InputError, make_method, make_network, simulate
from lessbits.engines.simulate.devices import choose_devices

COMPARE = """
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
from lessbits import (
    Consensus, EdgeDual, Event, Faults, LeastSquares, make_method, make_network, make_quantizer, simulate
)

assert len(jax.devices()) == 8
for problem, network, method, sizes in (
    (Consensus.random(16, 30), "ring", {"messages": "broadcast"}, {"theta": 0.1}),
    (LeastSquares.random(24, 10), "star", {"messages": "independent", "option": "D"}, {"theta": 0.02}),
):
    network = make_network(network, problem.nodes)
    made = make_method("primal-dual", problem, network, "dit-4", eta=0.1, alpha=0.3, **method, **sizes)
    one, eight = (simulate(problem, network, made, iterations=40, record_every=7, devices=count) for count in (1, 8))
    assert np.array_equal(one.x, eight.x)
    for name in one.columns:
        assert name == "seconds" or np.array_equal(one[name], eight[name]), name

problem, network = LeastSquares.random(16, 10, condition=5.0), make_network("ring", 16)
events = [Event(10, "crash", node=3), Event(20, "join", node=3), Event(20, "fail", link=(7, 8))]
faults = Faults(drop=0.3, delay=(1, 3), part=0.9, events=events, start="neighbour")
method = EdgeDual(0.2, 0.3, 0.3, 2.0, make_quantizer("dit-4", 10))
one, eight = (
    simulate(problem, network, method, iterations=40, record_every=7, devices=count, faults=faults) for count in (1, 8)
)
assert np.array_equal(one.x, eight.x)
assert np.array_equal(one["error"], eight["error"])
assert np.array_equal(one["wire_bits_per_link"], eight["wire_bits_per_link"])
print("the same")
"""


@pytest.mark.slow
def test_eight_devices_are_one_bit_for_bit():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    ended = subprocess.run([sys.executable, "-c", COMPARE], capture_output=True, text=True, env=environment)
    assert ended.stdout.strip() == "the same", ended.stderr


def test_small_problems_stay_on_one_device(monkeypatch):
    monkeypatch.setattr("jax.local_devices", lambda: list(range(8)))
    assert choose_devices(None, nodes=100, dim=250) == 1
    assert choose_devices(None, nodes=1000, dim=300_000) == 8
    assert choose_devices(None, nodes=1001, dim=300_000) == 7  # nodes are dealt equally


def test_devices_that_cannot_be_are_refused(monkeypatch):
    problem, network = Consensus.random(10, 3), make_network("ring", 10)
    method = make_method("primal-dual", problem, network, "exact", theta=0.1, eta=0.5)
    with pytest.raises(InputError, match="devices is 100, but there are"):
        simulate(problem, network, method, iterations=5, devices=100)
    monkeypatch.setattr("jax.local_devices", lambda: list(range(8)))
    with pytest.raises(InputError, match="10 nodes cannot be dealt to them equally"):
        choose_devices(4, nodes=10, dim=3)
