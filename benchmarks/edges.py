# ruff: noqa: E402 (JAX is set up before problems are made)
"""Links that are silent, late or slow: iterations and bits to an error, of edge-dual with its practical step sizes.

    python benchmarks/edges.py [--data FOLDER] [--only ridge] [--part silent]
    python benchmarks/edges.py --part million --single      on a GPU, in float32

FOLDER has w1a.libsvm.xz and mushrooms.libsvm.xz; without it the two are downloaded. Prints a table of each
part. Every run goes to a squared distance of 1e-12 from the optimum of those present, from zero, with dit-4 messages.
"""

import argparse
import sys
import time
from itertools import product
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", "--single" not in sys.argv)

import lessbits
from lessbits import Event, Faults, LinkModel

UNTIL = 1e-12
NETWORKS = [("random-regular:4", 16), ("random-regular:4", 64), ("ring", 16), ("geometric", 32)]
DROPS = (0.0, 0.1, 0.3, 0.7)
PARTS = ("silent", "late", "slow", "local", "searched", "fixed", "churn")
SLOWER = 5
GRADIENT, LATENCY, BANDWIDTH = 0.05, 0.02, 10e6  # s, s, bits per second


def problems(nodes, folder):
    """Yield the problems of the first table."""
    for condition in (20.0, 200.0):
        yield f"ridge, κ = {condition:g}", lessbits.LeastSquares.random(nodes, 20, condition=condition)
    for name in ("w1a", "mushrooms"):
        file = name if folder is None else Path(folder) / f"{name}.libsvm.xz"
        samples = lessbits.load_samples(file).normalized_rows()
        yield f"logistic, {name}", lessbits.make_problem("logistic", samples, nodes=nodes, regularization=1e-2)


def run(problem, network, faults, iterations=100_000, local_steps=1, **options):
    """Return the trace of edge-dual with the step sizes that these faults get."""
    choices = {"stepsizes": "practical", "faults": faults, "local_steps": local_steps}
    method = lessbits.make_method("edge-dual", problem, network, quantizer="dit-4", **choices)
    options = {"until": UNTIL, "record_every": 5, **options}
    return method, lessbits.simulate(problem, network, method, iterations=iterations, faults=faults, **options)


def line(*cells):
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def silent_links(folder, only):
    """Print iterations and bits at each share of silent links."""
    print("\n## Silent links\n")
    line("problem", "network", "silent", "θ", "η", "γ", "iterations", "kbit per link", "bits beside none silent")
    line(*["---"] * 9)
    for spec, nodes in NETWORKS:
        network = lessbits.make_network(spec, nodes)
        for name, problem in problems(nodes, folder):
            if only not in name:
                continue
            first = None
            for drop in DROPS:
                method, trace = run(problem, network, Faults(drop=drop))
                bits = trace["wire_bits_per_link"][-1]
                first = bits if first is None else first
                reached = str(trace["iteration"][-1]) if trace.converged else f"not ({trace['error'][-1]:.1e})"
                sizes = [f"{float(getattr(method, size)):.3g}" for size in ("theta", "eta", "gamma")]
                line(
                    name,
                    f"{spec}, {nodes}",
                    f"{drop:.0%}",
                    *sizes,
                    reached,
                    f"{bits / 1000:.1f}",
                    f"{bits / first:.2f}",
                )


def late_messages():
    """Print iterations and bits with late messages, lost messages and a slow node."""
    print("\n## Late messages, lost messages, and one node that is five times slower\n")
    line("network", "faults", "θ", "η", "γ", "iterations", "kbit per link", "mean age of messages")
    line(*["---"] * 8)
    problem = lessbits.LeastSquares.random(16, 20, condition=20.0)
    for spec in ("random-regular:4", "ring"):
        network = lessbits.make_network(spec, 16)
        for faults in (
            Faults(),
            Faults(delay=(1, 5)),
            Faults(delay=(1, 20)),
            Faults(lose=0.1),
            Faults(slow={3: SLOWER}),
            Faults(delay=(1, 1), slow={3: SLOWER}),
        ):
            method, trace = run(problem, network, faults)
            reached = str(trace["iteration"][-1]) if trace.converged else f"not ({trace['error'][-1]:.1e})"
            sizes = [f"{float(getattr(method, size)):.3g}" for size in ("theta", "eta", "gamma")]
            bits = trace["wire_bits_per_link"][-1] / 1000
            line(spec, str(faults) or "none", *sizes, reached, f"{bits:.1f}", f"{trace['staleness'][1:].mean():.1f}")


