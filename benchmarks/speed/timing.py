"""Times as ratios within one run, as machines are noisy; and what the machine is."""

import os
import platform
import statistics
import time

import jax
import numpy as np

from lessbits import simulate

ROUNDS = 7


def compare(runs, rounds=ROUNDS):
    """Let several functions take turns, and return the seconds of each: the median over rounds.

    `runs` maps names to functions that return their own seconds.
    """
    found = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(run())
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def timed(function, count=1):
    """Return a function that runs it and returns seconds for one of `count` iterations."""

    def run():
        clock = time.perf_counter()
        function()
        return (time.perf_counter() - clock) / count

    return run


def our_run(problem, network, method, iterations, record_every=10, **options):
    """Return a function that runs the whole product path and returns seconds an iteration, compiling apart.

    It has `compile_seconds`, of its first run.
    """

    def run():
        trace = simulate(problem, network, method, iterations, record_every=record_every, **options)
        return float(trace["seconds"][-1]) / iterations

    first = simulate(problem, network, method, record_every, record_every=record_every, **options)
    run.compile_seconds = first.compile_seconds
    return run


def machine():
    """What the machine is, in words."""
    try:
        with open("/proc/cpuinfo") as facts:
            name = next(line.split(":")[1].strip() for line in facts if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    devices = ", ".join(str(device.device_kind) for device in jax.devices())
    return f"{name}, {os.cpu_count()} cores; JAX {jax.__version__} on {devices}; NumPy {np.__version__}"


def copy_bandwidth(megabytes=512, rounds=9):
    """Bytes a second that a compiled loop reads and writes, in place and with all cores: no fresh pages are touched."""
    held = [jax.numpy.ones(megabytes * 2**20 // 8, jax.numpy.float64)]
    add = jax.jit(lambda x: x + 1, donate_argnums=0)

    def step():
        held[0] = add(held[0]).block_until_ready()

    step()
    return 2 * held[0].nbytes / compare({"copy": timed(step)}, rounds)["copy"]


def exponent(sizes, seconds):
    """The p of the power law sizes^p that fits the times."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
