"""What `fashion.py` makes of its results: the configuration of each method that is chosen, and the tables."""

import json
from collections import defaultdict

import numpy as np

GOAL = 0.95  # of DDP's best accuracy: configurations are chosen by the bytes until then
SHARES = (0.99, 0.97, 0.95, 0.9)


def chosen(lines, split, method):
    """Return the round in which a method needs the fewest bytes until the goal; the best one of equals or of none."""
    tried = [line for line in lines if line["split"] == split and line["seed"] == 0]
    goal = GOAL * level_of(tried)

    def merit(line):
        sent = bytes_until(line["records"], goal)
        return (np.inf if sent is None else sent, -best(line["records"]))

    return min((line for line in tried if line["method"] == method), key=merit)["round"]


def level_of(lines):
    """Return DDP's best accuracy in all its configurations, with the first seed."""
    return max(best(line["records"]) for line in lines if line["method"] == "DDP" and line["seed"] == 0)


def print_summary(path):
    """Print two tables for each split in Markdown: all seeds of what was chosen, and what was tried."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for scale in sorted({json.dumps(line["scale"]) for line in lines}):
        same = [line for line in lines if json.dumps(line["scale"]) == scale]
        print(f"\n{', '.join(f'{value} {name}' for name, value in json.loads(scale).items())}; ", end="")
        print(f"{len(same)} runs, {sum(line['seconds'] for line in same):.0f} s in all")
        for split in dict.fromkeys(line["split"] for line in same):
            here = [line for line in same if line["split"] == split]
            if any(line["method"] == "DDP" and line["seed"] == 0 for line in here):
                print_chosen(split, here)
                print_tried(here)


def print_chosen(split, lines):
    level = level_of(lines)
    print(f"\nSplit {split}. DDP's best accuracy in all its configurations with the first seed is {level:.4f}.\n")
    until = "".join(f" kB until {share:.0%} of it |" for share in SHARES)
    print(f"| method | seeds | accuracy at the end | of the worst node | kB in all |{until}")
    print("|---|---|---|---|---|" + "---|" * len(SHARES))
    rows = []
    for method in dict.fromkeys(line["method"] for line in lines):
        number = chosen(lines, split, method)
        runs = [line["records"] for line in lines if line["method"] == method and line["round"] == number]
        final, worst, sent = ([run[name][-1] for run in runs] for name in ("accuracy", "accuracy_worst", "bytes"))
        reached = [[bytes_until(run, share * level) for run in runs] for share in SHARES]
        cells = [accuracies(final), accuracies(worst), kilobytes(np.mean(sent)), *map(span, reached)]
        rows.append((-np.mean(final), f"| {method} | {len(runs)} | {' | '.join(cells)} |"))
    print("\n".join(row for _, row in sorted(rows)))


def print_tried(lines):
    print("\nWhat was tried, with the first seed: accuracy at the end, and kB until 95 % of DDP's best; * is chosen.\n")
    level, table = level_of(lines), defaultdict(dict)
    for line in lines:
        if line["seed"] == 0:
            sent = bytes_until(line["records"], GOAL * level)
            cell = f"{line['records']['accuracy'][-1]:.3f}, {'–' if sent is None else kilobytes(sent)}"
            star = " *" if chosen(lines, line["split"], line["method"]) == line["round"] else ""
            table[line["method"]][line["round"]] = cell + star
    rounds = sorted({number for cells in table.values() for number in cells})
    print("| method |" + "".join(f" {number + 1} |" for number in rounds))
    print("|---|" + "---|" * len(rounds))
    for method, cells in table.items():
        print(f"| {method} | {' | '.join(cells.get(number, '') for number in rounds)} |")


def accuracies(found):
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


def best(run):
    return max(run["accuracy"])


def bytes_until(run, level):
    """Return the bytes at the first record after the start that is at least as good, or None."""
    return next((sent for sent, each in zip(run["bytes"][1:], run["accuracy"][1:], strict=True) if each >= level), None)
