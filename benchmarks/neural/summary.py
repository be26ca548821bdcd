"""The table of results: bytes until a loss is reached, against DDP's.

    python benchmarks/neural/summary.py FILE … [--column smooth|worst] [--seeds] [--keep FILE]
    python benchmarks/neural/summary.py FILE … [--column smooth|worst] --best NODES [--of K | --first K]

The loss is that of the mean of all models, or, with `--column smooth`, of the mean of models that each node averaged in
time, which costs no bytes either; DDP's is then too. With `--column worst` it is that of the worst node's own model,
which was evaluated less often.

DDP's best loss is the best of all its configurations. Columns give, for DDP's best loss and for 1 % and 4 % above it,
how many times fewer bytes a configuration needed than DDP until its best loss, and in brackets than DDP until that one.

Methods have different numbers of configurations. With `--of K`, a cell is what the best of K configurations needs, in
the median over all choices of K of those that a method has: so every method has as many tries. With `--first K` they
are those that were run first, so that nothing is chosen by what was learnt later.
"""

import argparse
import json
import math
from pathlib import Path

SHARES = (1.0, 1.01, 1.04)
NEAR = 1.58  # losses that `keep` keeps


def read(paths):
    """Return {name: (configuration, rows)} of all runs in the files."""
    runs = {}
    for path in paths:
        for text in Path(path).read_text().splitlines():
            row = json.loads(text) if text.startswith("{") else {}
            if "config" in row:
                runs[path, row["number"]] = (row["config"], [])
            elif "step" in row:
                runs[path, row["number"]][1].append(row)
    return runs


def bytes_until(rows, loss, column):
    """Return the bytes at the first evaluation with at most this loss."""
    return next((row["bytes"] for row in rows if row.get(column, math.inf) <= loss), math.inf)


def has(rows, column):
    return any(column in row for row in rows)


def method_of(config):
    """Return the name of a configuration's method as it was published."""
    method = config.get("method", "memory")
    if method == "memory" and not config.get("w") and not config.get("mu"):
        return "D-PSGD" if config.get("quantizer") == "exact" else "Choco-SGD"
    if method == "tracking":
        return "BEER" if config["mu"] == 1 else "MoTEF"
    names = {"pair": "in turn (ours)", "memory": "one message to all (ours)", "ddp": "DDP", "diloco": "DiLoCo"}
    names |= {"tree": "sums up a tree (ours)", "together": "all meet on a tree (tried)"}
    names |= {"edge": "edges (ours)", "powersgd": "PowerSGD", "sparseloco": "SparseLoCo"}
    return names.get(method, {"deepsqueeze": "DeepSqueeze"}.get(method, method))


def median_of_best(values, count):
    """Return the smallest of `count` values, in the median over all choices of so many; NaN if there are fewer.

    >>> median_of_best([1, 2, 3, 4], 2), median_of_best([1, 2, 3, 4], 4), median_of_best([5], 2)
    (1, 1, nan)
    """
    size = len(values)
    worse = (math.comb(size - rank, count) for rank in range(1, size + 1))  # choices without the first so many
    found = (value for value, left in zip(sorted(values), worse, strict=True) if 2 * left <= math.comb(size, count))
    return next(found, math.nan) if size >= count else math.nan


def _lowest(rows, column):
    return min(row[column] for row in rows if column in row)


