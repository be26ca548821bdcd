"""Ill-conditioned losses: logistic regression with the smallest regularisation, to suboptimality 1e-6.

    python benchmarks/ill_conditioned.py FILE [FILE …] [--nodes 16]

Files are w1a, w8a or others in LIBSVM's format. For each: the accelerated method with practical step sizes and tuned,
the same without momentum, LEAD, Algorithm 1 with option B, SSDA and MSDA (which take dual gradients), gossip with
local minimisation, and `tree`.
Prints iterations, gradients per node, and encoded bits per link.
"""

import argparse
import math
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

from lessbits import Settings, make_method, simulate  # noqa: E402
from lessbits.config.build import build_parts  # noqa: E402
from lessbits.tuning.estimates import Choice  # noqa: E402
from lessbits.tuning.fewest_bits import FewestBits  # noqa: E402

TARGET = 1e-6
MOST = 20_000
LEVELS = 1.4  # standard deviations between two levels


def rows(problem, network):
    """Name, and the method."""
    fine = f"subtractive:{round(math.sqrt(problem.dim) / LEVELS)}"

    def made(name, *rest, **options):
        return make_method(name, problem, network, *rest, stepsizes="practical", **options)

    yield "Algorithm 1, option B, dit-4, practical", lambda: made("primal-dual", "dit-4")
    yield (
        f"corrected, edge messages, {fine}, practical",
        lambda: made("primal-dual", fine, messages="edge", corrected=True),
    )
    yield f"LEAD, {fine}, practical", lambda: made("lead", fine)
    yield "SSDA, numbers of 64 bits, as proven", lambda: made("ssda")
    yield "MSDA, numbers of 64 bits, as proven", lambda: made("msda")
    yield (
        "accelerated, numbers of 64 bits, as proven",
        lambda: make_method("accelerated", problem, network, "exact"),
    )
    yield "accelerated, float32, practical", lambda: made("accelerated", "float32")
    yield f"accelerated, {fine}, practical", lambda: made("accelerated", fine)
    yield f"accelerated, {fine}, tuned", lambda: tuned(problem, network, Choice("accelerated", fine))
    yield "proximal, float32, practical", lambda: made("proximal", "float32")
    yield f"proximal, {fine}, practical", lambda: made("proximal", fine)
    yield "tree", lambda: made("tree")


def tuned(problem, network, choice):
    """All step sizes."""
    search = FewestBits(problem, network, TARGET, "suboptimality", iterations=2000)
    start = search.run(choice)
    best = search.refine(start, ("eta", "momentum", "theta", "alpha"), (-5, 5, 10))
    print(" " * 8, {name: f"{size:.3g}" for name, size in best.sizes.items()}, flush=True)
    return choice.make(problem, network, **best.sizes)


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("files", nargs="+", help="data in LIBSVM's format")
    words.add_argument("--nodes", type=int, default=16)
    words.add_argument("--rows", nargs="*", default=[""], help="only methods whose names start so")
    told = words.parse_args()
    for file in told.files:
        settings = Settings(problem="logistic", data=file, features=300, nodes=told.nodes, network="ring")
        problem, network = build_parts(settings)[:2]
        print(f"{Path(file).name.split('.')[0]}, ring of {told.nodes}, κ = {problem.condition_number:,.0f}")
        print(f"{'':60}{'iterations':>12}{'gradients':>12}{'kbit per link':>14}")
        for name, make in rows(problem, network):
            if not name.startswith(tuple(told.rows)):
                continue
            trace = simulate(
                problem, network, make(), iterations=MOST, until=TARGET, goal="suboptimality", record_every=5
            )
            gradients = trace["gradient_evaluations"][-1] / problem.samples
            bits = trace["wire_bits_per_link"][-1] / 1000
            if trace.converged:
                print(f"{name:60}{trace['iteration'][-1]:12,}{gradients:12,.0f}{bits:14,.1f}", flush=True)
            else:
                near = trace["suboptimality"][-1]
                print(f"{name:60}{'not reached':>12}, {near:.1g} after {trace['iteration'][-1]:,}", flush=True)


if __name__ == "__main__":
    main()
