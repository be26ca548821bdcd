"""Sixteen MPI processes on this machine: the same method, with real bytes between them.

Starts `lessbits run --engine mpi` and then the simulator with the same settings, and compares the two: error and bits
are the same to the last digit.
"""

import argparse
import json
import subprocess
import sys


def run(*more: str) -> dict:
    """Run the command, and return its JSON."""
    settings = ("--nodes", "16", "--dim", "50", "--network", "hypercube", "--quantizer", "dit-4")
    sizes = ("--messages", "broadcast", "--theta", "0.8", "--eta", "0.5", "--until", "1e-4")
    command = [sys.executable, "-m", "lessbits", "run", *settings, *sizes, *more, "--json", "-", "--quiet"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)  # it has said why
    return json.loads(done.stdout)


def main(ranks: int, trace: str | None = None) -> None:
    """Run on processes and in the simulator; `trace` is a file for the trace of the processes."""
    saved = () if trace is None else ("--save", trace)
    real, simulated = run("--engine", "mpi", "--ranks", str(ranks), *saved), run("--encode")
    print(f"{ranks} processes: {real['message']}, {real['bytes_between_ranks']:,} bytes went between them")
    for name in ("error", "wire_bits_per_link"):
        same = "the same" if real[name] == simulated[name] else f"the simulator's is {simulated[name]:.6g}"
        print(f"{name:>20}: {real[name]:.6g}, {same}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="four processes")
    parser.add_argument("--save", metavar="FILE", help="write the trace of the processes to this file")
    given = parser.parse_args()
    main(4 if given.quick else 16, given.save)
