"""Practical step sizes, chosen by what nodes can measure, beside a choice that knows the solution.

    python benchmarks/practical_steps.py            # a table for docs/fewest-bits.md
    python benchmarks/practical_steps.py --only w1a

The choice that knows the solution takes the curvature there, and judges trial runs by their distance to it. Both are
followed by a run to the target. The last column is what choosing cost.
"""

import argparse
from dataclasses import replace
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer

jax.config.update("jax_enable_x64", True)

from lessbits import (  # noqa: E402
    Consensus,
    LeastSquares,
    Logistic,
    load_samples,
    make_method,
    make_network,
    simulate,
    split_samples,
)
from lessbits._internal.team import SINGLE_PROCESS  # noqa: E402
from lessbits._internal.wording import human  # noqa: E402
from lessbits.tuning import stability  # noqa: E402

# The share of the first error to reach: option C stops at a floor.
TARGETS = {"B": 1e-6, "C": 1e-1, "D": 1e-4}
MOST_ITERATIONS = 50_000


def from_data(name, nodes, features=None):
    """Return a logistic problem on rows of length 1."""
    samples = load_samples(name, features).normalized_rows()
    parts = split_samples(samples, nodes, "sorted", 0)
    return Logistic.from_samples(samples, parts, samples.binary_labels(), None)


def with_intercept(nodes):
    """Return a logistic problem on standardized columns, with an intercept that has no penalty: losses may be flat."""
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = np.column_stack([(rows - rows.mean(0)) / rows.std(0), np.ones(len(rows))])
    parts = np.array_split(np.random.default_rng(0).permutation(len(rows)), nodes)
    problem = Logistic.from_parts([rows[part] for part in parts], [2.0 * labels[part] - 1 for part in parts], 0.01)
    penalty = np.tile(np.append(np.ones(rows.shape[1] - 1), 0.0), (nodes, 1))
    return replace(problem, penalty=jnp.asarray(penalty))


CASES = {
    "consensus, ring of 50": (lambda: Consensus.random(50, 100), "ring", "B"),
    "consensus, star of 50": (lambda: Consensus.random(50, 100), "star", "B"),
    "ridge, κ = 100, ring of 16": (lambda: LeastSquares.random(16, 50, 60, 100.0), "ring", "BCD"),
    "breast-cancer, ring of 8": (lambda: from_data("breast-cancer", 8), "ring", "BCD"),
    "breast-cancer, intercept, ring of 8": (lambda: with_intercept(8), "ring", "B"),
    "w1a, torus of 16": (lambda: from_data("w1a", 16, features=300), "torus", "BCD"),
}
METHODS = ("primal-dual", "lead", "choco")


def by_solution(problem, network, method, seed=0):
    """Judge a trial run by its distance to the solution, as nodes cannot."""
    iterations = int(min(1000 / method.passes(problem), 10_000))
    trace = simulate(
        problem, network, method, iterations=iterations, seed=seed, record_every=max(10, iterations // 100)
    )
    error, half = trace["error"], len(trace["error"]) // 2
    cost = stability.ChosenWith(1, int(trace["iteration"][-1]), float(trace["wire_bits_per_link"][-1]))
    stable = not trace.diverged and error[half:].max() <= 2 * error[:half].max()
    return stability.Trial(bool(stable), trace.x, cost)


def needed(problem, network, method, target):
    """Return the iterations to the target, or how the run ended."""
    first = float(((problem.start() - problem.solution) ** 2).sum(1).mean())
    every = max(1, int(0.1 / method.passes(problem)))
    trace = simulate(
        problem, network, method, iterations=MOST_ITERATIONS, until=target * first, record_every=every, seed=1
    )
    count = f"{int(trace['iteration'][-1]):,}"
    return count if trace.converged else f"diverged at {count}" if trace.diverged else f"> {count}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    asked = parser.parse_args()
    columns = ("problem and network", "option", "method", "knowing the solution", "by what nodes measure")
    print(f"| {' | '.join(columns)} | choosing cost per link |")
    print("|---|---|---|---|---|---|")
    for name, (make, shape, options) in CASES.items():
        if asked.only not in name:
            continue
        problem = make()
        network = make_network(shape, problem.nodes)
        for option in options:
            for method_name in METHODS:
                if method_name == "choco" and not problem.averages:
                    continue  # it has a bias, and does not reach the target
                show(name, problem, network, option, method_name)


def show(name, problem, network, option, method_name):
    """Print one row."""
    choices = {"quantizer": "dit-4", "option": option, "stepsizes": "practical"}
    chosen = make_method(method_name, problem, network, **choices)
    typical = problem.typical_convexity
    if problem.nearly_flat:
        vars(problem)["typical_convexity"] = problem.mean_curvature(problem.solution, SINGLE_PROCESS)
    with patch("lessbits.tuning.stepsizes.try_step_sizes", by_solution):
        knowing = make_method(method_name, problem, network, **choices)
    vars(problem)["typical_convexity"] = typical
    counts = [needed(problem, network, method, TARGETS[option]) for method in (knowing, chosen)]
    cost = chosen.chosen_with
    print(
        f"| {name} | {option} | {method_name} | {counts[0]} | {counts[1]} | {cost.trials} × "
        f"{cost.iterations // max(cost.trials, 1):,} iterations, {human(cost.bits_per_link)} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
