"""A network of sites on one machine, to try a run across sites: its files, its processes, and what it found."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from lessbits._internal.files import make_folder, write_whole
from lessbits._internal.wording import human
from lessbits.datasets import load_samples, split_samples
from lessbits.engines.peers.identity import make_identity
from lessbits.engines.peers.options import MODES
from lessbits.engines.peers.site_file import write_site
from lessbits.errors import InputError, check_name, check_whole
from lessbits.problems import make_problem

MOST_SITES = 64
DATA, TARGET = "breast-cancer", 1e-9
PENALTY, SMALL_PENALTY = 1e-3, 5e-5  # with the smaller one a run takes about twenty times as many iterations
ENDING_SECONDS = 15.0  # for sites that are told to leave


@dataclass(frozen=True)
class Trial:
    """The files of a network on this machine."""

    folder: Path
    names: tuple[str, ...]
    mode: str
    penalty: float

    def commands(self) -> list[str]:
        """Return the command of each site."""
        return [f"lessbits {shlex.join(self.arguments(name))}" for name in self.names]

    def arguments(self, name: str) -> list[str]:
        """Return the arguments of the command of a site."""
        place = self.folder / name
        return ["peer", "run", str(place / "site.toml"), "--data", str(place / "rows.npz")]


def make_trial(
    folder: Path,
    nodes: int,
    mode: str = "lockstep",
    penalty: float = PENALTY,
    say: Callable[[str], None] = lambda text: None,
) -> Trial:
    """Make keys, certificates, a roster and data for a ring of sites on this machine."""
    check_whole("nodes", nodes, 2, MOST_SITES)
    check_name("mode", mode, MODES)
    names = tuple(f"site-{number}" for number in range(nodes))
    if any((folder / name).exists() for name in names):
        raise InputError(f"{folder} has sites already: name another --folder, or remove it")
    say(f"making keys, certificates and data of {nodes} sites in {folder}")
    certificates = folder / "certificates"
    make_folder(certificates)
    for name in names:
        certificate = make_identity(folder / name, name)
        write_whole(certificates / f"{name}.pem", certificate.pem)
        write_site(folder / name / "site.toml", name, roster="../roster.toml")
    write_whole(folder / "roster.toml", _roster(names, _free_ports(nodes), mode, penalty))
    samples = load_samples(DATA)
    samples = samples.scaled_columns(samples.column_spreads()).normalized_rows()
    for name, rows in zip(names, split_samples(samples, nodes, "sorted"), strict=True):
        np.savez(folder / name / "rows.npz", features=samples.features[rows], labels=samples.labels[rows])
    return Trial(folder, names, mode, penalty)


def _roster(names: tuple[str, ...], ports: list[int], mode: str, penalty: float) -> str:
    import tomli_w

    ends = range(len(names) if len(names) > 2 else 1)
    table: dict[str, Any] = {
        "format": "lessbits-roster-1",
        "run": f"trial-{os.getpid()}",
        "links": [[names[end], names[(end + 1) % len(names)]] for end in ends],
        "settings": {
            "problem": "logistic",
            "regularization": penalty,
            "until": TARGET,
            "iterations": 1_000_000,
            "mode": mode,
        },
        "sites": {name: {"address": f"127.0.0.1:{port}"} for name, port in zip(names, ports, strict=True)},
    }
    return tomli_w.dumps(table)


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now; all are held until all are found, so that none is found twice."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def run_trial(trial: Trial, live: int | None, say: Callable[[str], None]) -> dict[str, dict[str, Any] | None]:
    """Start a process for each site, and return the result of each; None for one that failed.

    Args:
        trial: The files of the sites.
        live: The port of the live page of the first site; 0 for any, None for no page.
        say: Called with the lines of all sites.
    """
    processes: dict[str, subprocess.Popen[str]] = {}
    readers = []
    try:
        for number, name in enumerate(trial.names):
            place = trial.folder / name
            outputs = ["--json", str(place / "result.json"), "--solution", str(place / "x.npy")]
            command = [sys.executable, "-m", "lessbits", *trial.arguments(name), *outputs]
            command += ["--live-port", str(live)] if live is not None and not number else []
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
            processes[name] = process
            assert process.stderr is not None
            readers.append(threading.Thread(target=_pass_on, args=(name, process.stderr, say), daemon=True))
            readers[-1].start()
        for process in processes.values():
            process.wait()
    finally:
        _end(processes.values())
    for reader in readers:
        reader.join(ENDING_SECONDS)
    return {name: _result(trial.folder / name, processes[name].returncode) for name in trial.names}


def _pass_on(name: str, stream: IO[str], say: Callable[[str], None]) -> None:
    with stream:
        for line in stream:
            say(f"{name}: {line.strip().removeprefix('lessbits: ')}")


def _end(processes: Any) -> None:
    """End all processes that still run: first kindly."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.send_signal(signal.SIGTERM)
    until = time.monotonic() + ENDING_SECONDS
    for process in running:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _result(place: Path, status: int) -> dict[str, Any] | None:
    if status != 0:
        return None
    facts: dict[str, Any] = json.loads((place / "result.json").read_text())
    return facts


def compare_with_pooled(trial: Trial, results: dict[str, dict[str, Any] | None]) -> list[str]:
    """Return lines that compare what the sites found with the solution of all rows in one place."""
    parts = [np.load(trial.folder / name / "rows.npz") for name in trial.names]
    features, labels = (np.concatenate([part[key] for part in parts]) for key in ("features", "labels"))
    from lessbits.datasets import Samples

    pooled = make_problem(
        "logistic", Samples(features, labels, DATA), 2, split="uneven:1", regularization=trial.penalty
    )
    solution, size = pooled.solution, float(np.linalg.norm(pooled.solution))
    lines = [f"{'site':<10} {'iterations':>10} {'sent':>12} {'distance to the solution of all rows':>38}"]
    for name, result in results.items():
        if result is None:
            lines.append(f"{name:<10} failed")
            continue
        apart = float(np.linalg.norm(np.load(trial.folder / name / "x.npy") - solution)) / size
        lines.append(f"{name:<10} {result['iterations']:>10} {human(8 * result['sent_bytes']):>12} {apart:>38.1e}")
    return lines