def slow_node():
    """Print the time to the target if all wait for one slow node in every iteration, and if nobody does."""
    print(f"\n## One node {SLOWER} times slower: seconds to the target\n")
    print(
        f"A gradient takes {GRADIENT} s, the link {LATENCY} s and {BANDWIDTH / 1e6:g} Mbit/s. In lockstep an iteration"
    )
    print("takes the slow node's gradient and one exchange; else a usual node's gradient and one exchange.\n")
    line("problem", "network", "lockstep: iterations", "s", "nobody waits: iterations", "s", "faster")
    line(*["---"] * 7)
    for condition in (20.0, 200.0):
        problem = lessbits.LeastSquares.random(16, 20, condition=condition)
        for spec in ("random-regular:4", "ring"):
            network = lessbits.make_network(spec, 16)
            model = LinkModel(LATENCY, BANDWIDTH)
            rows = []
            for faults, gradient in ((Faults(), SLOWER * GRADIENT), (Faults(slow={3: SLOWER}), GRADIENT)):
                _, trace = run(problem, network, faults, link_model=model)
                rows.append(
                    (trace["iteration"][-1], trace["simulated_seconds"][-1] + trace["iteration"][-1] * gradient)
                )
            (lockstep, waited), (free, spent) = rows
            name = f"ridge, κ = {condition:g}"
            line(name, spec, lockstep, f"{waited:.2f}", free, f"{spent:.2f}", f"{waited / spent:.1f}")


def local_steps(folder):
    """Print the bits to the target with several gradient steps between two exchanges, at practical step sizes."""
    print("\n## Local steps, practical step sizes\n")
    line("problem", "network", "local steps", "θ", "η", "γ", "iterations", "kbit per link")
    line(*["---"] * 8)
    file = "mushrooms" if folder is None else Path(folder) / "mushrooms.libsvm.xz"
    samples = lessbits.load_samples(file).normalized_rows()
    alike = lessbits.make_problem("logistic", samples, nodes=16, regularization=1e-3, split="iid")
    ridge = {condition: lessbits.LeastSquares.random(16, 20, condition=condition) for condition in (20.0, 200.0)}
    for name, problem, spec in (
        ("logistic, mushrooms, λ = 0.001, samples at random", alike, "random-regular:4"),
        ("ridge, κ = 20", ridge[20.0], "random-regular:4"),
        ("ridge, κ = 200", ridge[200.0], "random-regular:4"),
        ("ridge, κ = 200", ridge[200.0], "ring"),
    ):
        network = lessbits.make_network(spec, 16)
        for steps in (1, 2, 4, 8):
            method, trace = run(problem, network, None, record_every=4, local_steps=steps)
            sizes = [f"{float(getattr(method, size)):.3g}" for size in ("theta", "eta", "gamma")]
            bits = f"{trace['wire_bits_per_link'][-1] / 1000:.1f}"
            line(name, spec, steps, *sizes, trace["iteration"][-1] if trace.converged else "not", bits)


def local_steps_searched():
    """Print the same for the best of 60 step sizes."""
    print("\n## Local steps, the best of 60 step sizes\n")
    line("problem", "network", "local steps", "skips", "iterations", "kbit per link")
    line(*["---"] * 6)
    for condition, spec in ((20.0, "random-regular:4"), (200.0, "random-regular:4"), (200.0, "ring")):
        problem, network = lessbits.LeastSquares.random(16, 20, condition=condition), lessbits.make_network(spec, 16)
        for steps, skips in ((1, "regular"), (2, "regular"), (4, "regular"), (4, "random"), (8, "regular")):
            bits, iterations = min(_tried(problem, network, steps, skips))
            line(f"ridge, κ = {condition:g}", spec, steps, skips, iterations, f"{bits / 1000:.1f}")


def _tried(problem, network, steps, skips):
    """Yield bits and iterations to the target for each of a grid of step sizes, the same for all local steps."""
    quantizer = lessbits.make_quantizer("dit-4", problem.dim)
    alpha = 1 / (1 + quantizer.omega(problem.dim))
    for theta, eta, gamma in product((0.1, 0.2, 0.4, 0.55, 0.8), (0.5, 1.0, 1.8), (0.0, 1.0, 2.0, 4.0)):
        method = lessbits.EdgeDual(theta, eta, alpha, gamma, quantizer, local_steps=steps, skips=skips)
        trace = lessbits.simulate(problem, network, method, iterations=4000, until=UNTIL, record_every=5)
        if trace.converged:
            yield trace["wire_bits_per_link"][-1], trace["iteration"][-1]


