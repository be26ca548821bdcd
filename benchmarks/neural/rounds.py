"""Compare all methods of `lessbits.neural` on one problem, with the same number of configurations each.

Configurations are run in rounds, one of every method, on one split. Then the configuration of each method that is
chosen (`rounds_table.py`) is run with other seeds, and the next split follows. Runs that are in the results already
are not repeated, so that a command that was stopped goes on where it was.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from rounds_table import chosen, print_summary

from lessbits import neural
from lessbits.neural import SimulateOptions


class Study(NamedTuple):
    """What is compared.

    Attributes:
        splits: What `make_problem` is given, by the name of a split.
        rounds: Configurations by method, for each round.
        optimizers: The local optimizer of each round, given the steps of a run.
        make_problem: Takes the arguments of the command, a split and a seed; returns a problem and a network.
        metric: What a run is judged by.
        shares: Of DDP's best, for which bytes are shown.
        goal: The share by which configurations are chosen.
        larger: Whether a larger metric is better.
    """

    splits: Mapping[str, Any]
    rounds: Sequence[Mapping[str, neural.NeuralMethod]]
    optimizers: Callable[[int], Sequence[Any]]
    make_problem: Callable[..., Any]
    metric: str
    shares: tuple[float, ...]
    goal: float
    larger: bool = False


class Job(NamedTuple):
    """A run: the number of a round, the split, the method's name in that round, and a seed."""

    round: int
    split: str
    method: str
    seed: int


def main(study, words, scale, results):
    """Run the command of a study; `scale` has the numbers that tell sizes of runs apart, and their defaults."""
    parser = argparse.ArgumentParser(description=words.splitlines()[0])
    parser.add_argument("--data", type=Path, help="where the data are")
    parser.add_argument("--seconds", type=float, default=600.0, help="no run begins later than this")
    parser.add_argument("--processes", type=int, default=1, help="runs at the same time")
    parser.add_argument("--results", type=Path, default=results, help="lines of JSON, one per run")
    parser.add_argument("--summary", type=Path, help="print the tables of these results, and run nothing")
    parser.add_argument("--rounds", type=int, default=len(study.rounds), help="configurations of each method")
    parser.add_argument("--seeds", type=int, default=3, help="of the configurations that are chosen")
    parser.add_argument("--only", default="", help="methods, with commas; all by default")
    parser.add_argument("--split", default="", help="a part of the names of splits")
    for name, value in scale.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    given = parser.parse_args()
    if given.summary is None:
        run_all(study, given, tuple(scale))
    print_summary(study, given.summary or given.results)


def run_all(study, given, scale):
    """Run what is not in the results yet: of each split all rounds, then other seeds of what was chosen."""
    deadline = time.time() + given.seconds
    methods = [each for each in study.rounds[0] if not given.only or each in given.only.split(",")]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for split in (each for each in study.splits if given.split in each):
            tried = [Job(number, split, method, 0) for number in range(given.rounds) for method in methods]
            run_jobs(study, given, scale, tried, pool, deadline)
            lines = read(given, scale)
            if not missing(tried, lines):
                best = {method: chosen(study, lines, split, method) for method in methods}
                again = [Job(best[each], split, each, seed) for seed in range(1, given.seeds) for each in best]
                run_jobs(study, given, scale, again, pool, deadline)


def read(given, scale):
    """Return the results at this scale."""
    if not given.results.is_file():
        return []
    lines = [json.loads(line) for line in given.results.read_text().splitlines()]
    return [line for line in lines if line["scale"] == {name: getattr(given, name) for name in scale}]


def missing(jobs, lines):
    done = {Job(*(line[name] for name in Job._fields)) for line in lines}
    return [job for job in jobs if job not in done]


def run_jobs(study, given, scale, jobs, pool, deadline):
    """Run jobs in all processes, and write each result when it is there."""
    waiting = [(study, given, scale, job, deadline) for job in missing(jobs, read(given, scale))]
    for line in pool.imap_unordered(run_job, waiting):
        if line is not None:
            with given.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{line['split']}, {line['method']}, round {line['round']}: {line['seconds']:.0f} s", flush=True)


def run_job(work):
    """Return the line of a run, or None if it is too late to begin."""
    study, given, scale, job, deadline = work
    if time.time() > deadline:
        return None
    method, began = study.rounds[job.round][job.method], time.monotonic()
    options = SimulateOptions(max(1, given.steps // given.records))
    problem, network = study.make_problem(given, study.splits[job.split], job.seed)
    optimizer = study.optimizers(given.steps)[job.round]
    trace = neural.simulate(problem, optimizer, method, network, given.steps, job.seed, options)
    kept = {each: trace[each].tolist() for each in ("step", "bytes", study.metric, f"{study.metric}_worst")}
    line = {**job._asdict(), "scale": {name: getattr(given, name) for name in scale}, "settings": repr(method)}
    return line | {"device": jax.default_backend(), "seconds": time.monotonic() - began, "records": kept}
