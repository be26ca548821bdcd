"""What a round costs where computing costs nothing: consensus on loopback, beside MPI; and the speed of a link."""

import json
import sys
from pathlib import Path

import numpy as np
from engines import HERE
from processes import Processes
from straggler import run_sites

SITES, DIM, LONG_DIM, WINDOW = 5, 250, 1_000_000, 100
SIZES = {"theta": 0.3, "eta": 0.5, "alpha": 0.5, "gamma": 1.0}


def per_round(folder, quick=False):
    """Return a row for each engine and quantizer: the best and the median µs per iteration, of windows of 100."""
    iterations = 300 if quick else 2000
    rows = []
    for quantizer in ("exact", "dit-4"):
        settings = {"problem": "consensus", "dim": DIM, "quantizer": quantizer, "iterations": iterations, **SIZES}
        place = Path(folder) / f"overhead-{quantizer}"
        files = run_sites(place, settings, [0.0] * SITES, 300, every=WINDOW)
        rows.append({"engine": "peers", "quantizer": quantizer, **_windows(files[0])})
        place = Path(folder) / f"overhead-mpi-{quantizer}"
        rows.append({"engine": "MPI", "quantizer": quantizer, **_windows(_ranks(place, quantizer, iterations))})
    return rows


def _ranks(folder, quantizer, iterations):
    from lessbits.engines.distributed.launch import find_mpiexec

    folder.mkdir(parents=True)
    given = {"kind": "consensus", "nodes": SITES, "dim": DIM, "quantizer": quantizer, "sizes": SIZES, "files": []}
    (folder / "task.json").write_text(json.dumps({**given, "precision": 64, "iterations": iterations}))
    worker = [sys.executable, HERE / "rank_worker.py", folder, WINDOW, folder / "task.json"]
    with Processes(folder / "log.txt") as processes:
        processes.start([find_mpiexec(), "-n", SITES, *worker])
        processes.wait(300)
    return folder / "notes-0.npz"


def _windows(file):
    """The first window has the wait for the others in it, and is left out."""
    times = np.diff(np.load(file)["rows"][:, 0])[1:] / WINDOW * 1e6
    return {"best": float(times.min()), "median": float(np.median(times))}


def throughput(folder, quick=False):
    """Return a row for each quantizer: what one link of two sites carries, each way at once."""
    iterations = 10 if quick else 40
    rows = []
    for quantizer in ("exact", "dit-12", "dit-4"):
        settings = {"problem": "consensus", "dim": LONG_DIM, "quantizer": quantizer, "iterations": iterations, **SIZES}
        place = Path(folder) / f"link-{quantizer}"
        files = run_sites(place, {**settings, "precision": 32, "theta": 0.02}, [0.0] * 2, 300)
        times = np.load(files[0])["rows"][:, 0]
        seconds = float(np.median(np.diff(times)[1:]))
        sent = json.loads(files[0].with_suffix(".json").read_text())["sent_bytes"] / iterations
        speeds = {"payload": 4 * LONG_DIM / seconds / 1e6, "wire": 8 * sent / seconds / 1e6}
        rows.append({"quantizer": quantizer, "seconds": seconds, "message": sent, **speeds})
    return rows
