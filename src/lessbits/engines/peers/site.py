"""A site of a run: one process that computes its node's iterations, and talks to its neighbours meanwhile.

In lockstep a site begins an iteration by saying its number to all neighbours, with a message for each link whose last
round is finished. It then waits until every neighbour that is alive has said the same or a higher number, and finishes
the rounds whose messages are there. A site that hears a higher number continues with that one. So the site with the
lowest number never waits, and after a join or a merger of two parts all are in step again. With fixed membership each
iteration finishes one round on every link, as in the simulator.

Without lockstep, a site takes an iteration whenever a message has arrived, and waits for nobody in particular.

The event loop never computes: the node belongs to one thread of its own.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from lessbits.engines.peers.edge import DIGEST_EVERY, Control, Edge, Ends
from lessbits.engines.peers.options import Membership, SiteOptions
from lessbits.engines.peers.patience import BEAT, Patience
from lessbits.engines.peers.program import Applied, Sent, SiteNode
from lessbits.engines.peers.protocol import NEVER, Farewell
from lessbits.engines.peers.schedule import Schedule
from lessbits.engines.peers.snapshot import snapshot_of
from lessbits.errors import WireError

Made = TypeVar("Made")
MOST_EVENTS = 50


class Site:
    """The node of this process, its links, and its iterations.

    Args:
        membership: Who this site is, and the roster.
        node: What it computes.
        options: How the run goes.
        convexity: The curvature μ with which gradients are turned into distances, for the estimate of the error.
        schedule: Where to record which messages were applied when; None to record nothing.
    """

    def __init__(
        self,
        membership: Membership,
        node: SiteNode,
        options: SiteOptions,
        convexity: float = 1.0,
        schedule: Schedule | None = None,
    ) -> None:
        self.membership, self.node, self.options, self.convexity = membership, node, options, convexity
        self.schedule = schedule
        self.thread = ThreadPoolExecutor(1, "lessbits-compute")
        self.news = asyncio.Event()
        self.edges: dict[str, Edge] = {}
        self.iteration, self.stop, self.streak, self.estimate = 0, NEVER, 0, float("inf")
        self.without: list[str] | None = None  # neighbours that were missing when the end was decided, once it is
        self.apart = np.full(len(node.links), np.inf)
        self.below_at = -(2**40)  # the last iteration in which the estimate was below the target
        self.loss: float | None = None
        self.began_computing: float | None = None
        self.leaving = ""  # why the run ends early, once it does
        self.state, self.message = "waiting", "waiting for the neighbours"
        self.started = time.monotonic()
        self.events: list[dict[str, Any]] = []
        self.listeners: list[Callable[[str], None]] = []  # called with each event
        self.sites = len(membership.roster.sites)
        self.add_links()

    def add_links(self) -> None:
        """Make an edge for each neighbour of the roster that has none yet."""
        roster, name = self.membership.roster, self.membership.name
        mine = roster.number(name)
        for row, number in enumerate(self.node.neighbors):
            other = roster.sites[number].name
            if other in self.edges:
                self.edges[other].row = row
            else:
                ends = Ends(
                    name,
                    other,
                    int(self.node.links[row]),
                    int(self.node.back[row]),
                    int(self.membership.run_mark, 16) & 0xFFFFFFFF,
                    self.node.codec,
                )
                self.edges[other] = Edge(ends, row, mine < number, Patience(self.options.patience), self.news.set)
                self.edges[other].iterations = self.options.iterations

    def use(self, node: SiteNode) -> None:
        """Continue with a node that has more links, between two iterations."""
        apart = dict(zip(self.node.neighbors, self.apart, strict=True))
        self.apart = np.array([apart.get(number, np.inf) for number in node.neighbors])
        self.node = node
        self.sites = len(self.membership.roster.sites)
        self.add_links()

    def tell(self, text: str) -> None:
        """Keep an event, and pass it on."""
        for listener in self.listeners:
            listener(text)
        self.events.append({"seconds": round(time.monotonic() - self.started, 3), "text": text})
        del self.events[:-MOST_EVENTS]

    @property
    def now(self) -> Control:
        """What this site says of itself."""
        return Control(self.iteration, self.stop, self.streak, min(self.estimate, 3e38))

    def by_row(self) -> list[Edge]:
        """Return the edges in the order of the node's links."""
        return sorted(self.edges.values(), key=lambda edge: edge.row)

    async def compute(self, function: Callable[..., Made], *arguments: Any) -> Made:
        """Call a function in the thread that computes."""
        self.began_computing = time.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self.thread, function, *arguments)
        finally:
            self.began_computing = None

    async def changed(self, seconds: float) -> None:
        """Wait until something happens on a link, or some time has passed."""
        try:
            await asyncio.wait_for(self.news.wait(), seconds)
        except TimeoutError:
            return
        self.news.clear()

    # ------------------------------------------------------------------ an iteration

    async def iterate(self) -> None:
        """Take one iteration."""
        edges = self.by_row()
        # Once the end is decided, x is the solution for those who were there then: a link that fails in the last
        # iterations keeps its dual, since a reset would move x away from it with no time left to come back.
        resets = [edge for edge in edges if edge.must_reset and self.stop == NEVER]
        for edge in resets:
            edge.must_reset = False  # also if it must be reset once more while that is computed
        speaking = {edge.row: edge.epoch for edge in edges if edge.live}
        rounds = {edge.row: edge.round for edge in edges}
        if self.options.lockstep:
            self.iteration = max([self.iteration, *(edge.heard.iteration for edge in edges if edge.live)])
        rows = [edge.row for edge in resets]
        sent, digests = await self.compute(self._send, rows, speaking)
        self.apart[rows] = np.inf
        for edge in edges:
            if speaking.get(edge.row) != edge.epoch or not edge.live or edge.must_reset:
                continue
            if edge.row in sent.bodies:
                edge.post(sent.bodies[edge.row], digests.get(edge.row, b""), self.now)
            else:
                edge.announce(self.now)
        await self._await_neighbours(edges, speaking)
        taken = {edge.row: edge for edge in edges if edge.ready() and speaking.get(edge.row) == edge.epoch}
        done = await self.compute(self._receive, {row: edge.inbox[edge.round] for row, edge in taken.items()})
        if self.schedule is not None:
            at = {row: (epoch, rounds[row]) for row, epoch in speaking.items()}
            name = {edge.row: edge.ends.theirs for edge in edges}
            self.schedule.note(self.iteration, name, rows, at, sent.bodies, taken.keys() - done.faults)
        self._after(sent, done, taken)

    def _send(self, resets: list[int], speaking: dict[int, int]) -> tuple[Sent, dict[int, bytes]]:
        """Compute what is sent, in the thread of the node."""
        node = self.node
        if resets:
            node.reset(resets)
        up = np.zeros(len(node.links), bool)
        up[list(speaking)] = True
        # Now and then; and always near the target, so that no run ends where two ends differ.
        near = self.streak > 0
        due = [edge for edge in self.by_row() if edge.row in speaking and (near or edge.round % DIGEST_EVERY == 0)]
        digests = {edge.row: node.digest(edge.row, edge.first) for edge in due if edge.round}
        return node.send(self.iteration, up), digests

    def _receive(self, inbox: dict[int, tuple[bytes, bytes]]) -> Applied:
        """Apply what has arrived, in the thread of the node. A link whose ends differ is left out."""
        node, first = self.node, {edge.row: edge.first for edge in self.edges.values()}
        differ = {
            row: WireError("its two ends have different duals or memories")
            for row, (_, digest) in inbox.items()
            if digest and digest != node.digest(row, first[row])
        }
        bodies = {row: body for row, (body, _) in inbox.items() if row not in differ}
        applied = node.receive(self.iteration, bodies)
        return applied._replace(faults={**applied.faults, **differ})

    async def _await_neighbours(self, edges: list[Edge], speaking: dict[int, int]) -> None:
        """Wait for all neighbours that are alive, in lockstep; else for any message."""
        while not self.leaving:
            waited = [edge for edge in edges if edge.live and speaking.get(edge.row) == edge.epoch]
            waited = [edge for edge in waited if not edge.must_reset]
            if self.options.lockstep:
                if all(edge.heard.iteration >= self.iteration for edge in waited):
                    return
            elif self.stop != NEVER or not any(edge.round in edge.sent for edge in waited):
                return  # nobody owes this site an answer, as in an iteration without an exchange
            elif any(edge.ready() for edge in waited):
                return
            await self.changed(BEAT)
            self._pass_on_the_stop()

    def _pass_on_the_stop(self) -> None:
        """Tell the neighbours that the end was decided: all must know it before one that is silent is set aside."""
        before = self.stop
        self._hear_of_the_stop()
        if self.stop < before:
            for edge in self.edges.values():
                edge.announce(self.now)

    def _hear_of_the_stop(self) -> None:
        """Believe neighbours that say when the run ends, if that can be true.

        When all sites have been below the target, so has this one, not longer ago than news goes to the farthest and
        back. So a neighbour that is wrong, or lies, does not end the run of a site that is far from its target.
        """
        if not self.options.alone and self.iteration - self.below_at <= 2 * self.sites:
            self._decide(min((edge.heard.stop for edge in self.edges.values()), default=NEVER))

    def _decide(self, stop: int) -> None:
        """Note that the run ends after an iteration, if it does not end sooner."""
        if stop < self.stop:
            self.stop = stop
            self.without = self.missing() if self.without is None else self.without

    def missing(self) -> list[str]:
        """Return the neighbours that take no part now."""
        return [name for name, edge in self.edges.items() if not edge.epoch or edge.must_reset]

    @property
    def closed(self) -> bool:
        """Whether the end is decided, so that nobody can join any more."""
        return self.stop != NEVER or self.state == "finished"

    @property
    def abandoned(self) -> bool:
        """Whether no neighbour takes part any more, and none has finished with this site."""
        edges = self.edges.values()
        return not self.closed and not any(edge.live or (edge.state == "finished" and edge.round) for edge in edges)

    def _after(self, sent: Sent, done: Applied, taken: dict[int, Edge]) -> None:
        for row, edge in taken.items():
            if row in done.faults:
                self.fault(edge, done.faults[row])
            elif not edge.must_reset:
                edge.finish_round()
                self.apart[row] = done.apart[row]
        self._estimate(sent.residual)
        self.iteration += 1

    def _estimate(self, residual: float) -> None:
        """Estimate the error, and find out whether all sites have been below the target for long enough."""
        live = [edge for edge in self.edges.values() if edge.live]
        # A neighbour that has finished counts as it was: without it, this site would look closer than it is.
        apart = max((float(self.apart[edge.row]) for edge in self.edges.values() if edge.epoch), default=0.0)
        self.estimate = residual / self.convexity**2 + apart
        if self.options.until is None:
            self._hear_of_the_stop()
            return
        # A link that was dropped in this iteration is reset in the next, which moves the optimum.
        settled = not any(edge.must_reset or edge.returning for edge in self.edges.values())
        below = self.estimate <= self.options.until and settled
        self.below_at = self.iteration if below else self.below_at
        self._hear_of_the_stop()
        heard = [] if self.options.alone else [edge.heard.streak for edge in live]
        self.streak = 1 + min([self.streak, *heard]) if below else 0
        if self.streak >= self.sites:
            # News needs as many iterations as there are sites, at most, to reach them all.
            later = self.sites if self.options.lockstep and not self.options.alone else 0
            self._decide(self.iteration + later)

    @property
    def done(self) -> bool:
        """Whether the run has ended for this site."""
        if self.iteration >= self.options.iterations:
            return True
        return self.stop != NEVER and (self.iteration > self.stop or not self.options.lockstep)

    # ------------------------------------------------------------------ neighbours that fail

    def fault(self, edge: Edge, error: Exception) -> None:
        """Begin a link anew, because of what came on it."""
        name = edge.ends.theirs
        self.tell(f"{name}: {error}; the link starts from zero")
        if edge.outlet is not None:
            edge.outlet.put(Farewell("reset", str(error)).packet())
        edge.drop("away", str(error))

    def snapshot(self) -> dict[str, Any]:
        """Return what the site knows, as plain values."""
        return snapshot_of(self)
