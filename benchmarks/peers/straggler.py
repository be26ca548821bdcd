"""One site is five times slower than the others: lockstep, which waits for it, against async, which does not.

Gradients take 40 ms at four sites and 200 ms at the fifth, and then 100 and 500 ms: they sleep so long, since the sites
share two cores. With short gradients, the work of five sites on two cores makes the fast ones slower as well.
"""

import sys
from itertools import product
from pathlib import Path

import numpy as np
from engines import HERE, make_sites
from losses import Loss
from notes import reached, read_curve
from processes import Processes

SITES, SECONDS, FACTOR = 5, (0.04, 0.1), 5
ROWS, DIM, DECAY = 200, 20, 1.0  # of each site; the k-th feature has the size k^-DECAY
LEVEL = 1e-6


def make_rows():
    """Return features and targets of each site: rows of one distribution, as sites with the same patients have."""
    generator = np.random.default_rng(0)
    sizes, truth = np.arange(1, DIM + 1.0) ** -DECAY, generator.normal(size=DIM)
    parts = []
    for _ in range(SITES):
        features = generator.normal(size=(ROWS, DIM)) * sizes
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        parts.append((features, features @ truth + 0.3 * generator.normal(size=ROWS)))
    return parts


def run_sites(folder, settings, slow, seconds, every=1, rows=None):
    """Run sites on loopback, and return the files of their notes.

    Args:
        folder: Where all files go.
        settings: The settings of the roster.
        slow: Seconds that a gradient takes longer, for each site.
        seconds: The run must end within this time.
        every: Iterations between two notes.
        rows: The file with the rows of each site; None for a random problem.
    """
    from lessbits.config.peer_trial import _free_ports

    sites = make_sites(folder, [f"127.0.0.1:{port}" for port in _free_ports(len(slow))], settings)
    files = [folder / f"notes-{number}.npz" for number in range(len(slow))]
    with Processes(folder / "log.txt") as processes:
        for site, file, extra in zip(sites, files, slow, strict=True):
            command = [sys.executable, HERE / "site_worker.py", file, every, site, "--begin-after", "300"]
            command += ["--json", file.with_suffix(".json")]
            command += ["--data", rows[len(processes.started)]] if rows else []
            processes.start(command, **({"GRADIENT_SECONDS": str(extra)} if extra else {}))
        # A slower site need not do as many iterations as the others: it is told to leave when they have.
        least = min(slow)
        processes.wait(seconds, [each for each, extra in zip(processes.started, slow, strict=True) if extra == least])
    return files


def measure(folder, quick=False):
    """Return a row for each time of a gradient and mode: seconds, iterations of all sites, suboptimality at the end."""
    parts = make_rows()
    features, targets = (np.concatenate([part[entry] for part in parts]) for entry in (0, 1))
    loss = Loss("least-squares", features, targets, 0.0)
    solution = np.linalg.lstsq(features, targets, rcond=None)[0]
    optimum, found = loss(solution)[0], []
    for gradient, (mode, iterations) in product(SECONDS, {"lockstep": 400, "async": 1200}.items()):
        slow = [gradient] * (SITES - 1) + [FACTOR * gradient]
        place = Path(folder) / f"straggler-{len(found)}"
        place.mkdir(parents=True)
        rows = [place / f"rows-{number}.npz" for number in range(SITES)]
        for file, (own, aims) in zip(rows, parts, strict=True):
            np.savez(file, features=own, labels=aims)
        settings = {"problem": "least-squares", "regularization": 0.0, "quantizer": "dit-4", "mode": mode}
        settings["iterations"] = iterations // 10 if quick else iterations
        files = run_sites(place, settings, slow, 500, rows=rows)
        curve = read_curve(files, loss, optimum)
        first = reached(curve, 1e-1 if quick else LEVEL)
        until = curve[-1, 0] if first is None else first[0]
        notes = [np.load(file)["rows"] for file in files]
        began = max(each[0, 0] for each in notes)
        counts = [int((each[:, 0] <= began + until).sum()) - 1 for each in notes]
        seconds = None if first is None else until
        found.append({"gradient": gradient, "mode": mode, "seconds": seconds, "counts": counts, "last": curve[-1, 3]})
    return found
