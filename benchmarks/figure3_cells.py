"""Compute the cells of Figure 3 and Table 5 in several processes, for `lessbits reproduce` to draw.

    python benchmarks/figure3_cells.py --processes 16
    lessbits reproduce table5
    lessbits reproduce fig3

`lessbits reproduce` computes them too, one after the other. Here the processes may be killed after --seconds: the same
command then goes on from the runs that had ended. With --patient parameters of w8a at batch size one are tuned on w8a
without a GPU too, which takes hours; by default they are those of w1a. With --tuned FOLDER the parameters are those of
a folder of Table 5 that this version would make, and only the curves are run.
"""

import argparse
import multiprocessing
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

CASES = [("w1a", "batch size 1"), ("w1a", "full batch"), ("w8a", "full batch"), ("w8a", "batch size 1")]
# Methods whose tasks are long; they come first among those of a case.
LONG = ["option C, dit-3", "Choco-SGD, dit-3", "QDGD, dit-3", "option D, dit-3", "LEAD with option C, dit-3"]


class Task(NamedTuple):
    """A method on a data set, to be tuned and run."""

    data: str
    gradients: str
    label: str


def tasks(only: str) -> list[Task]:
    """Return the tasks whose names have the text, those that others need first."""
    from lessbits.experiments.table5 import ENTRANTS

    every = [Task(*each, one.label) for each in CASES for one in ENTRANTS[each[1]]]
    return sorted((task for task in every if only in ", ".join(task)), key=_rank)


def _rank(task: Task) -> tuple[int, int]:
    newton = task.data == "w8a" and task.label.endswith("(proven)")  # a minute on a GPU, but a quarter hour on a core
    return len(CASES) if newton else CASES.index(task[:2]), [*LONG, task.label].index(task.label)


def start(out: str, are_patient: bool = False) -> None:
    """Set up a process: one thread for the runs of a search, so that those that have ended are kept."""
    global results, patient
    import jax

    jax.config.update("jax_enable_x64", True)
    from lessbits.engines.simulate import sweep
    from lessbits.experiments.results import Results

    sweep.MOST_WORKERS = 1
    results, patient = Results(Path(out) / "fig3", "fig3", progress=False), are_patient


@cache
def case(data: str, gradients: str):
    """Return a data set and a kind of gradients; a process loads each once."""
    from lessbits.experiments.table5 import Case

    return Case(results, data, gradients)


def compute(task: Task) -> tuple[Task, float]:
    """Tune and run one method, and return the seconds that it took."""
    clock = time.perf_counter()
    mine = case(task.data, task.gradients)
    entrant = next(one for one in mine.entrants if one.label == task.label)
    mine.curve(entrant, mine.tuned(entrant, patient=patient)["sizes"])
    return task, time.perf_counter() - clock


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", default="out/reproduction")
    arguments.add_argument("--only", default="", help="a part of names such as 'w8a, full batch, D-GD'")
    arguments.add_argument("--processes", type=int, default=2)
    arguments.add_argument("--seconds", type=float, default=float("inf"))
    arguments.add_argument("--patient", action="store_true", help="tune on w8a at batch size one too")
    arguments.add_argument("--tuned", type=Path, help="take the parameters from this folder of Table 5")
    given = arguments.parse_args()

    end = time.perf_counter() + given.seconds
    start(given.out)
    from lessbits.experiments.made_with import keep_cells_of_one_version
    from lessbits.experiments.tuned_before import keep_tuned

    keep_cells_of_one_version(Path(given.out) / "cells" / "fig3", "fig3")
    if given.tuned is not None:
        print(f"{keep_tuned(results, given.tuned)} methods have the parameters of {given.tuned}.", flush=True)
    left = tasks(given.only)
    with multiprocessing.get_context("spawn").Pool(given.processes, start, (given.out, given.patient)) as pool:
        done = pool.imap_unordered(compute, left)
        try:
            for _ in left:
                task, seconds = done.next(max(0.0, min(end - time.perf_counter(), 1e6)))
                print(f"{', '.join(task)}: {seconds:.0f} s", flush=True)
        except multiprocessing.TimeoutError:
            print(f"The {given.seconds:.0f} s are over.")


if __name__ == "__main__":
    main()
