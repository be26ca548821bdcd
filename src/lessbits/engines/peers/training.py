"""A site in the user's own training loop: the event loop runs in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lessbits._internal.files import make_folder
from lessbits.engines.distributed.one_gradient import check_one_gradient
from lessbits.engines.peers.checkpoint import SiteCheckpoints
from lessbits.engines.peers.joining import join
from lessbits.engines.peers.options import SiteOptions
from lessbits.engines.peers.patience import FLOOR
from lessbits.engines.peers.program import SiteNode, check_method
from lessbits.engines.peers.result import run_mark
from lessbits.engines.peers.run import SiteRun
from lessbits.engines.peers.site import Site
from lessbits.engines.peers.site_file import read_site
from lessbits.errors import InputError
from lessbits.methods.base import Method
from lessbits.problems.base import Problem

LARGEST_COUNT = 2**31 - 1
Made = TypeVar("Made")


class TrainingSite:
    """One site of a run across sites, driven step by step.

    Args:
        site_file: The site's file, which `lessbits peer init` made.
        method: The method, the same at all sites.
        problem: A problem with a gradient of the right shape, which `step` replaces.
        start: The first x.
        seed: Seed of all random numbers.
        code: How levels are written as bytes.
        patience: Seconds that a silent neighbour is waited for at least; None for the default.
    """

    def __init__(
        self,
        site_file: str | PathLike[str],
        method: Method,
        problem: Problem,
        start: np.ndarray,
        seed: int = 0,
        code: str = "entropy",
        patience: float | None = None,
    ) -> None:
        file = read_site(Path(site_file))
        membership = join(file)
        roster = membership.roster
        check_method(method)
        check_one_gradient(method, roster.network(), problem.dim)
        self.number = roster.number(file.name)
        self.node = SiteNode(problem, method, roster.network(), self.number, roster.link_ids(), seed, code)
        self.node.begin(start)
        options = SiteOptions(iterations=LARGEST_COUNT, patience=FLOOR if patience is None else patience)
        mark = run_mark(method, seed, code, None, options)
        make_folder(file.state)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="lessbits-site", daemon=True)
        self.thread.start()
        self.closed = False

        async def make() -> SiteRun:
            site = Site(membership, self.node, options)
            checkpoints = SiteCheckpoints(file.state, f"{membership.run_mark}{mark}")
            return SiteRun(site, mark, file.listen_address(roster), checkpoints)

        self.run = self._wait(make())
        self.opened = self.run.open()
        try:
            self._wait(self.opened.__aenter__())
            self._wait(self.run.begin())
        except BaseException:
            self.close()
            raise

    def _wait(self, work: Coroutine[Any, Any, Made]) -> Made:
        """Run something on the event loop, and wait for it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:  # also Ctrl-C in the thread that waits
            future.cancel()
            raise

    @property
    def iteration(self) -> int:
        """Iterations done so far, also before a restart."""
        return self.run.site.iteration

    @property
    def x(self) -> np.ndarray:
        """The iterate."""
        return self.run.site.node.x

    @property
    def bytes_sent(self) -> int:
        """Bytes sent to all neighbours, with headers."""
        return sum(edge.sent_bytes for edge in self.run.site.edges.values())

    def step(self, problem: Problem) -> np.ndarray:
        """Take an iteration with the gradient of a problem, and return the new x."""
        if self.closed:
            raise InputError("the site has left the run: make a new one")
        self.run.site.node.replace_problem(problem)
        self._wait(self.run.step())
        return self.x

    def close(self, why: str = "") -> None:
        """Take leave of the neighbours: the run has ended, or this site leaves it for the reason given."""
        if self.closed:
            return
        self.closed = True
        self.run.site.leaving = why
        try:
            if self.run.site.state == "running":
                self._wait(self.run.end())
            self._wait(self.opened.__aexit__(None, None, None))
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(10)
            if not self.thread.is_alive():
                self.loop.close()
