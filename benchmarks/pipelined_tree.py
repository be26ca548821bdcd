"""Seconds under three models of a link: sums over a tree, in chunks or not, and our gossip.

    python benchmarks/pipelined_tree.py [--w1a FILE] [--columns ring-100 …] [--out FILE.json]

Each column is measured once and kept in FILE.json; the tables are in FILE.md.

Columns, seeds and targets are those of `benchmarks/bits`. Exchanges and bits of gossip are those that were kept in
benchmarks/bits/cells.json: tuned for the fewest bits, with practical step sizes, with schedules, and with float32,
tuned. A table shows the fastest of them. "All-reduce" is a tree with float32 messages. The plain tree is the one with
the fewest bits. The pipelined tree has two roots where a round is shorter so, and the fineness and the number of chunks
that are fastest by what seed 0 needs with one chunk; in ridge regression, where `newton-tree` was tried too, also the
method.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "bits"))

from columns import MOST, columns, goal_of, parts
from measure import SEEDS

from lessbits import LinkModel, simulate
from lessbits.tuning.chunks import fastest_chunks
from lessbits.tuning.stepsizes import make_method, make_request

LINKS = {
    "1 Mbit/s, 50 ms": LinkModel(0.05, 1e6),
    "10 Mbit/s, 10 ms": LinkModel(0.01, 1e7),
    "1 Gbit/s, 0.1 ms": LinkModel(0.0001, 1e9),
}
GOSSIP = ("gossip", "gossip-practical", "scheduled", "accelerated", "proximal", "uncompressed")
FINENESSES = (10, 30, 100, 1000, 10_000, 100_000, 300_000, 1_000_000)
TITLES = (
    *("", "fastest gossip", "s", "all-reduce, s", "kbit", "tree, one chunk, s", "kbit"),
    *("pipelined tree", "s", "kbit", "gossip ÷ tree"),
)
IN_BITS = LinkModel(0, 1)  # its seconds are the bits that a link sends one after the other


class Cost(NamedTuple):
    """What a run needs to its target: mean over seeds."""

    exchanges: float
    waited: float  # bits that are sent one after the other
    bits: float  # per link, with headers

    def seconds(self, link):
        return self.exchanges * link.latency + self.waited / link.bandwidth


def tree(column, target, w1a, name="tree", seeds=range(SEEDS), **choices):
    """The cost of runs to the target; None if one does not get there."""
    found = []
    for seed in seeds:
        problem, network = parts(column, seed, w1a)
        options = {"until": target, "goal": goal_of(column), "iterations": 4 * MOST[target], "record_every": 1}
        method = make_method(name, problem, network, **choices)
        trace = simulate(problem, network, method, seed=seed, link_model=IN_BITS, **options)
        if not trace.converged:
            return None
        found.append([float(trace[name][-1]) for name in ("iteration", "simulated_seconds", "wire_bits_per_link")])
    return Cost(*np.mean(found, axis=0))


def gossip(found):
    """The cost of gossip as it was kept. All links send in every exchange, so that they wait for their own bits."""
    return Cost(found["iterations"], found["bits"], found["bits"])


def fastest_tree(column, target, w1a, tried, link):
    """Return the settings and the cost of the tree that is fastest; `tried` are runs of seed 0 with one chunk."""
    problem, network = parts(column, 0, w1a)
    ranked = []
    for (name, quantizer), cost in tried.items():
        request = make_request(name, problem, network, quantizer, stepsizes="theory", target=None)[1]
        chunks = fastest_chunks(request, link)
        message = cost.waited / cost.exchanges
        one, many = (make_method(name, problem, network, quantizer, chunks=count) for count in (1, chunks))
        exchanges = cost.exchanges / one.round_length * many.round_length
        ranked.append((exchanges * (link.latency + (72 + message / chunks) / link.bandwidth), name, quantizer, chunks))
    for _, name, quantizer, chunks in sorted(ranked):
        choice = {"name": name, "quantizer": quantizer, "chunks": chunks}
        cost = tree(column, target, w1a, **choice)
        if cost is not None:
            return {**choice, "cost": cost, "seconds": cost.seconds(link)}
    return None


def row(column, target, w1a, cells):
    """All that the table says about a column."""
    name = f"{column}, {target:g}"
    about = column, target, w1a
    kept = {kind: cells.get(f"{kind}|{name}") for kind in GOSSIP}
    others = {kind: gossip(found) for kind, found in kept.items() if found}
    thrifty = cells[f"tree|{name}"]["quantizer"]
    plain = tree(*about, quantizer=thrifty)
    kinds = ("tree", "newton-tree") if column.startswith("ridge") else ("tree",)
    if make_method("twin-tree", *parts(column, 0, w1a)).top:
        kinds = ("twin-tree", *kinds[1:])
    choices = [(kinds[0], thrifty), *((kind, f"grid:{fineness}") for kind in kinds for fineness in FINENESSES)]
    runs = {choice: tree(*about, choice[0], (0,), quantizer=choice[1]) for choice in choices}
    tried = {choice: cost for choice, cost in runs.items() if cost is not None}
    found = {"gossip": others, "plain": plain, "all-reduce": tree(*about, quantizer="float32")}
    for title, link in LINKS.items():
        fastest = min(others, key=lambda kind: others[kind].seconds(link))
        best = fastest_tree(*about, tried, link)
        found[title] = {"gossip": fastest, "seconds": others[fastest].seconds(link), "tree": best}
    return found


def table(rows):
    lines = []
    for title, link in LINKS.items():
        lines += [f"\n{title}\n", f"| {' | '.join(TITLES)} |", "|---|---|---:|---:|---:|---:|---:|---|---:|---:|---:|"]
        for name, found in rows.items():
            here, best, trees = (
                found[title],
                found[title]["tree"],
                [Cost(*found[kind]) for kind in ("all-reduce", "plain")],
            )
            cells = [name, here["gossip"], f"{here['seconds']:.4g}"]
            cells += [f"{number:.4g}" for each in trees for number in (each.seconds(link), each.bits / 1000)]
            cells += [f"{best['name']}, {best['quantizer']}, C = {best['chunks']}", f"{best['seconds']:.4g}"]
            cells += [f"{Cost(*best['cost']).bits / 1000:.4g}", f"{here['seconds'] / best['seconds']:.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def short_table(rows):
    """A line for each column: seconds of the fastest gossip, and of the fastest tree, under each link."""
    lines = [f"| | fastest gossip | tree | {' | '.join(LINKS)} |", "|---|---|---|---:|---:|---:|"]
    for name, found in rows.items():
        chosen = [found[title]["tree"] for title in LINKS]
        words = dict.fromkeys(f"`{each['name']}` with `{each['quantizer']}`" for each in chosen)
        counts = dict.fromkeys(str(each["chunks"]) for each in chosen)
        cells = [name, " or ".join(dict.fromkeys(found[title]["gossip"] for title in LINKS))]
        cells.append(f"{' or '.join(words)}, C = {' or '.join(counts)}")
        cells += [f"{found[title]['seconds']:.3g} / {found[title]['tree']['seconds']:.3g} s" for title in LINKS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--w1a", default=None, help="the file w1a, for the last column")
    words.add_argument("--columns", nargs="*", help="only columns that start so")
    words.add_argument("--out", type=Path, default=Path(__file__).parent / "bits" / "pipelined_tree.json")
    told = words.parse_args()
    cells = json.loads((Path(__file__).parent / "bits" / "cells.json").read_text())
    rows = json.loads(told.out.read_text()) if told.out.exists() else {}
    for column, target in columns():
        name = f"{column}, {target:g}"
        chosen = not told.columns or name.startswith(tuple(told.columns))
        if name in rows or not chosen or (column.startswith("w1a") and told.w1a is None):
            continue
        rows[name] = row(column, target, told.w1a, cells)
        told.out.write_text(json.dumps(rows, indent=1))
        print(name, rows[name], flush=True)
    rows = {name: rows[name] for name in (f"{column}, {target:g}" for column, target in columns()) if name in rows}
    told.out.with_suffix(".md").write_text(f"{table(rows)}\n\nGossip / tree\n\n{short_table(rows)}\n")
    print(short_table(rows))


if __name__ == "__main__":
    main()
