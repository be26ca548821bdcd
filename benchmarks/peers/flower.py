"""Flower over the same links: its choices, tuned beforehand without a network, and its run."""

import json
import time
from pathlib import Path

import numpy as np
from flower_worker import local_steps
from losses import Loss
from processes import Processes

HERE = Path(__file__).parent
PORT = 9092
STEPS, RATES, PROXIMAL = (1, 2, 5, 20), (4.0, 2.0, 8.0, 1.0), (0.01, 0.1)
MOST_ROUNDS = 300


def reduced(task):
    """Return the losses of the sites and of all rows, rotated into as few dimensions as there are rows.

    Iterates that begin at zero stay in the span of the rows, so this changes no loss, and it is cheaper.
    """
    parts = task.parts
    if isinstance(parts[0][0], np.ndarray) and parts[0][0].shape[1] > sum(len(labels) for _, labels in parts):
        features = np.concatenate([rows for rows, _ in parts])
        short = np.linalg.qr(features.T, mode="r").T
        ends = np.cumsum([len(labels) for _, labels in parts])
        parts = [(short[end - len(labels) : end], labels) for end, (_, labels) in zip(ends, parts, strict=True)]
        whole = Loss(
            task.kind, short, np.concatenate([labels for _, labels in parts]), task.regularization, task.classes
        )
    else:
        whole = task.loss()
    return [Loss(task.kind, *part, task.regularization, task.classes) for part in parts], whole


def smoothness(loss):
    """Return a bound of the curvature of a loss, by the power method."""
    x = np.random.default_rng(0).normal(size=(loss.features.shape[1], 1))
    for _ in range(30):
        x = loss.features.T @ (loss.features @ (x / np.linalg.norm(x)))
    factor = {"logistic": 0.25, "softmax": 0.5}.get(loss.kind, 1.0)
    return factor * float(np.linalg.norm(x)) / len(loss.labels) + loss.regularization


def tune(task, optimum, proximal, level, folder, seconds=60):
    """Return the choice that needs the fewest rounds to a suboptimality; the lowest one if none gets there."""
    file = Path(folder) / f"flower-{task.name}-{task.loss().dim}-{'prox' if proximal else 'avg'}.json"
    if file.exists():
        return json.loads(file.read_text())
    sites, whole = reduced(task)
    weights = [len(site.labels) / len(whole.labels) for site in sites]
    base, best, until = 1 / max(smoothness(site) for site in sites), None, time.monotonic() + seconds
    for prox in PROXIMAL if proximal else (0.0,):
        for steps in STEPS[1:] if proximal else STEPS:
            for rate in RATES:
                if time.monotonic() > until:
                    break
                most = MOST_ROUNDS if best is None else min(MOST_ROUNDS, best["rounds"] + 1)
                found = _try(sites, weights, whole, (steps, rate * base, prox), (level, optimum, most))
                choice = {"steps": steps, "rate": rate * base, "proximal": prox, **found}
                if best is None or (choice["rounds"], choice["last"]) < (best["rounds"], best["last"]):
                    best = choice
    file.write_text(json.dumps(best))
    return best


def _try(sites, weights, whole, choice, goal):
    level, optimum, most = goal
    x, first, lowest = np.zeros(whole.dim), whole(np.zeros(whole.dim))[0] - optimum, np.inf
    for number in range(1, most + 1):
        x = sum(share * local_steps(site, x, *choice) for share, site in zip(weights, sites, strict=True))
        apart = whole(x)[0] - optimum
        if not apart < 2 * first:
            return {"rounds": MOST_ROUNDS + 1, "last": float("inf")}
        if apart <= level:
            return {"rounds": number, "last": apart}
        if number % 20 == 0 and apart > 0.98 * lowest:  # it no longer gets closer
            break
        lowest = min(lowest, apart)
    return {"rounds": MOST_ROUNDS + 1, "last": apart}


def choice_text(choice):
    """Return a choice in words."""
    steps = f"{choice['steps']} local steps" if choice["steps"] > 1 else "1 local step"
    prox = f", μ = {choice['proximal']:g}" if choice["proximal"] else ""
    ending = f"{choice['rounds']} rounds to 1e-6"
    if choice["rounds"] > MOST_ROUNDS:
        ending = f"none reaches 1e-6, and this one comes to {choice['last']:.1e}"
    return f"{steps} of {choice['rate']:.3g}{prox}, the best of those tried for a minute without a network: {ending}"


def run_flower(space, task, folder, python, choice, seconds):
    """Run the server at a host of its own and a client at each site, for so many seconds; return the server's notes."""
    folder.mkdir(parents=True)
    _, rows = task.write(folder)
    given = {
        "kind": task.kind,
        "classes": task.classes,
        "regularization": task.regularization,
        "dim": task.loss().dim,
        "clients": len(rows),
        "address": f"{space.address(len(rows))}:{PORT}",
        "rounds": min(choice["rounds"], 10 * MOST_ROUNDS) + 2,
        **{name: choice[name] for name in ("steps", "rate", "proximal")},
    }
    (folder / "settings.json").write_text(json.dumps(given))
    worker, notes = [python, HERE / "flower_worker.py"], folder / "notes.npz"
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0", "PYTHONPATH": ""}
    with Processes(folder / "log.txt") as processes:
        command = [*space.inside(len(rows)), *worker, "server", notes, folder / "settings.json"]
        server = processes.start(command, **quiet)
        time.sleep(5)  # a client that finds no server waits longer and longer
        for number, file in enumerate(rows):
            processes.start([*space.inside(number), *worker, "client", file, folder / "settings.json"], **quiet)
        until = time.monotonic() + seconds
        while server.poll() is None and time.monotonic() < until:
            time.sleep(0.5)
    if not notes.exists():
        raise RuntimeError(processes.said())
    return [notes]
