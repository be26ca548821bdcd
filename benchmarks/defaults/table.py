"""The distribution of bits with practical step sizes over those with tuned ones: a table, and a picture."""

import math

import numpy as np

KINDS = ("before", "practical")


def ratio(row, kind):
    """Return the bits over the tuned ones; infinite if the target was not reached."""
    return row[kind]["bits"] / row["tuned"]["bits"] if row[kind]["reached"] else math.inf


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
    print("\nabove 2:")
    for row in sorted(rows, key=lambda row: -ratio(row, "practical")):
        if ratio(row, "practical") > 2:
            print(
                f"- {row['seed']}, {row['method']}: {ratio(row, 'practical'):.2f}. {row['problem']}, "
                f"κ = {row['kappa']:.0f}, {row['network']} of {row['nodes']}, "
                f"{row['goal']} {row['target']:g}, {row['quantizer']}"
            )


def draw(rows, file):
    """Draw the share of rows within each ratio."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    for number, name in enumerate(dict.fromkeys(row["method"] for row in rows)):
        mine = [row for row in rows if row["method"] == name]
        for kind, style in zip(KINDS, (":", "-"), strict=True):
            ratios = np.sort([ratio(row, kind) for row in mine])
            shares = 100 * np.arange(1, len(ratios) + 1) / len(ratios)
            axes.step(ratios, shares, style, color=f"C{number}", where="post", label=f"{name}, {kind}")
    axes.axvline(2, color="0.6", linewidth=0.8)
    axes.set(xscale="log", xlabel="bits over those with tuned step sizes", ylabel="% of combinations")
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50], labels=["0.5", "1", "2", "5", "10", "20", "50"])
    axes.legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None})
