"""Bits per link and seconds to a target, for every method, each tuned in all its parameters: 3 seeds.

    python benchmarks/bits --w1a FILE [--out FOLDER] [--columns ring-100 …] [--methods tree lead …]
                           [--remeasure | --refine | --table | --merge FILE] [--tune-large] [--seeds 3] [--minutes 20]

Each cell is found once and kept in FOLDER/cells.json, so that a second call goes on from there. With --remeasure those
that are there are measured again, with what was found for them, and with --refine searched around it, and around what
other rows of its family have found; these write each
cell as soon as it is done, and go through all, so name columns and methods to go on after an interrupt. Several calls
with other columns or methods may share a folder, and --merge takes the cells of another file. The table is
FOLDER/bits.md. Bits are those of encoded bytes with headers; numbers that are not compressed have 32 bits.

Consensus with d = 10 000 starts from what was found with d = 250, levels scaled by √d: coordinates are independent, so
little else changes. With --tune-large step sizes are tuned from there, for which a GPU helps. BEER, MoTEF, C-GT and
OPAPC search 1e-10 around what was found for 1e-3. A search that takes longer than --minutes ends with the best until
then, and its cell says so.
"""

import argparse
import fcntl
import json
import math
import os
import time
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

from columns import COARSE, LARGE, SMALL, columns, named  # noqa: E402
from kin import kin_of  # noqa: E402
from measure import SEEDS  # noqa: E402
from rows import ROWS, SLOW, Cell, TimeUpError  # noqa: E402
from table import fill_page, kbit, page, summary  # noqa: E402

from lessbits._internal.files import write_whole  # noqa: E402


def arguments():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--w1a", default=None, help="the file w1a, for the last column")
    words.add_argument("--out", type=Path, default=Path(__file__).parent)
    words.add_argument("--columns", nargs="*", default=[""], help="only columns that start so")
    words.add_argument("--methods", nargs="*", choices=ROWS, default=list(ROWS))
    words.add_argument("--seeds", type=int, default=SEEDS, help="seeds of problem and run that are measured")
    words.add_argument("--minutes", type=float, default=math.inf, help="how long the search of a cell may take")
    words.add_argument("--tune-large", action="store_true", help="tune step sizes with d = 10 000 too")
    how = words.add_mutually_exclusive_group()
    how.add_argument("--remeasure", action="store_true", help="measure again what was found")
    how.add_argument("--refine", action="store_true", help="search around what was found")
    how.add_argument("--merge", type=Path, help="take cells of this file that are missing here, or better")
    how.add_argument("--table", action="store_true", help="only write the tables, also to docs/fewest-bits.md")
    return words.parse_args()


def asked(told):
    """Yield the rows and columns that are asked for."""
    for column, target in columns():
        name = named(column, target)
        if not name.startswith(tuple(told.columns)):
            continue
        if column.startswith("w1a") and told.w1a is None:
            print(f"{name}: skipped, as no --w1a was given")
            continue
        yield from ((row, column, target) for row in told.methods if column.startswith(ROWS[row].only))


def find(told, cells, row, column, target):
    """Return what is to be written in a cell."""
    name = f"{row}|{named(column, target)}"
    cell = Cell(row, column, target, told.w1a, told.seeds, told.minutes)
    if name in cells and told.remeasure:
        return cell.again(cells[name])
    beside = {each: cells.get(f"{each}|{named(column, target)}") for each in ROWS}
    if name in cells and told.refine:
        return cell.refined(cells[name], kin_of(row, beside))
    if ROWS[row].link is not None:
        return cell.fastest(beside)
    anew = (ROWS[row].method or row) in ("tree", "scheduled")
    if f"d={LARGE}" in column and not anew:
        return cell.scaled_up(cells.get(name.replace(str(LARGE), str(SMALL))), told.tune_large)
    coarse = cells.get(f"{row}|{named(column, COARSE)}") if row in SLOW and target < COARSE else None
    return cell.tuned() if coarse is None else cell.refined(coarse)


def keep(folder, name, found):
    """Write a cell, and return all cells: others may have written some of their own meanwhile."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cells = {**kept_in(folder), name: found}
        write_whole(folder / "cells.json", json.dumps(cells, indent=1))
    finally:
        os.close(lock)
    return cells


def merge(folder, file):
    """Take the cells of a file that are missing in the folder, or better than those there."""
    for name, found in json.loads(file.read_text()).items():
        kept, row = kept_in(folder).get(name), ROWS[name.partition("|")[0]]
        if not kept or "worst" not in kept or (found and cost_in(found, row) < cost_in(kept, row)):
            keep(folder, name, found)


def cost_in(cell, row):
    """What a row is tuned for: seconds on a kind of links, or bits."""
    return cell["bits"] if row.link is None else cell["seconds"][row.link]


def kept_in(folder):
    """Return the cells of a folder."""
    file = folder / "cells.json"
    return json.loads(file.read_text()) if file.exists() else {}


def main():
    told = arguments()
    told.out.mkdir(parents=True, exist_ok=True)
    cells = kept_in(told.out)
    if told.merge:
        merge(told.out, told.merge)
        cells = kept_in(told.out)
    for row, column, target in [] if told.table or told.merge else asked(told):
        name = f"{row}|{named(column, target)}"
        if (name in cells) != (told.remeasure or told.refine):
            continue
        clock = time.perf_counter()
        try:
            found = find(told, cells, row, column, target)
        except TimeUpError:
            print(f"{named(column, target)}: {row} found nothing in {told.minutes:g} minutes", flush=True)
            continue
        cells = keep(told.out, name, found)
        shown = "not reached" if found is None else f"{kbit(found['bits'])} kbit"
        print(f"{named(column, target)}: {row} {shown}, {time.perf_counter() - clock:.0f} s", flush=True)
    write_whole(told.out / "bits.md", page(cells))
    if (told.table or told.merge) and told.out == Path(__file__).parent:
        fill_page(cells)
    print(summary(cells))


if __name__ == "__main__":
    main()
