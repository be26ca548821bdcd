"""Which runs the linear model of `lessbits.theory.intervals` predicts to diverge, and which did.

    python benchmarks/neural/stability.py benchmarks/neural/results.jsonl

Runs with 8 nodes on a ring, with the rule in turn or with one message to all, and nothing else that the model does not
have. A run ended early if it was stopped because its loss rose by 0.08, as far as the file's last row of it tells.
Configurations that differ only in intervals, rates or seeds are one line.
"""

import sys

import numpy as np
from graphs import matchings
from summary import read
from train import DEFAULTS

from lessbits.theory.intervals import IntervalSizes, Messages, growth

OTHER = ("follow", "ahead", "reply", "leak", "fail", "parts")  # what the model does not have
NORMAL = np.random.default_rng(0).standard_normal(400_000)


def error_of(spacing, dead):
    """Return the mean square error of rounding normal numbers with a dead zone and the scale that fits best."""
    levels = np.sign(NORMAL) * np.floor(np.abs(NORMAL) / spacing + 1 - dead)
    scale = (NORMAL * levels).sum() / (levels * levels).sum()
    return float(np.square(NORMAL - scale * levels).mean() / np.square(NORMAL).mean())


def pulls(in_turn):
    """Return the matrix of each round on a ring of 8."""
    unit = np.eye(8)
    halves = [(unit - unit[partner]) / 2 for partner in matchings("ring", 8)]
    return halves if in_turn else [sum(halves) * 2 / 3]


def main(paths):
    found = {}
    for config, rows in read(paths).values():
        config = DEFAULTS | config
        told = (
            rows and config["method"] in ("pair", "memory") and config["nodes"] == 8 and config["quantizer"] != "exact"
        )
        if told and all(config[name] == DEFAULTS[name] for name in OTHER):
            key = tuple(config[name] for name in ("method", "theta", "w", "r", "mu", "delta", "dead"))
            early = rows[-1]["step"] < config["steps"] - 2 * config["every"]
            found.setdefault(key, []).append((early, min(row["mean"] for row in rows if "mean" in row)))
    print("| | θ | w | r | μ | Δ, dead zone | ε | predicted growth | ended early | lowest losses |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    lines, right, runs = [], 0, 0
    for (method, theta, w, r, mu, delta, dead), seen in found.items():
        error = error_of(delta, dead)
        sizes = IntervalSizes(theta, w, r, mu)
        predicted = growth(pulls(method == "pair"), sizes, Messages.fitted(error))
        ended = sum(early for early, _ in seen)
        right, runs = right + sum(early == (predicted > 1) for early, _ in seen), runs + len(seen)
        losses = sorted(loss for _, loss in seen)
        span = f"{losses[0]:.3f}" if len(losses) == 1 else f"{losses[0]:.3f} to {losses[-1]:.3f}"
        name = "in turn" if method == "pair" else "to all"
        numbers = f"{name} | {theta:g} | {w:g} | {r:g} | {mu:g} | {delta:g}, {dead:g} | {error:.2f}"
        lines.append((predicted, f"| {numbers} | {predicted:.3f} | {ended} of {len(seen)} | {span} |"))
    print("\n".join(text for _, text in sorted(lines, reverse=True)))
    print(f"\n{right} of {runs} runs are as predicted.")


if __name__ == "__main__":
    main(sys.argv[1:])
