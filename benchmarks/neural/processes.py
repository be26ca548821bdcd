"""Four processes train a character GPT over slow links: seconds and bytes until the validation loss of DDP.

    sudo python benchmarks/neural/processes.py DATA [--rates 10 100] [--seeds 0 1 2] [--only NAME …]

Each process is a host in a network namespace of its own, whose uplink is shaped with `tc … tbf`. Bytes are those that
the kernel has counted on a host's device, the mean of all hosts. Models are noted on the side and judged afterwards:
the loss of the mean of the four models, and of the worst one. DDP's loss is that of its last step with the same seed,
which sets the start and the batches. `--hivemind` is the Python of an environment that has hivemind and PyTorch.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from process_worker import NODES, Model, load, loss_of
from shaped_hosts import DEVICE, ShapedHosts
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
from processes import Processes

HERE = Path(__file__).parent
COMMON = {"batch": 4, "seconds": 300}
LOCAL = {"steps": 240, "peak": 8e-3, "note": 10, "every": 20}
OURS = {"quantizer": "block:1.5", "overlap": False, "rule": {}}
# Three settings of every way but DDP, whose rate is the best of three in one process, hivemind, and no exchange at all.
WAYS = {
    "DDP, gloo": {"way": "ddp", "steps": 100, "peak": 8e-3, "note": 100},
    "DDP, PowerSGD hook": {"way": "powersgd", **LOCAL, "steps": 150, "rank": 4},
    "DDP, PowerSGD hook, 200 steps": {"way": "powersgd", **LOCAL, "steps": 200, "rank": 4},
    "DDP, PowerSGD hook, rank 8": {"way": "powersgd", **LOCAL, "steps": 150, "rank": 8},
    "DiLoCo": {"way": "diloco", **LOCAL, "outer": 0.7, "momentum": 0.9},
    "DiLoCo, every 5": {"way": "diloco", **LOCAL, "every": 5, "outer": 1.0, "momentum": 0.3},
    "DiLoCo, every 10": {"way": "diloco", **LOCAL, "every": 10, "outer": 0.7, "momentum": 0.5},
    "lessbits": {"way": "lessbits", **LOCAL, **OURS},
    "lessbits, every 5": {"way": "lessbits", **LOCAL, **OURS, "every": 5},
    "lessbits, every 2": {"way": "lessbits", **LOCAL, **OURS, "every": 2, "steps": 160},
    "lessbits, overlap": {"way": "lessbits", **LOCAL, **OURS, "overlap": True},
    "lessbits, every 5, overlap": {"way": "lessbits", **LOCAL, **OURS, "every": 5, "overlap": True},
    "lessbits, every 2, overlap": {"way": "lessbits", **LOCAL, **OURS, "every": 2, "steps": 160, "overlap": True},
    "hivemind": {"way": "hivemind", **LOCAL},
    "alone": {"way": "alone", **LOCAL},
}  # fmt: skip
# One machine, yet no shared memory: every message goes through the host's device.
TCP = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": DEVICE}


def train(space, settings, folder, python):
    """Run four processes, and return what they noted."""
    from lessbits.engines.distributed.launch import find_mpiexec

    folder.mkdir(parents=True)
    file = folder / "settings.json"
    addresses = [space.address(number) for number in range(NODES)]
    more = {"meet": f"tcp://{addresses[0]}:7010", "addresses": addresses, "folder": str(folder)}
    file.write_text(json.dumps({**settings, **more}))
    worker = [python, HERE / "process_worker.py", file]
    variables = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": DEVICE}
    with Processes(folder / "log.txt") as processes:
        if settings["way"] == "lessbits":
            command = [find_mpiexec()]
            for number in range(NODES):
                command += [*([":"] if number else []), "-n", "1", *space.inside(number), *worker]
            processes.start(command, **TCP, **variables)
        else:
            for number in range(NODES):
                processes.start([*space.inside(number), *worker, number], **variables)
        processes.wait(settings["seconds"] + 120)
    return [dict(np.load(folder / f"notes-{number}.npz")) for number in range(NODES)]


@torch.no_grad()
def judge(found, held_out, target):
    """Return rows of seconds, steps, bytes sent by a host, the loss of the mean model and that of the worst node.

    The worst node is judged at the end, and where it may be the first time at which it has reached the target.
    """
    model, rows = Model(), []

    def loss(vector):
        nn.utils.vector_to_parameters(torch.from_numpy(vector), model.parameters())
        return float(loss_of(model, held_out))

    for number in range(count := min(len(each["notes"]) for each in found)):
        models = [each["models"][number] for each in found]
        notes = np.stack([each["notes"][number] for each in found])
        mean = loss(np.mean(models, axis=0))
        open_yet = mean <= target and not any(row[4] <= target for row in rows)
        worst = max(map(loss, models)) if open_yet or number == count - 1 else np.inf
        rows.append([notes[:, 0].max(), notes[0, 1], notes[:, 2].mean(), mean, worst])
    return np.array(rows)


def first(rows, target, column):
    """Return the first row whose loss is at most the target; None if there is none."""
    reached = np.flatnonzero(rows[:, column] <= target)
    return rows[reached[0]] if len(reached) else None


def line(name, run, ddp):
    """Return a line of the table of one seed."""
    found, worst, last = run.mean, run.worst, run.last
    if found is None:
        cells = ["–"] * 5
    else:
        ratio, fewer = f"{ddp[0] / found[0]:.1f}", f"{ddp[2] / found[2]:.0f}" if way_sends(name) else "–"
        cells = [f"{found[0]:.1f}", f"{found[1]:.0f}", f"{found[2] / 1e6:.3g}", ratio, fewer]
    cells.append("–" if worst is None else f"{worst[0]:.1f}")
    cells += [f"{last[3]:.3f}, {last[4]:.3f}", f"{last[1]:.0f} steps, {last[0]:.0f} s, {last[2] / 1e6:.3g} MB"]
    return f"| {name} | {' | '.join(cells)} | {run.load:.1f} |"


def way_sends(name):
    """Return whether bytes are compared."""
    return WAYS[name]["way"] != "alone"


HEADS = (
    "", "s", "steps", "MB per host", "times faster", "times fewer bytes", "s, worst node",
    "last loss: mean model, worst node", "after", "load before",
)  # fmt: skip


class Run(NamedTuple):
    """What a run needed until DDP's loss, by the mean model and by the worst node, and its last row."""

    mean: np.ndarray | None
    worst: np.ndarray | None
    last: np.ndarray
    load: float


