"""Practical step sizes beside tuned ones: bits per link to a target, on random combinations of network and problem.

    python benchmarks/defaults --data FOLDER [--cases 50] [--first 0] [--processes 1] [--out FILE] [--finer]

FOLDER has a9a, mushrooms, w1a and w8a in LIBSVM's format, and fashion-mnist. A case is drawn from its number alone. For
each, and for primal-dual, LEAD and accelerated with the same quantizer:

- before: step sizes that are predicted, tried once, and halved until they are stable
- practical: what `--stepsizes practical` is; it does not know x*
- tuned: the fewest bits that `lessbits.tune` finds over all step sizes, which knows x*, from the better of these two

- finer (with --finer): step sizes around the tuned ones, moved by 5 to 30 %, for rows whose ratio is 1.4 to 2

Every row is kept in FILE as it is found, so that a second call goes on from there. Then the distribution of the ratios
of the first cases, as far as all are known, is printed; docs/draw_defaults.py draws it. Cases from 1000 on were used
while the rules were made, those from 0 to 49 were not, but for case 16. Cases -3 to -1 are like those of an audit.
"""

import argparse
import json
import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from cases import draw_case
from runs import make_finer, make_row
from table import KINDS, METHODS, ratio, show, whole

from lessbits._internal.programs import keep_compiled

HERE = Path(__file__).parent
CLOSE = 1.4  # ratios from here to 2 may be above 2 beside finer step sizes


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    words.add_argument("--cases", type=int, default=50)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--processes", type=int, default=1)
    words.add_argument("--out", type=Path, default=HERE / "results.jsonl")
    words.add_argument("--finer", action="store_true", help="search around tuned step sizes, where this may matter")
    told = words.parse_args()
    rows = [json.loads(line) for line in told.out.read_text().splitlines()] if told.out.exists() else []
    if told.finer:
        refine(rows, told)
        return
    known = {(row["seed"], row["method"]) for row in rows}
    wanted = [(number, name) for number in range(told.first, told.first + told.cases) for name in METHODS]
    missing = sorted(set(wanted) - known, key=lambda each: -_length(each[0]))
    # Processes that are forked would share the threads of JAX.
    with ProcessPoolExecutor(told.processes, multiprocessing.get_context("spawn"), keep_compiled) as pool:
        started = {pool.submit(make_row, *each, told.data): each for each in missing}
        for done in as_completed(started):
            if done.exception() is not None:  # the others are not lost
                print(*started[done], "failed:", repr(done.exception()), flush=True)
                continue
            row, seconds = done.result()
            rows.append(row)
            with told.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            ratios = ", ".join(f"{kind} {ratio(row, kind):.2f}" for kind in KINDS)
            print(row["seed"], row["method"], f"{ratios}, {seconds:.0f} s", flush=True)
    rows.sort(key=lambda row: (row["seed"], METHODS.index(row["method"])))
    told.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    show(whole(rows))


def refine(rows, told):
    """Search around the tuned step sizes of rows that this may take beyond 2, and write all rows again."""
    wanted = [place for place, row in enumerate(rows) if CLOSE <= ratio(row, "practical") <= 2 and "finer" not in row]
    with ProcessPoolExecutor(told.processes, multiprocessing.get_context("spawn"), keep_compiled) as pool:
        started = {pool.submit(make_finer, rows[place], told.data): place for place in wanted}
        for done in as_completed(started):
            row = rows[started[done]] = done.result()
            before = ratio(row | {"finer": row["tuned"]}, "practical")
            print(row["seed"], row["method"], f"{before:.2f}, finer {ratio(row, 'practical'):.2f}", flush=True)
            told.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    show(whole(rows))


def _length(number):
    """Return a guess of how long the runs of a case are: the longest are started first, so that no process waits."""
    case = draw_case(number)
    return -case["condition"] * math.log(case["target"])


if __name__ == "__main__":
    main()
