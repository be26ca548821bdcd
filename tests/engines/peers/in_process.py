"""Several sites in one process, on loopback, for tests: real connections, real certificates, and one event loop."""

import asyncio
import inspect
import socket
from contextlib import asynccontextmanager
from functools import cache

import numpy as np
from engines.peers.made_sites import identity, write_roster

from lessbits import EdgeDual, LeastSquares, make_quantizer
from lessbits.engines.peers.options import Membership, SiteOptions
from lessbits.engines.peers.program import SiteNode
from lessbits.engines.peers.result import run_mark
from lessbits.engines.peers.roster_file import RosterFile
from lessbits.engines.peers.run import SiteRun
from lessbits.engines.peers.site import Site

DIM = 6
PATIENCE = 60.0  # seconds; nothing waits that long unless it hangs


@cache
def known_identity(name):
    """Return a key and a certificate, the same each time: to make them takes longer than most tests."""
    return identity(name)


def free_ports(count):
    """Return ports on which nobody listens now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Town:
    """The files and keys of sites on this machine.

    Args:
        folder: An empty folder.
        names: The names of the sites. Later ones dial earlier ones.
        links: Pairs of names; None for all.
        run: The name of the run.
    """

    def __init__(self, folder, names=("berlin", "paris", "rome"), links=None, run="ward-7"):
        self.folder, self.names, self.run = folder, names, run
        self.links = links or [(a, b) for index, a in enumerate(names) for b in names[:index]]
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.identities = {name: known_identity(name) for name in names}
        (folder / "certificates").mkdir()
        for name in names:
            (folder / "certificates" / f"{name}.pem").write_bytes(self.identities[name].pem)
        self.file = write_roster(folder, self.text())

    def text(self, addresses=None, withdrawn=()):
        """Return the roster."""
        links = ", ".join(f'["{a}", "{b}"]' for a, b in self.links)
        lines = ['format = "lessbits-roster-1"', f'run = "{self.run}"', f"links = [{links}]"]
        for name in self.names:
            port = (addresses or self.ports).get(name)
            lines += [f"[sites.{name}]"]
            lines += [f'address = "127.0.0.1:{port}"'] if port else []
            lines += ["withdrawn = true"] if name in withdrawn else []
        return "\n".join(lines) + "\n"

    def member(self, name, file=None):
        """Return who a site is."""
        own = self.identities[name]
        return Membership(name, own.key, own.certificate, RosterFile(file or self.file).current)

    @property
    def roster(self):
        """The roster in force."""
        return RosterFile(self.file).current()

    def problem(self, held=None):
        """Return the problem of all sites, or of one."""
        return LeastSquares.random(len(self.names), DIM, 8, 5.0, 1, held)

    def site_run(self, name, quantizer="dit-4", clip=None, file=None, checkpoints=None, watch=None, **options):
        """Return a site, ready to run."""
        roster, member = self.roster, self.member(name, file)
        number = roster.number(name)
        method = EdgeDual(0.44, 1.6, 0.9, 1.3, make_quantizer(quantizer, DIM))
        problem, network, ids = self.problem(np.array([number])), roster.network(), roster.link_ids()
        node = SiteNode(problem, method, network, number, ids, 3, "entropy", clip)
        settled = SiteOptions(**{"iterations": 200, "linger": 3.0, **options})
        site = Site(member, node, settled)
        mark = run_mark(method, 3, "entropy", clip, settled)
        return SiteRun(site, mark, f"127.0.0.1:{self.ports[name]}", checkpoints, watch)


def write_sites(town):
    """Write the file of each site of a town, and return them."""
    files = []
    for name in town.names:
        folder = town.folder / name
        folder.mkdir()
        own = town.identities[name]
        key = folder / f"{name}.key"
        key.touch(0o600)
        key.write_bytes(own.key)
        (folder / f"{name}.pem").write_bytes(own.pem)
        lines = ['format = "lessbits-site-1"', f'name = "{name}"', 'roster = "../roster.toml"']
        lines += [f'listen = "127.0.0.1:{town.ports[name]}"']
        (folder / "site.toml").write_text("\n".join(lines) + "\n")
        files.append(folder / "site.toml")
    return files


async def run_all(runs, meanwhile=None):
    """Run sites to their end, and return their results by name; `meanwhile` is a coroutine that runs beside them."""
    tasks = [asyncio.ensure_future(run.run()) for run in runs]
    beside = asyncio.ensure_future(meanwhile) if meanwhile is not None else None
    try:
        async with asyncio.timeout(PATIENCE):
            if beside is not None:
                await beside
            results = await asyncio.gather(*tasks)
    finally:
        for task in [*tasks, *([beside] if beside else [])]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return {run.site.membership.name: result for run, result in zip(runs, results, strict=True)}


async def until(condition, seconds=PATIENCE):
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(runs):
    """Run sites until the end of the block; then they leave, and nothing of them may be left."""
    before = asyncio.all_tasks()
    tasks = [asyncio.ensure_future(run.run()) for run in runs]
    try:
        async with asyncio.timeout(PATIENCE):
            await until(lambda: all(run.site.iteration > 2 for run in runs) or any(task.done() for task in tasks))
            yield
            for run in runs:
                run.leave("the test is over")
            results = await asyncio.gather(*tasks)
            assert all(result.interrupted for result in results)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.01)
    left = asyncio.all_tasks() - before
    left = {
        task for task in left if inspect.iscoroutine(task.get_coro())
    }  # others are gRPC's, which end when they like
    assert not left, left


def optimum(problem, nodes):
    """Return the minimizer of the sum of some nodes' losses. All have as many samples, and there is no penalty."""
    rows, targets = (np.asarray(array)[nodes] for array in (problem.design.features, problem.targets))
    return np.linalg.lstsq(rows.reshape(-1, DIM), targets.ravel(), rcond=None)[0]
