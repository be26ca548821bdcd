"""The distribution of bits with practical step sizes over those with tuned ones."""

import math

import numpy as np

KINDS = ("before", "practical")
METHODS = ("primal-dual", "lead", "accelerated")


def ratio(row, kind):
    """Return the bits over the tuned ones, by a finer search if there was one; infinite if the target was missed."""
    return row[kind]["bits"] / row.get("finer", row["tuned"])["bits"] if row[kind]["reached"] else math.inf


def whole(rows):
    """Return the rows of the first cases, up to the first of which a method is missing.

    While not all have been run, those known may be the quick ones, which would be no fair sample.
    """
    known = {(row["seed"], row["method"]) for row in rows}
    missing = [seed for seed in _seeds(rows) if any((seed, name) not in known for name in METHODS)]
    return sorted(
        (row for row in rows if row["seed"] < min(missing, default=math.inf)),
        key=lambda row: (row["seed"], METHODS.index(row["method"])),
    )


def _seeds(rows):
    seeds = [row["seed"] for row in rows]
    return range(min(seeds, default=0), max(seeds, default=0) + 1)


def show(rows):
    """Print a line for each method, and one for all."""
    print("| method | rows | | median | 90 % | worst | within 2 | reached | choosing, iterations | kbit per link |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in [*dict.fromkeys(row["method"] for row in rows), None]:
        mine = [row for row in rows if name in (None, row["method"])]
        for kind in KINDS:
            ratios = np.array([ratio(row, kind) for row in mine])
            median, most = np.quantile(ratios, [0.5, 0.9], method="higher")
            chosen = [row[kind]["chosen_with"] for row in mine]
            iterations, bits = (np.median([cost[key] for cost in chosen]) for key in ("iterations", "bits_per_link"))
            print(
                f"| {name or 'all'} | {len(mine)} | {kind} | {median:.2f} | {most:.2f} | {ratios.max():.2f} | "
                f"{100 * np.mean(ratios <= 2):.0f} % | {np.isfinite(ratios).sum()} | "
                f"{iterations:,.0f} | {bits / 1000:,.0f} |"
            )
    _by_problem(rows)
    print("\nabove 2:")
    for row in sorted(rows, key=lambda row: -ratio(row, "practical")):
        if ratio(row, "practical") > 2:
            print(
                f"- {row['seed']}, {row['method']}: {ratio(row, 'practical'):.2f}. {row['problem']}, "
                f"κ = {row['kappa']:.0f}, {row['network']} of {row['nodes']}, "
                f"{row['goal']} {row['target']:g}, {row['quantizer']}"
            )


def _by_problem(rows):
    """Print a line for each kind of problem: how near practical step sizes come, and what choosing them costs."""
    print("\n| problem | rows | median | within 2 | bits of choosing over those of the run |")
    print("|---|---:|---:|---:|---:|")
    for name in [*dict.fromkeys(row["problem"] for row in rows), None]:
        mine = [row for row in rows if name in (None, row["problem"])]
        ratios = np.array([ratio(row, "practical") for row in mine])
        costs = [row["practical"]["chosen_with"]["bits_per_link"] / row["practical"]["bits"] for row in mine]
        print(
            f"| {name or 'all'} | {len(mine)} | {np.median(ratios):.2f} | {100 * np.mean(ratios <= 2):.0f} % | "
            f"{np.median(costs):.0f} |"
        )
