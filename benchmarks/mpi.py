"""What an iteration costs on real processes, beside disropt (real MPI, exact, pickled) in the same run.

    python benchmarks/mpi.py [--json FILE] [--ranks 2 4 16]

Average consensus on a ring, one node per rank, d = 250, float64. Ours with `exact` and `dit-4` messages (broadcast),
each iteration checked and encoded; disropt's `Consensus` exchanges the vectors as they are. The best of three, and
what of ours is computing, coding and communicating. disropt is skipped with a reason if it is not installed.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

DIM, ITERATIONS, REPEATS = 250, 100, 3
HERE = Path(__file__)


def ours(quantizer):
    from lessbits.engines.distributed.launch import become_rank

    become_rank()  # as the command line does: threads for its share of the cores
    import jax

    jax.config.update("jax_enable_x64", True)
    from lessbits import Consensus, PrimalDual, make_network, make_quantizer, run_mpi
    from lessbits.engines.distributed.mpi import MPI

    nodes = MPI.COMM_WORLD.Get_size()
    network = make_network("ring", nodes) if nodes > 2 else make_network("path", nodes)
    method = PrimalDual.make(make_quantizer(quantizer, DIM), 0.3, 0.9, dim=DIM, messages="broadcast")
    problem = Consensus.random(nodes, DIM)
    best = None
    for _ in range(REPEATS + 1):  # the first one compiles
        trace = run_mpi(problem, network, method, iterations=ITERATIONS, record_every=ITERATIONS)
        if best is None or trace["seconds"][-1] < best["seconds"]:
            best = trace.summary()
    parts = ("seconds", "compute_seconds", "coding_seconds", "communication_seconds")
    microseconds = {part: 1e6 * best[part] / ITERATIONS for part in parts}
    return {**microseconds, "bits": best["wire_bits_per_link"] / ITERATIONS}


def disropt():
    import numpy as np
    from disropt.agents import Agent
    from disropt.algorithms.consensus import Consensus
    from mpi4py import MPI

    nodes, rank = MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD.Get_rank()
    near = sorted({(rank - 1) % nodes, (rank + 1) % nodes} - {rank})
    share = 1 / (1 + len(near))
    weights = [share if other in (rank, *near) else 0.0 for other in range(nodes)]
    agent = Agent(in_neighbors=near, out_neighbors=near, in_weights=weights)
    times = []
    for _ in range(REPEATS):
        algorithm = Consensus(agent=agent, initial_condition=np.random.default_rng(rank).normal(size=(DIM, 1)))
        MPI.COMM_WORLD.Barrier()
        clock = time.perf_counter()
        algorithm.run(iterations=ITERATIONS)
        MPI.COMM_WORLD.Barrier()
        times.append(time.perf_counter() - clock)
    return {"seconds": 1e6 * min(times) / ITERATIONS, "bits": 64 * DIM}


WORKERS = {"exact": lambda: ours("exact"), "dit-4": lambda: ours("dit-4"), "disropt": disropt}


def work(name):
    from mpi4py import MPI

    result = WORKERS[name]()
    if MPI.COMM_WORLD.Get_rank() == 0:
        print("result", json.dumps(result), flush=True)


def measure(name, ranks):
    """Run one worker on so many ranks; None with the reason if it fails."""
    from lessbits.engines.distributed.launch import find_mpiexec

    command = [find_mpiexec(), "-n", str(ranks), sys.executable, str(HERE), "--worker", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("result ")]
    if done.returncode or not lines:
        return None, (done.stderr.strip().splitlines() or ["no result"])[-1]
    return json.loads(lines[0].removeprefix("result ")), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4, 16])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"consensus on a ring, d = {DIM}, one node per rank: µs per iteration")
    headings = ("ranks", "who", "total", "computing", "coding", "communicating", "bits per link", "disropt / ours")
    for heading in headings:
        table.add_column(heading, justify="right")
    rows, notes = [], []
    for ranks in options.ranks:
        peer, reason = measure("disropt", ranks)
        if peer is None:
            notes.append(f"disropt on {ranks} ranks: skipped, {reason}")
        else:
            rows.append({"ranks": ranks, "who": "disropt", **peer})
            table.add_row(str(ranks), "disropt", f"{peer['seconds']:.0f}", "", "", "", f"{peer['bits']:.0f}", "")
        for name in ("exact", "dit-4"):
            result, reason = measure(name, ranks)
            if result is None:
                notes.append(f"{name} on {ranks} ranks: {reason}")
                continue
            ratio = "" if peer is None else f"{peer['seconds'] / result['seconds']:.2f}"
            rows.append({"ranks": ranks, "who": name, **result})
            parts = (f"{result[f'{part}_seconds']:.0f}" for part in ("compute", "coding", "communication"))
            table.add_row(str(ranks), name, f"{result['seconds']:.0f}", *parts, f"{result['bits']:.0f}", ratio)
    console = Console(width=120)
    console.print(table)
    for note in notes:
        console.print(note)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "notes": notes}, indent=2) + "\n")


if __name__ == "__main__":
    main()
