"""How code that computes shares small arrays with all sites, before the first iteration."""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from lessbits.engines.distributed.transport import Transport
from lessbits.engines.peers.facts import Facts


class FactsTeam(Transport):
    """Lets code that computes share small arrays with all sites, as ranks do; there is no rank 0, and nothing else.

    It is used in the thread that computes, while the event loop exchanges facts.

    Args:
        facts: What is known.
        loop: The event loop.
    """

    def __init__(self, facts: Facts, loop: asyncio.AbstractEventLoop) -> None:
        roster, name = facts.membership.roster, facts.membership.name
        self.facts, self.loop, self.count = facts, loop, 0
        self.rank, self.size, self.added = roster.number(name), roster.founders, roster.site(name).added

    def all_gather(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of all founders, in their order."""
        question = f"fact {self.count}"
        self.count += 1
        future = asyncio.run_coroutine_threadsafe(self.facts.gather(question, np.asarray(rows)), self.loop)
        return np.concatenate(future.result())

    def connect(self, neighbors: Sequence[int]) -> None:
        """Refuse: messages of the run do not go through here."""
        raise NotImplementedError

    def exchange(self, outgoing: Sequence[bytes], sizes: Sequence[int]) -> list[memoryview]:
        """Refuse: messages of the run do not go through here."""
        raise NotImplementedError

    def gather(self, rows: np.ndarray) -> np.ndarray | None:
        """Refuse: no site collects the numbers of the others."""
        raise NotImplementedError

    def broadcast(self, array: np.ndarray | None) -> np.ndarray:
        """Refuse: no site is the first."""
        raise NotImplementedError

    def chain(self, add: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
        """Refuse: sums of gradients would tell too much."""
        raise NotImplementedError
