"""Wall-clock time to accuracy over links of limited speed: exact messages against quantized ones, on real sockets.

    sudo python benchmarks/slow_links.py [--json FILE] [--rates 10 100 1000] [--dim 100000]

Ranks run in a network namespace of their own, whose loopback device is shaped with `tc … tbf` to so many Mbit/s, which
all links share, and MPI is forced onto TCP. Consensus on a ring of 4 nodes, one a rank, in float32, until the error is
1e-3 of the first one. `carried` is what the device says that it carried meanwhile: messages with TCP's own headers,
and the points that metrics compare. Where namespaces or `tc` are not allowed the
benchmark says so and ends.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

NODES = 4
HERE = Path(__file__)
# One host, yet no shared memory: every message goes through the device.
TCP = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


def work(quantizer, dim):
    from lessbits.engines.distributed.launch import become_rank

    become_rank()
    from lessbits import Consensus, PrimalDual, make_network, make_quantizer, run_mpi
    from lessbits.engines.distributed.mpi import MPI

    network, problem = make_network("ring", NODES), Consensus.random(NODES, dim)
    method = PrimalDual.make(make_quantizer(quantizer, dim), 0.7, 1.0, dim=dim, messages="broadcast")
    run_mpi(problem, network, method, iterations=1)  # compiles
    before = carried()
    trace = run_mpi(problem, network, method, iterations=300, until=1e-3 * dim, record_every=5)
    if MPI.COMM_WORLD.Get_rank() == 0:
        print("result", json.dumps({**trace.summary(), "carried": carried() - before}), flush=True)


def carried():
    """Bytes that the loopback device of this namespace has carried so far."""
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


class Namespace:
    """A network namespace with a loopback device of limited speed."""

    def __init__(self, rate):
        self.name, self.rate = f"lessbits-{os.getpid()}", rate

    def __enter__(self):
        self._run("ip", "netns", "add", self.name)
        try:
            # Loopback's packets of 64 kB would not fit into the bucket and be lost for ever: those of an Ethernet do.
            self.run("ip", "link", "set", "lo", "mtu", "1500", "up")
            # Room for a hundredth of a second: enough to keep the rate, not so much that it is never felt.
            burst = max(20_000, int(self.rate * 1e6 / 8 / 100))
            shape = ("rate", f"{self.rate}mbit", "burst", str(burst), "latency", "400ms")
            self.run("tc", "qdisc", "add", "dev", "lo", "root", "tbf", *shape)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *ignored):
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)

    @staticmethod
    def _run(*command, **options):
        return subprocess.run(command, check=True, capture_output=True, text=True, **options)

    def run(self, *command, **options):
        return self._run("ip", "netns", "exec", self.name, *command, **options)


def measure(rate, quantizer, dim):
    from lessbits.engines.distributed.launch import find_mpiexec

    with Namespace(rate) as space:
        worker = [sys.executable, str(HERE), "--worker", quantizer, "--dim", str(dim)]
        done = space.run(find_mpiexec(), "-n", str(NODES), *worker, env={**os.environ, **TCP}, timeout=900)
        line = next(line for line in done.stdout.splitlines() if line.startswith("result "))
        return json.loads(line.removeprefix("result "))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--dim", type=int, default=100_000)
    parser.add_argument("--rates", type=int, nargs="*", default=[10, 100, 1000])
    parser.add_argument("--quantizers", nargs="*", default=["exact", "dit-12", "dit-10", "dit-8"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.dim)
        return
    from rich.console import Console
    from rich.table import Table

    try:
        with Namespace(10):
            pass
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", "") or error
        print(f"skipped: this machine does not let us make and shape a network namespace ({str(reason).strip()})")
        return
    table = Table(title=f"consensus on a ring of {NODES} processes over TCP, d = {options.dim}, float32")
    costs = ("iterations", "seconds", "communicating", "MB sent", "MB carried", "exact / it")
    for heading in ("Mbit/s", "quantizer", *costs):
        table.add_column(heading, justify="right")
    rows = []
    for rate in options.rates:
        exact = None
        for quantizer in options.quantizers:
            result = measure(rate, quantizer, options.dim)
            exact = exact or result["seconds"]
            rows.append({"rate": rate, "quantizer": quantizer, **{k: v for k, v in result.items() if k != "settings"}})
            table.add_row(
                str(rate),
                quantizer + ("" if result["converged"] else " (not reached)"),
                str(result["iterations"]),
                f"{result['seconds']:.2f}",
                f"{result['communication_seconds']:.2f}",
                f"{result['bytes_between_ranks'] / 1e6:.2f}",
                f"{result['carried'] / 1e6:.2f}",
                f"{exact / result['seconds']:.1f}",
            )
    Console(width=120).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
