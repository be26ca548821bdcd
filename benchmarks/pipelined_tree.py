"""Seconds under three models of a link: sums over a tree, in chunks or not, and our gossip.

    python benchmarks/pipelined_tree.py [--w1a FILE] [--columns ring-100 …] [--out FILE]

Columns, seeds and targets are those of `benchmarks/bits.py`. Gossip has the quantizers and step sizes that were kept in
benchmarks/bits/cells.json: those that need the fewest bits, the practical ones, and exact messages, whose numbers are
counted as float32 here. A table shows the fastest of them. The plain tree is the one with the fewest bits. The
pipelined tree has the fineness and the number of chunks that are fastest by what seed 0 needs with one chunk.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bits import MOST, SEEDS, columns, goal_of, parts

from lessbits import LinkModel, simulate
from lessbits.networks.tree import spanning_tree
from lessbits.tuning.chunks import fastest_chunks
from lessbits.tuning.estimates import Choice
from lessbits.tuning.stepsizes import make_method, make_request

LINKS = {
    "1 Mbit/s, 50 ms": LinkModel(0.05, 1e6),
    "10 Mbit/s, 10 ms": LinkModel(0.01, 1e7),
    "1 Gbit/s, 0.1 ms": LinkModel(0.0001, 1e9),
}
GOSSIP = ("gossip", "gossip-practical", "accelerated", "exact")
FINENESSES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000)
IN_BITS = LinkModel(0, 1)  # its seconds are the bits that a link sends one after the other


class Cost(NamedTuple):
    """What a run needs to its target: mean over seeds."""

    exchanges: float
    waited: float  # bits that are sent one after the other
    bits: float  # per link, with headers

    def seconds(self, link):
        return self.exchanges * link.latency + self.waited / link.bandwidth


def measure(column, target, w1a, make, seeds=SEEDS):
    """The cost of a run to its target; None if it does not get there."""
    found = []
    for seed in seeds:
        problem, network = parts(column, seed, w1a)
        options = {"until": target, "goal": goal_of(column), "iterations": 4 * MOST[target], "record_every": 1}
        trace = simulate(problem, network, make(problem, network), seed=seed, link_model=IN_BITS, **options)
        if not trace.converged:
            return None
        found.append([float(trace[name][-1]) for name in ("iteration", "simulated_seconds", "wire_bits_per_link")])
    return Cost(*np.mean(found, axis=0))


def gossip(column, target, w1a, found):
    """The cost of gossip as it was kept."""
    fields = {name: found[name] for name in ("method", "quantizer", "messages", "corrected") if found.get(name)}
    cost = measure(column, target, w1a, lambda *about: Choice(**fields).make(*about, **found["sizes"]))
    if cost is not None and found["quantizer"] == "exact":
        cost = Cost(cost.exchanges, cost.waited / 2, cost.bits / 2)
    return cost


def tree(column, target, w1a, seeds=SEEDS, **choices):
    return measure(column, target, w1a, lambda *about: make_method("tree", *about, **choices), seeds)


def fastest_tree(column, target, w1a, tried, link):
    """Return the settings and the cost of the tree that is fastest; `tried` are runs of seed 0 with one chunk."""
    problem, network = parts(column, 0, w1a)
    ranked = []
    for quantizer, cost in tried.items():
        request = make_request("tree", problem, network, quantizer, stepsizes="theory", target=None)[1]
        chunks = fastest_chunks(request, link)
        height, message = spanning_tree(network).height, cost.waited / cost.exchanges
        exchanges = cost.exchanges / height * (height + chunks - 1)
        ranked.append((exchanges * (link.latency + (72 + message / chunks) / link.bandwidth), quantizer, chunks))
    for _, quantizer, chunks in sorted(ranked):
        cost = tree(column, target, w1a, quantizer=quantizer, chunks=chunks)
        if cost is not None:
            return {"quantizer": quantizer, "chunks": chunks, "cost": cost, "seconds": cost.seconds(link)}
    return None


def row(column, target, w1a, cells):
    """All that the table says about a column."""
    name = f"{column}, {target:g}"
    about = column, target, w1a
    kept = {kind: cells.get(f"{kind}|{name}") for kind in GOSSIP}
    others = {kind: cost for kind, found in kept.items() if found and (cost := gossip(*about, found)) is not None}
    thrifty = cells[f"tree|{name}"]["quantizer"]
    plain = tree(*about, quantizer=thrifty)
    quantizers = [thrifty, *(f"grid:{fineness}" for fineness in FINENESSES)]
    runs = {quantizer: tree(*about, seeds=(0,), quantizer=quantizer) for quantizer in quantizers}
    tried = {quantizer: cost for quantizer, cost in runs.items() if cost is not None}
    found = {"gossip": others, "plain": plain}
    for title, link in LINKS.items():
        fastest = min(others, key=lambda kind: others[kind].seconds(link))
        best = fastest_tree(*about, tried, link)
        found[title] = {"gossip": fastest, "seconds": others[fastest].seconds(link), "tree": best}
    return found


def table(rows):
    lines = []
    for title, link in LINKS.items():
        lines += [f"\n{title}\n", "| | fastest gossip | s | tree, one chunk, s | kbit | pipelined tree | s | kbit | |"]
        lines.append("|---|---|---:|---:|---:|---|---:|---:|---:|")
        for name, found in rows.items():
            here, plain = found[title], Cost(*found["plain"])
            best = here["tree"]
            shown = f"| {name} | {here['gossip']} | {here['seconds']:.4g} | {plain.seconds(link):.4g} "
            shown += f"| {plain.bits / 1000:.4g} | {best['quantizer']}, {best['chunks']} chunks "
            shown += f"| {best['seconds']:.4g} | {Cost(*best['cost']).bits / 1000:.4g} "
            lines.append(shown + f"| {here['seconds'] / best['seconds']:.2f} |")
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
    print(table(rows))


if __name__ == "__main__":
    main()