def measure(space, seed, names, given, folder):
    """Print the table of one seed, and return its runs by name; the first one is DDP's."""
    held_out, runs, target = load(given.data)[1], {}, -np.inf
    print(f"\n### Seed {seed}\n", flush=True)
    for name in names:
        settings = {**COMMON, **WAYS[name], "seed": seed, "data": str(given.data)}
        python, busy = (given.hivemind or sys.executable) if name == "hivemind" else sys.executable, os.getloadavg()[0]
        try:
            notes = train(space, settings, folder / f"{seed}-{name}".replace(" ", "-"), python)
        except RuntimeError as error:
            print(f"| {name} | failed: {' '.join(str(error).split())[-300:]} |", flush=True)
            continue
        rows = judge(notes, held_out, target)
        if not runs:
            target = rows[-1][3]
            print(f"The validation loss of DDP after {rows[-1][1]:.0f} steps is {target:.4f}.\n")
            print(f"| {' | '.join(HEADS)} |\n|---{'|---:' * (len(HEADS) - 1)}|")
        runs[name] = Run(rows[-1] if not runs else first(rows, target, 3), first(rows, target, 4), rows[-1], busy)
        print(line(name, runs[name], runs[names[0]].last), flush=True)
    return runs


def summary(names, tables):
    """Print ranges over seeds; a number in parentheses says with how many of them DDP's loss was reached."""
    heads = ("", "s", "MB per host", "times faster", "times fewer bytes", "times faster, worst node")
    print(f"\n### {len(tables)} seeds\n\n| {' | '.join(heads)} |\n|---{'|---:' * (len(heads) - 1)}|")
    for name in names:
        pairs = [(runs[name], runs[names[0]].last) for runs in tables if name in runs]
        mean = [(run.mean, ddp) for run, ddp in pairs if run.mean is not None]
        worst = [ddp[0] / run.worst[0] for run, ddp in pairs if run.worst is not None]
        found = [
            span([row[0] for row, _ in mean], len(tables)),
            span([row[2] / 1e6 for row, _ in mean], len(tables)) if way_sends(name) else "–",
            span([ddp[0] / row[0] for row, ddp in mean], len(tables)),
            span([ddp[2] / row[2] for row, ddp in mean], len(tables)) if way_sends(name) else "–",
            span(worst, len(tables)),
        ]
        print(f"| {name} | {' | '.join(found)} |", flush=True)


def span(values, seeds):
    """Return the smallest and the largest value, and how many there are if some are missing."""
    if not values:
        return "–"
    words = f"{min(values):.3g} to {max(values):.3g}" if len(values) > 1 else f"{values[0]:.3g}"
    return words if len(values) == seeds else f"{words} ({len(values)} of {seeds})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rates", type=int, nargs="*", default=[100, 10])
    parser.add_argument("--only", nargs="*", default=[name for name in WAYS if name != "DDP, gloo"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--hivemind", help="a Python that has hivemind")
    given = parser.parse_args()
    given.data, names = given.data.resolve(), ["DDP, gloo", *given.only]
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *ignored: sys.exit(1))  # so that namespaces are removed then, too
    folder = Path(tempfile.mkdtemp(prefix="lessbits-"))
    try:
        for rate in given.rates:
            print(f"\n## {rate} Mbit/s", flush=True)
            with ShapedHosts(NODES, rate) as space:
                tables = [measure(space, seed, names, given, folder / str(rate)) for seed in given.seeds]
            if len(tables) > 1:
                summary(names, tables)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
