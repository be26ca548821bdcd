"""The two problems over slow links: the engine of peers, quantized and exact, the MPI engine over TCP, and Flower."""

import json
import os
import shutil
import sys
from pathlib import Path

from engines import run_peers, run_ranks
from flower import choice_text, run_flower, tune
from notes import LEVELS, reached, read_curve
from slow_internet import SlowInternet, check
from tasks import SITES, TASKS

LATENCY = 0.05
ITERATIONS = {"fashion": 64, "w8a": 84}
PRECISION = {"fashion": (32,), "w8a": (64, 32)}  # the first is that of the quantized rows
FLOWER_SECONDS = 200


def measure(name, data, folder, flower, quick=False):
    """Return what the links are, as measured, and a row for each way to solve a problem.

    Rows are kept in the folder, so that a measurement that was interrupted goes on.
    """
    task, folder = TASKS[name](data, quick), Path(folder)
    optimum, loss = task.optimum(folder), task.loss()
    notes = [task.title]
    with SlowInternet(2, task.rate, LATENCY) as space:
        trip, speed = check(space)
        notes.append(f"links: {space}; measured: round trip {1000 * trip:.0f} ms, {speed / 1e6:.3g} Mbit/s by TCP")
    rows = []
    for who, run, settings in _ways(task, quick):

        def solve(place, run=run, settings=settings):
            with SlowInternet(SITES, task.rate, LATENCY) as space:
                return _row(run(space, task, place, settings), loss, optimum)

        rows.append(_kept(folder, name, who, solve))
    if flower is None:
        notes.append("Flower: left out, as no --flower was given")
        return notes, rows
    for who, proximal in {"Flower, FedAvg": False, "Flower, FedProx": True}.items():
        choice = tune(task, optimum, proximal, LEVELS[-1], folder)
        notes.append(f"{who}: {choice_text(choice)}")

        def learn(place, choice=choice):
            with SlowInternet(SITES + 1, task.rate, LATENCY) as space:
                files = run_flower(space, task, place, flower, choice, 30 if quick else FLOWER_SECONDS)
                found = _row(files, loss, optimum)
                return {**found, "client": sum(space.sent()[:-1]) / SITES / found["iterations"]}

        rows.append(_kept(folder, name, who, learn))
        notes.append(f"{who}: a client sends {rows[-1]['client'] / 1e3:.1f} kB in a round")
    return notes, rows


def _kept(folder, name, who, find):
    """Return the row of a run, which is found unless it is in the folder; with the load of the machine before."""
    place = folder / f"{name}-{who}".replace(" ", "-").replace(",", "")
    file = place.with_suffix(".json")
    if not file.exists():
        shutil.rmtree(place, ignore_errors=True)
        load = os.getloadavg()[0]
        file.write_text(json.dumps({"who": who, "load": load, **find(place)}))
        print(f"{name}: {file.read_text()}", file=sys.stderr, flush=True)
    return json.loads(file.read_text())


def _ways(task, quick):
    """Yield the runs of this package: a name, what runs it, and its settings."""
    iterations = 10 if quick else ITERATIONS[task.name]
    first = {"precision": PRECISION[task.name][0], "iterations": iterations}
    yield f"peers, {task.quantizer}", run_peers, {**first, "quantizer": task.quantizer}
    for precision in PRECISION[task.name]:
        settings = {"quantizer": "exact", "precision": precision, "iterations": iterations}
        yield f"peers, exact in float{precision}", run_peers, settings
    yield f"MPI over TCP, {task.quantizer}", run_ranks, {**first, "quantizer": task.quantizer}


def _row(files, loss, optimum):
    curve = read_curve(files, loss, optimum)
    row = {"last": curve[-1, 3], "iterations": curve[-1, 1], "end": curve[-1, 0]}
    for level in LEVELS:
        found = reached(curve, level)
        row[f"{level:g}"] = None if found is None else [float(number) for number in found[:3]]
    return row


def table(rows):
    """Return the rows as Markdown."""
    target = f"{LEVELS[-1]:g}"
    ours = rows[0][target]
    lines = [
        "| | s to 1e-3 | s to 1e-4 | s to 1e-6 | iterations or rounds | kB sent per host (Flower: its server) "
        "| times ours | at the end | load before |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        found = row[target]
        times = [("–" if row[f"{level:g}"] is None else f"{row[f'{level:g}'][0]:.1f}") for level in LEVELS]
        count, sent = (f"{found[1]:.0f}", f"{found[2] / 1e3:.1f}") if found else (f"({row['iterations']:.0f})", "")
        ratio = f"{found[0] / ours[0]:.1f}" if found and ours else ""
        last = f"{row['last']:.1e} after {row['end']:.0f} s"
        lines.append(
            f"| {row['who']} | {' | '.join(times)} | {count} | {sent} | {ratio} | {last} | {row['load']:.1f} |"
        )
    return lines