def best(paths, column, nodes, count, first):
    """Print one line for each method: its best configuration, chosen for each loss apart, with seed 0.

    The worst node's lowest loss is that of the run with the lowest loss.
    """
    runs = [run for run in read(paths).values() if run[0].get("nodes", 8) == nodes and has(run[1], column)]
    runs = [run for run in runs if run[0].get("seed", 0) == 0]
    exact = [rows for config, rows in runs if config.get("method") == "ddp"]
    goal = min(row[column] for rows in exact for row in rows if column in row)
    whole = min(bytes_until(rows, goal, column) for rows in exact)
    groups = {}
    for config, rows in runs:
        groups.setdefault(method_of(config), []).append(rows)
        if "real_bytes" in rows[0]:
            name = f"{method_of(config)}, sums as a ring sends them"
            groups.setdefault(name, []).append([row | {"bytes": row["real_bytes"]} for row in rows])
    lines = []
    for name, many in groups.items():
        many = many[: first or None]
        lowest = min(many, key=lambda rows: _lowest(rows, column))
        worst = min((row["worst"] for row in lowest if "worst" in row), default=math.nan)
        found = [[bytes_until(rows, share * goal, column) for rows in many] for share in SHARES]
        needed = [median_of_best(each, count) if count else min(each) for each in found]
        if math.isnan(needed[0]):  # it has too few
            continue
        cells = [f"{whole / each:.0f}" if each < math.inf else "–" for each in needed]
        own = "–" if math.isnan(worst) else f"{worst:.4f}"
        lines.append(
            (needed[::-1], f"| {name} | {len(many)} | {_lowest(lowest, column):.4f} | {own} | {' | '.join(cells)} |")
        )
    print(f"DDP's best loss with {nodes} nodes is {goal:.4f}, after {whole / 1e9:.2f} GB per node.\n")
    print("| method | configurations | lowest loss | of the worst node | DDP's loss | + 1 % | + 4 % |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(text for _, text in sorted(lines)))


def seeds(paths, column):
    """Print configurations that ran with several seeds, each against DDP with the same seed and DDP's best setting."""
    groups = {}
    for config, rows in read(paths).values():
        if has(rows, column):
            same = {name: value for name, value in config.items() if name != "seed"}
            groups.setdefault(json.dumps(same, sort_keys=True), {})[config.get("seed", 0)] = rows
    groups = {name: found for name, found in groups.items() if len(found) > 1}
    exact = next(found for name, found in groups.items() if '"ddp"' in name)
    print(f"DDP's lowest loss: {', '.join(f'{_lowest(exact[seed], column):.4f}' for seed in sorted(exact))}\n")
    print("| configuration | lowest loss | DDP's loss | + 1 % | + 4 % |\n|---|---|---|---|---|")
    for name, found in groups.items():
        cells = [", ".join(f"{_lowest(found[seed], column):.4f}" for seed in sorted(found))]
        for share in SHARES:
            ratios = []
            for seed in sorted(found):
                goal = _lowest(exact[seed], column)
                whole = bytes_until(exact[seed], goal, column)
                needed = bytes_until(found[seed], share * goal, column)
                ratios.append(f"{whole / needed:.0f}" if needed < math.inf else "–")
            cells.append(", ".join(ratios))
        text = " ".join(f"{key}={value}" for key, value in json.loads(name).items())
        print(f"| {text} | {' | '.join(cells)} |")


def keep(paths, target):
    """Write one file with the rows that a table needs: losses near DDP's, and the lowest of each run."""
    lines = []
    for number, (config, rows) in enumerate(read(paths).values()):
        lines.append({"number": number, "config": config})
        lowest = min((row["mean"] for row in rows if "mean" in row), default=math.inf)
        for row in rows:
            if min(row.get("mean", math.inf), row.get("after", math.inf)) < NEAR or row.get("mean") == lowest:
                names = [name for name in ("step", "mean", "smooth", "after", "worst", "real_bytes") if name in row]
                lines.append({"number": number, "bytes": round(row["bytes"])} | {name: row[name] for name in names})
    rounded = json.loads(json.dumps(lines), parse_float=lambda text: round(float(text), 5))
    Path(target).write_text("".join(json.dumps(line) + "\n" for line in rounded))


def main(paths, column):
    runs = read(paths)
    exact = [rows for config, rows in runs.values() if config.get("method") == "ddp" and config.get("nodes", 8) == 8]
    exact = [rows for rows in exact if has(rows, column)]
    best = min((row[column] for rows in exact for row in rows if column in row), default=math.inf)
    whole = min((bytes_until(rows, best, column) for rows in exact), default=math.nan)
    same = [min((bytes_until(rows, share * best, column) for rows in exact), default=math.nan) for share in SHARES]
    print(
        f"DDP: best loss {best:.4f} after {whole / 1e9:.2f} GB a node; until 1 and 4 % above: {same[1] / 1e9:.2f}, "
        f"{same[2] / 1e9:.2f} GB"
    )
    lines = []
    for config, rows in runs.values():
        if not has(rows, column):
            continue
        cells, key = [], []
        for share, until in zip(SHARES, same, strict=True):
            needed = bytes_until(rows, share * best, column)
            key.append(needed)
            cells.append(
                f"{whole / needed:6.0f} ({until / needed:5.0f})" if 0 < needed < math.inf else "      –        "
            )
        low = min((row for row in rows if column in row), key=lambda row: row[column])
        worst = min((row["worst"] for row in rows if "worst" in row), default=math.nan)
        text = " ".join(f"{name}={value}" for name, value in config.items())
        lines.append((key, f"{low[column]:.4f} {worst:.4f} {low['bytes'] / 1e6:9.1f} MB  {'  '.join(cells)}  {text}"))
    print("best   worst   bytes then    DDP's best      within 1 %      within 4 %")
    print("\n".join(text for _, text in sorted(lines, key=lambda line: line[0])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--column", choices=("mean", "smooth", "worst"), default="mean")
    parser.add_argument("--keep", help="write the rows that this table needs to a file, instead")
    parser.add_argument("--best", type=int, metavar="NODES", help="one line for each method")
    parser.add_argument("--of", type=int, default=0, metavar="K", help="with --best: of K configurations of a method")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="with --best: of the first K only")
    parser.add_argument("--seeds", action="store_true", help="configurations with several seeds, each against DDP's")
    given = parser.parse_args()
    if given.seeds:
        seeds(given.files, given.column)
    elif given.best:
        best(given.files, given.column, given.best, given.of, given.first)
    elif given.keep:
        keep(given.files, given.keep)
    else:
        main(given.files, given.column)
