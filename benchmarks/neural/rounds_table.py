"""What `rounds.py` makes of its results: the configuration of each method that is chosen, and the tables."""

import json
from collections import defaultdict

import numpy as np


def chosen(study, lines, split, method):
    """Return the round in which a method needs the fewest bytes until the goal; the best one of equals or of none."""
    tried = [line for line in lines if line["split"] == split and line["seed"] == 0]
    goal = study.goal * level_of(study, tried)

    def merit(line):
        sent = bytes_until(study, line["records"], goal)
        found = best(study, line["records"])
        return (np.inf if sent is None else sent, -found if study.larger else found)

    return min((line for line in tried if line["method"] == method), key=merit)["round"]


def level_of(study, lines):
    """Return DDP's best in all its configurations, with the first seed."""
    found = [best(study, line["records"]) for line in lines if line["method"] == "DDP" and line["seed"] == 0]
    return max(found) if study.larger else min(found)


def print_summary(study, path):
    """Print two tables for each split in Markdown: all seeds of what was chosen, and what was tried."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for scale in sorted({json.dumps(line["scale"]) for line in lines}):
        same = [line for line in lines if json.dumps(line["scale"]) == scale]
        print(f"\n{', '.join(f'{value} {name}' for name, value in json.loads(scale).items())}; ", end="")
        print(f"{len(same)} runs, {sum(line['seconds'] for line in same):.0f} s in all")
        for split in dict.fromkeys(line["split"] for line in same):
            here = [line for line in same if line["split"] == split]
            if any(line["method"] == "DDP" and line["seed"] == 0 for line in here):
                print_chosen(study, split, here)
                print_tried(study, here)


def print_chosen(study, split, lines):
    level, metric = level_of(study, lines), study.metric
    print(f"\nSplit {split}. DDP's best {metric} in all its configurations with the first seed is {level:.4f}.\n")
    until = "".join(f" kB until {share:.0%} of it |" for share in study.shares)
    print(f"| method | seeds | {metric} at the end | of the worst node | kB in all |{until}")
    print("|---|---|---|---|---|" + "---|" * len(study.shares))
    rows = []
    for method in dict.fromkeys(line["method"] for line in lines):
        number = chosen(study, lines, split, method)
        runs = [line["records"] for line in lines if line["method"] == method and line["round"] == number]
        final, worst, sent = ([run[name][-1] for run in runs] for name in (metric, f"{metric}_worst", "bytes"))
        reached = [[bytes_until(study, run, share * level) for run in runs] for share in study.shares]
        cells = [figures(final), figures(worst), kilobytes(np.mean(sent)), *map(span, reached)]
        order = -np.mean(final) if study.larger else np.mean(final)
        rows.append((order, f"| {method} | {len(runs)} | {' | '.join(cells)} |"))
    print("\n".join(row for _, row in sorted(rows)))


def print_tried(study, lines):
    goal = study.goal * level_of(study, lines)
    print(f"\nWhat was tried, with the first seed: {study.metric} at the end, and ", end="")
    print(f"kB until {study.goal:.0%} of DDP's best; * is chosen.\n")
    table = defaultdict(dict)
    for line in lines:
        if line["seed"] == 0:
            sent = bytes_until(study, line["records"], goal)
            cell = f"{line['records'][study.metric][-1]:.3f}, {'–' if sent is None else kilobytes(sent)}"
            is_chosen = chosen(study, lines, line["split"], line["method"]) == line["round"]
            table[line["method"]][line["round"]] = cell + (" *" if is_chosen else "")
    rounds = sorted({number for cells in table.values() for number in cells})
    print("| method |" + "".join(f" {number + 1} |" for number in rounds))
    print("|---|" + "---|" * len(rounds))
    for method, cells in table.items():
        print(f"| {method} | {' | '.join(cells.get(number, '') for number in rounds)} |")


def figures(found):
    """Return the mean over seeds, and the range."""
    spread = f" ({min(found):.3f} to {max(found):.3f})" if len(found) > 1 else ""
    return f"{np.mean(found):.3f}{spread}"


def span(sent):
    """Return the range over seeds, or how many of them came so far."""
    there = [each for each in sent if each is not None]
    if not there:
        return "–"
    few, many = kilobytes(min(there)), kilobytes(max(there))
    words = few if few == many else f"{few} to {many}"
    return words if len(there) == len(sent) else f"{words} ({len(there)} of {len(sent)} seeds)"


def kilobytes(sent):
    return f"{sent / 1e3:.3g}" if sent < 1e5 else f"{sent / 1e3:.0f}"


def best(study, run):
    return max(run[study.metric]) if study.larger else min(run[study.metric])


def bytes_until(study, run, level):
    """Return the bytes at the first record after the start that is at least as good, or None."""
    pairs = zip(run["bytes"][1:], run[study.metric][1:], strict=True)
    return next((sent for sent, each in pairs if (each >= level if study.larger else each <= level)), None)
