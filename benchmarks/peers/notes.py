"""What each process of a run notes as it goes, and what the notes of all tell: seconds and bytes to a suboptimality."""

import time
from pathlib import Path

import numpy as np

DEVICE = Path("/sys/class/net/site/statistics/tx_bytes")  # of this host, in its own network namespace
LEVELS = (1e-3, 1e-4, 1e-6)


class Notes:
    """The iterates of one process, with the times and the bytes sent until then; in memory until they are saved."""

    def __init__(self, file):
        self.file, self.rows, self.points = file, [], []

    def add(self, iteration, point):
        """Note an iterate."""
        sent = int(DEVICE.read_text()) if DEVICE.exists() else 0
        self.rows.append((time.monotonic(), iteration, sent))
        self.points.append(np.array(point))

    def save(self):
        """Write all notes to the file."""
        np.savez(self.file, rows=np.array(self.rows), points=np.array(self.points))


def read_curve(files, loss, optimum):
    """Return seconds, iterations, bytes sent per site, and suboptimality of the mean model, at the noted times.

    At each time, the mean is over the last iterate that each process had noted. Clocks of one machine agree.
    """
    notes = [np.load(file) for file in files]
    rows, points = [each["rows"] for each in notes], [each["points"] for each in notes]
    began = max(each[0, 0] for each in rows)  # before, some site was not there yet
    curve = []
    for now in sorted({float(when) for each in rows for when in each[:, 0]}):
        last = [max(0, np.searchsorted(each[:, 0], now, "right") - 1) for each in rows]
        mean = np.mean([each[at] for each, at in zip(points, last, strict=True)], axis=0, dtype=float)
        sent = np.mean([each[at, 2] - each[0, 2] for each, at in zip(rows, last, strict=True)])
        number = min(each[at, 1] for each, at in zip(rows, last, strict=True))
        curve.append((max(now - began, 0.0), number, sent, loss(mean)[0] - optimum))
    return np.array(curve)


def reached(curve, level):
    """Return the first row of a curve at or below a suboptimality; None if there is none."""
    found = np.flatnonzero(curve[:, 3] <= level)
    return None if not len(found) else curve[found[0]]
