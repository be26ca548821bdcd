"""Sites as processes, each with a key, a certificate and a data file of its own, for tests in which they fail."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import tomli_w
from compiled_programs import quick_flags

import lessbits
from lessbits.config.peer_trial import _free_ports
from lessbits.engines.peers.identity import make_identity
from lessbits.engines.peers.site_file import write_site
from lessbits.engines.peers.status import ask_status
from lessbits.errors import InputError

HANGING = 600  # seconds after which a run hangs, however slow the machine is
ROWS = 12
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(lessbits.__file__).parents[1])}


def ring(nodes, chord=False):
    """Return the links of a ring, and one across it."""
    return [(node, (node + 1) % nodes) for node in range(nodes if nodes > 2 else 1)] + [(0, 2)] * chord


class Sites:
    """The files of a network, and the processes of its sites.

    Args:
        folder: Where the files go.
        links: Pairs of sites.
        problem: "least-squares" or "logistic".
        until: The target.
        slowness: The condition number of the data: the higher, the more iterations the run takes.
        dim: Features.
        penalty: The regularization: the lower, the more iterations the run takes.
        seed: Seed of the data.
        flags: Flags for each `lessbits peer run`.
        own: More flags of some sites, by name.
        hosts: The host of each site; this one if None.
        prefix: What comes before the command of a site, by number, such as to run it in a namespace.
        **settings: More settings of the roster.
    """

    def __init__(
        self,
        folder,
        links,
        *,
        problem="least-squares",
        until=1e-8,
        slowness=30.0,
        penalty=0.01,
        dim=8,
        seed=0,
        flags=("--checkpoint-every", 1, "--patience", 3),
        own=None,
        hosts=None,
        prefix=lambda number: [],
        **settings,
    ):
        self.folder, self.links, self.problem, self.flags, self.prefix = folder, links, problem, flags, prefix
        self.penalty, self.own = penalty, own or {}
        self.names = [f"site-{number}" for number in range(1 + max(max(link) for link in links))]
        self.processes, self.outputs, self.starts = {}, {}, dict.fromkeys(self.names, 0)
        self.data = [_rows(problem, dim, slowness, seed, number) for number in range(len(self.names))]
        ports = _free_ports(len(self.names))
        table = {
            "format": "lessbits-roster-1",
            "run": f"chaos-{os.getpid()}-{seed}",
            "links": [[self.names[first], self.names[second]] for first, second in links],
            "settings": {"problem": problem, "regularization": penalty, "until": until, **settings},
            "sites": {
                name: {"address": f"{host}:{port}"}
                for name, host, port in zip(self.names, hosts or ["127.0.0.1"] * len(self.names), ports, strict=True)
            },
        }
        (folder / "certificates").mkdir(parents=True)
        (folder / "roster.toml").write_text(tomli_w.dumps(table))
        for name, (features, labels) in zip(self.names, self.data, strict=True):
            certificate = make_identity(folder / name, name)
            (folder / "certificates" / f"{name}.pem").write_bytes(certificate.pem)
            write_site(folder / name / "site.toml", name, roster="../roster.toml")
            np.savez(folder / name / "rows.npz", features=features, labels=labels)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def place(self, name):
        """Return the folder of a site."""
        return self.folder / name

    def start(self, *names):
        """Start sites, by default all, and return the process of the last."""
        for name in names or self.names:
            place = self.place(name)
            flags = ["--data", place / "rows.npz", "--json", place / "result.json", "--solution", place / "x.npy"]
            command = [sys.executable, "-m", "lessbits", "peer", "run", place / "site.toml", *flags, *self.flags]
            command += self.own.get(name, [])
            self.starts[name] += 1
            output = (place / f"output-{self.starts[name]}.txt").open("wb")
            with output:
                self.processes[name] = subprocess.Popen(
                    [str(part) for part in [*self.prefix(self.names.index(name)), *command]],
                    env={**ENVIRONMENT, **quick_flags(), "OMP_NUM_THREADS": "1"},
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                    start_new_session=True,
                )
        return self.processes[(names or self.names)[-1]]

    def said(self, name):
        """Return what the newest process of a site has said."""
        return (self.place(name) / f"output-{self.starts[name]}.txt").read_text(errors="replace")

    def status(self, name):
        """Return how a site stands; an empty table if it does not answer."""
        with suppress(InputError, OSError):
            return ask_status(self.place(name) / "state" / "status.sock", 2.0)
        return {}

    def wait_until(self, ready, what, seconds=HANGING):
        """Wait until something has happened."""
        until = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > until:
                raise AssertionError(f"it took too long until {what}:\n{self.story()}")
            time.sleep(0.05)

    def wait_for_iteration(self, number, *names):
        """Wait until sites, by default all, have come to an iteration."""
        for name in names or self.names:
            self.wait_until(lambda: self.status(name).get("iteration", 0) >= number, f"{name} iterates")  # noqa: B023

    def signal(self, name, number):
        """Send a signal to the process of a site."""
        os.kill(self.processes[name].pid, number)

    def kill(self, name):
        """Kill a site, and wait for its end."""
        self.signal(name, signal.SIGKILL)
        self.processes[name].wait()

    def wait(self, *names, seconds=HANGING):
        """Return the exit statuses of sites, by default of all, when all have ended."""
        until = time.monotonic() + seconds
        for name in names or self.names:
            try:
                self.processes[name].wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{name} did not end in {seconds} s:\n{self.story()}") from None
        return [self.processes[name].returncode for name in names or self.names]

    def end(self):
        """Kill what still runs, and return the names of those sites."""
        running = [name for name, process in self.processes.items() if process.poll() is None]
        for name in running:
            self.kill(name)
        return running

    def story(self):
        """Return what all sites have said, for the message of a failure."""
        lines = []
        for name in self.names:
            for number in range(1, self.starts[name] + 1):
                text = (self.place(name) / f"output-{number}.txt").read_text(errors="replace")
                lines += [f"{name} ({number}): {line}" for line in text.splitlines()]
            if name in self.processes:
                lines.append(f"{name}: status {self.processes[name].poll()}, {self.status(name)}")
        return "\n".join(lines)

    def result(self, name):
        """Return what a site has found: its facts, and x."""
        place = self.place(name)
        return json.loads((place / "result.json").read_text()), np.load(place / "x.npy")

    def optimum(self, names):
        """Return the optimum of the sum of the losses of some sites."""
        parts = [self.data[self.names.index(name)] for name in names]
        return _optimum(self.problem, self.penalty, *(np.concatenate(kind) for kind in zip(*parts, strict=True)))

    def distance(self, name, names):
        """Return how far the x of a site is from the optimum of some sites."""
        return float(np.linalg.norm(self.result(name)[1] - self.optimum(names)))


def _rows(problem, dim, slowness, seed, number):
    """Draw the rows of a site: the columns have spreads from 1 to √slowness."""
    random = np.random.default_rng((seed, number))
    features = random.normal(size=(ROWS, dim)) * np.geomspace(1, slowness**-0.5, dim)
    margins = features @ random.normal(size=dim) + 0.3 * random.normal(size=ROWS) + 0.5 * (number - 2)
    if problem == "least-squares":
        return features, margins
    labels = np.where(margins > 0, 1.0, -1.0)
    labels[:2] = 1.0, -1.0  # both classes, at each site
    return features, labels


def _optimum(problem, penalty, features, labels):
    """Minimise the mean loss with its penalty by Newton's method, in NumPy; the sites have equally many rows."""
    x = np.zeros(features.shape[1])
    for _ in range(50):
        if problem == "least-squares":
            slopes, curvatures = features @ x - labels, np.ones(len(labels))
        else:
            chances = 1 / (1 + np.exp(labels * (features @ x)))
            slopes, curvatures = -labels * chances, chances * (1 - chances)
        gradient = features.T @ slopes / len(labels) + penalty * x
        hessian = (features.T * curvatures) @ features / len(labels) + penalty * np.eye(len(x))
        x = x - np.linalg.solve(hessian, gradient)
    return x
