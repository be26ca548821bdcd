"""Large problems: the memory's bandwidth, how time grows, and how much memory a run takes."""

import json
import subprocess
import sys

from consensus import make
from timing import compare, copy_run, exponent, our_run

from lessbits import Consensus, make_network

PASSES = 9 * 8 + 4  # bytes per coordinate: x, z, h and g read and written, c read; levels written, read by three
STEADY = {"theta": 0.01, "alpha": 0.02}  # a run that diverges stops


def large(told):
    """Bandwidth: consensus on a ring of 1000 nodes, d = 10 000, dit-5, broadcast, against a copy of as many bytes"""
    nodes, dim = 1000, 10_000
    problem, network = Consensus.random(nodes, dim), make_network("ring", nodes)
    method = make(problem, network, "broadcast", **STEADY)
    found = compare({"run": our_run(problem, network, method, 20), "copy": copy_run()})
    seconds, bandwidth = found["run"], 1 / found["copy"]
    moved = PASSES * nodes * dim
    return [
        {
            "ms per iteration": 1e3 * seconds,
            "bytes that must move": f"{moved:,}",
            "copy GB/s": bandwidth / 1e9,
            "ms for a copy of them": 1e3 * moved / bandwidth,
            "times the copy": seconds * bandwidth / moved,
        }
    ]


def scaling(told):
    """Growth: µs per iteration of broadcast messages, dit-5, and the exponent of a power law fitted to them"""
    rows = []
    tori = {(side, 100): f"torus:{side}x{side}" for side in (32, 100, 316)}
    rows.append(
        _curve("nodes (torus, d = 100)", {side * side: (side * side, 100, name) for (side, _), name in tori.items()})
    )
    rows.append(_curve("d (ring of 100)", {dim: (100, dim, "ring") for dim in (1000, 10_000, 100_000)}))
    regular = {degree: (1000, 250, f"random-regular:{degree}") for degree in (8, 32, 128)}
    rows.append(_curve("links per node (random regular, n = 1000, d = 250)", regular))
    rows.append(_curve("links per node, edge messages", regular, "edge"))
    rows.append(_curve("links (star, d = 250)", {nodes: (nodes, 250, "star") for nodes in (1000, 10_000, 100_000)}))
    return rows


def _curve(title, sizes, messages="broadcast"):
    times = {}
    for size, (nodes, dim, spelling) in sizes.items():
        problem, network = Consensus.random(nodes, dim), make_network(spelling, nodes, seed=0)
        count = 10 * max(1, int(4e6 / (nodes * dim)))
        run = our_run(problem, network, make(problem, network, messages, **STEADY), count)
        times[size] = compare({"run": run}, rounds=3)["run"]
    shown = ", ".join(f"{size:,}: {1e6 * seconds:,.0f}" for size, seconds in times.items())
    return {"by": title, "µs": shown, "exponent": exponent(list(times), list(times.values()))}


MEMORY = """
import json, re, sys
from pathlib import Path
import jax
jax.config.update("jax_enable_x64", True)
sys.path.insert(0, sys.argv[1])
from consensus import make
from lessbits import Consensus, make_network, simulate

nodes, dim, spelling, messages = json.loads(sys.argv[2])
network = make_network(spelling, nodes, seed=0)
small = Consensus.random(nodes, 8)
simulate(small, network, make(small, network, messages), 20, record_every=10)  # the program's own size
problem = Consensus.random(nodes, dim)


def now(name):
    return int(re.search(rf"{name}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])


Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
before = now("VmRSS")
simulate(problem, network, make(problem, network, messages), 20, record_every=10)
print(now("VmHWM") - before)
"""


def memory(told):
    """Memory: what a run adds to the peak, against the states and payloads that it needs"""
    rows = []
    for nodes, dim, spelling, messages in (
        (1000, 10_000, "ring", "broadcast"),
        (1000, 10_000, "ring", "independent"),
        (1000, 10_000, "ring", "edge"),
        (1000, 2000, "random-regular:32", "broadcast"),
        (10_000, 1000, "star", "edge"),
    ):
        links = make_network(spelling, nodes, seed=0).links
        of_links = dim * links
        states = 8 * nodes * dim * 4 if messages != "edge" else 8 * (nodes * dim * 3 + of_links)  # x, z, g and h
        payloads = nodes * dim if messages == "broadcast" else of_links + nodes * dim * (messages == "independent")
        told_run = [
            sys.executable,
            "-c",
            MEMORY,
            str(__file__).rsplit("/", 1)[0],
            json.dumps([nodes, dim, spelling, messages]),
        ]
        peak = 1024 * int(subprocess.run(told_run, capture_output=True, text=True, check=True).stdout)
        row = {"network": f"{spelling}, {nodes} nodes, d = {dim}", "messages": messages, "peak MB": peak / 1e6}
        rows.append({**row, "states and payloads MB": (states + payloads) / 1e6, "ratio": peak / (states + payloads)})
    return rows
