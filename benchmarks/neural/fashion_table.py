"""The tables of `fashion.py`: the best accuracy of each method, and the bytes that take it to DDP's."""

import json
from collections import defaultdict

SHARES = (1.0, 0.95, 0.9, 0.8)  # of DDP's best accuracy


def print_summary(path):
    """Print a table for each split, of whole rounds, in Markdown."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    scales = {json.dumps(line["scale"]) for line in lines}
    for scale in sorted(scales):
        chosen = [line for line in lines if json.dumps(line["scale"]) == scale]
        rounds = whole_rounds(chosen)
        print(f"\n{', '.join(f'{value} {name}' for name, value in json.loads(scale).items())}", end="; ")
        print(f"{len(rounds)} configurations per method; {sum(line['seconds'] for line in chosen):.0f} s")
        for split in dict.fromkeys(line["split"] for line in chosen):
            print_split(split, [line for line in chosen if line["split"] == split and line["round"] in rounds])


def whole_rounds(lines):
    """Return the numbers of the rounds in which every method ran on both splits."""
    found = defaultdict(set)
    for line in lines:
        found[line["round"]].add((line["method"], line["split"]))
    most = max(map(len, found.values()))
    return {number for number, runs in found.items() if len(runs) == most}


def print_split(split, lines):
    methods = defaultdict(list)
    for line in lines:
        methods[line["method"]].append(line["records"])
    if "DDP" not in methods:
        print(f"\n{split}: DDP is missing")
        return
    goal = max(best(run) for run in methods["DDP"])
    most = min(filter(None, (bytes_until(run, goal) for run in methods["DDP"])))
    print(f"\nSplit {split}. DDP's best accuracy is {goal:.4f}, after {most / 1e6:.2f} MB per node.\n")
    names = "".join(f" {share:.0%} of DDP's |" if share < 1 else " DDP's accuracy |" for share in SHARES)
    print(f"| method | best accuracy | of the worst node | MB per node in all |{names}")
    print("|---|---|---|---|" + "---|" * len(SHARES))
    rows = []
    for name, runs in methods.items():
        reached = [
            min(filter(None, (bytes_until(run, share * goal) for run in runs)), default=None) for share in SHARES
        ]
        run = max(runs, key=best)
        rows.append((best(run), name, run, reached))
    for accuracy, name, run, reached in sorted(rows, key=lambda row: -row[0]):
        place = run["accuracy"].index(accuracy)
        fewer = " | ".join("–" if sent is None else f"{most / sent:.1f}" for sent in reached)
        print(
            f"| {name} | {accuracy:.4f} | {run['accuracy_worst'][place]:.4f} | {run['bytes'][-1] / 1e6:.3f} | {fewer} |"
        )


def best(run):
    return max(run["accuracy"])


def bytes_until(run, level):
    """Return the bytes at the first record that is at least as good, or None."""
    return next(
        (sent for sent, each in zip(run["bytes"], run["accuracy"], strict=True) if each >= level and sent), None
    )