def fixed_network(rounds=5, iterations=2000):
    """Print time and bits beside Algorithm 1 with edge messages, on a network without faults; all take turns."""
    print("\n## No faults: ring of 100, d = 250, consensus, dit-4\n")
    problem, network = lessbits.Consensus.random(100, 250), lessbits.make_network("ring", 100)
    quantizer = lessbits.make_quantizer("dit-4", 250)
    sizes = {"theta": 0.5, "eta": 0.5, "alpha": 1 / (1 + quantizer.omega(250))}
    methods = {}
    for name, corrected in (("γ = 0", False), ("γ = 1", True)):
        papers = lessbits.PrimalDual.make(quantizer, **sizes, messages="edge", corrected=corrected)
        methods[name] = papers, lessbits.EdgeDual(**sizes, gamma=float(corrected), quantizer=quantizer)
    times = {(name, each): [] for name in methods for each in (0, 1)}
    bits = {}
    for _, (name, each) in product(range(rounds), times):
        trace = lessbits.simulate(problem, network, methods[name][each], iterations=iterations, record_every=iterations)
        times[name, each].append(trace["seconds"][-1] / iterations * 1e6)
        bits[name, each] = trace["wire_bits_per_link"][-1]
    line("form", "Algorithm 1, edge messages", "edge-dual", "time", "bits")
    line(*["---"] * 5)
    for name in methods:
        papers, ours = (min(times[name, each]) for each in (0, 1))
        ratio = f"{bits[name, 1] / bits[name, 0]:.3f} ×"
        line(name, f"{papers:.0f} µs", f"{ours:.0f} µs", f"{ours / papers:.2f} ×", ratio)


def churn(nodes, spec, dim, iterations=1000):
    """Print the time of an iteration of nodes of which a tenth has left or returned after each epoch."""
    print(f"\n## {nodes} nodes ({spec}), d = {dim}: every 100 iterations a twentieth leaves and a twentieth returns\n")
    problem, network = lessbits.Consensus.random(nodes, dim), lessbits.make_network(spec, nodes)
    events = []
    for epoch in range(1, iterations // 100):
        back = range((epoch - 2) % 20, nodes, 20) if epoch > 1 else ()
        events += [Event(100 * epoch, "join", node=node) for node in back]
        events += [Event(100 * epoch, "leave", node=node) for node in range((epoch - 1) % 20, nodes, 20)]
    quantizer = lessbits.make_quantizer("dit-4", dim)
    method = lessbits.EdgeDual(0.5, 0.7, 1 / (1 + quantizer.omega(dim)), 1.0, quantizer)
    for faults in (None, Faults(), Faults(drop=0.3), Faults(events=events)):
        clock = time.perf_counter()
        trace = lessbits.simulate(problem, network, method, iterations=iterations, record_every=100, faults=faults)
        whole = time.perf_counter() - clock - trace.compile_seconds
        loop = trace["seconds"][-1] / iterations * 1e3
        spent = f"{loop:.3g} ms per iteration, {whole / iterations * 1e3:.3g} with what is done at events"
        print(f"- {faults}: {spent}; error {trace['error'][-1]:.1e}", flush=True)


def main():
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data sets")
    parser.add_argument("--only", default="", help="problems whose name has this in it")
    parser.add_argument("--part", choices=(*PARTS, "million"), help="one part alone")
    parser.add_argument("--single", action="store_true", help="compute in float32")
    arguments = parser.parse_args()
    print(f"# Edges with faults: what `python benchmarks/edges.py` printed, lessbits {lessbits.__version__}")
    parts = {
        "silent": lambda: silent_links(arguments.data, arguments.only),
        "late": late_messages,
        "slow": slow_node,
        "local": lambda: local_steps(arguments.data),
        "searched": local_steps_searched,
        "fixed": fixed_network,
        "churn": lambda: churn(1000, "random-regular:4", 100),
    }
    for name in PARTS:
        if arguments.part in (None, name):
            parts[name]()
    if arguments.part == "million":
        churn(1_000_000, "torus:1000x1000", 16, 300)


if __name__ == "__main__":
    main()
