"""Bits per link of `scheduled` on consensus, three seeds, with what its model expects; and with a wrong scale.

    python benchmarks/schedules.py [--dim 250] [--until 1e-3]

Bits are those of encoded bytes with headers, as in `benchmarks/bits`.
"""

import argparse

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from lessbits import Consensus, make_method, make_network, simulate  # noqa: E402
from lessbits.methods.scheduling import modes_of, scheduled_steps  # noqa: E402
from lessbits.theory.schedule_modes import expected_course  # noqa: E402
from lessbits.tuning.stepsizes import make_request  # noqa: E402

NETWORKS = {"ring-100": "ring", "star-100": "star", "torus-10x10": "torus:10x10", "4-regular-100": "random-regular:4"}
SEEDS = (0, 1, 2)
UNITS = (1 / 30, 1 / 5, 1, 5, 30)


def measure(spelling, dim, until, quantizer=None):
    """Mean iterations, kbit and final error of three seeds of problem and run."""
    rows = []
    for seed in SEEDS:
        problem, network = Consensus.random(100, dim, seed=seed), make_network(spelling, 100, seed=0)
        method = make_method("scheduled", problem, network, quantizer, target=until, stepsizes="practical")
        trace = simulate(problem, network, method, iterations=5000, seed=seed, until=until, record_every=1, encode=True)
        assert trace.converged
        rows.append((trace["iteration"][-1], trace["wire_bits_per_link"][-1] / 1000, trace["error"][-1]))
    return np.mean(rows, axis=0)


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--dim", type=int, default=250)
    words.add_argument("--until", type=float, default=1e-3)
    told = words.parse_args()
    print("| network | iterations | kbit per link | final error | expected kbit without headers | expected error |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, spelling in NETWORKS.items():
        problem, network = Consensus.random(100, told.dim), make_network(spelling, 100, seed=0)
        _, request = make_request("scheduled", problem, network, None, stepsizes="practical", target=told.until)
        expected = expected_course(modes_of(request), scheduled_steps(request))
        iterations, kbit, error = measure(spelling, told.dim, told.until)
        model = f"{expected.bits.sum() / 1000:.2f} | {expected.error:.3g}"
        print(f"| {name} | {iterations:.1f} | {kbit:.2f} | {error:.3g} | {model} |", flush=True)
    print("\n| scale on the ring, over the measured one | iterations | kbit per link |\n|---:|---:|---:|")
    for unit in UNITS:
        iterations, kbit, _ = measure("ring", told.dim, told.until, f"fading:{unit:.4g}:0.97")
        print(f"| {unit:.3g} | {iterations:.1f} | {kbit:.2f} |", flush=True)


if __name__ == "__main__":
    main()
