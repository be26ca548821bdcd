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

from lessbits.engines.peers.agreement import Agreement
from lessbits.engines.peers.edge import DIGEST_EVERY, Control, Edge, Ends
from lessbits.engines.peers.options import Membership, SiteOptions
from lessbits.engines.peers.patience import BEAT, Patience
from lessbits.engines.peers.program import Applied, Sent, SiteNode
from lessbits.engines.peers.protocol import LARGEST_ESTIMATE, NEVER, Farewell
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
        self.iteration, self.estimate = 0, float("inf")
        self.agreement = Agreement(options, len(membership.roster.sites))
        self.turned_away: set[str] = set()  # neighbours that came when the end was being agreed on
        self.apart = np.full(len(node.links), np.inf)
        self.loss: float | None = None
        self.began_computing: float | None = None
        self.leaving = ""  # why the run ends early, once it does
        self.state, self.message = "waiting", "waiting for the neighbours"
        self.started = time.monotonic()
        self.events: list[dict[str, Any]] = []
        self.listeners: list[Callable[[str], None]] = []  # called with each event
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
        self.agreement.sites = max(self.agreement.sites, len(self.membership.roster.sites))
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
        agreed = self.agreement
        stop = self.iteration if agreed.ended else NEVER
        return Control(self.iteration, stop, agreed.streak, min(self.estimate, LARGEST_ESTIMATE), agreed.sites)

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
        # Once this site has agreed to the end, a link that fails keeps its dual, unless all go on after all.
        resets = [edge for edge in edges if edge.must_reset and not self.agreement.agreed]
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
        near = self.agreement.streak > 0
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
            elif not any(edge.round in edge.sent for edge in waited):
                return  # nobody owes this site an answer, as in an iteration without an exchange
            elif any(edge.ready() for edge in waited):
                return
            await self.changed(BEAT)

    def missing(self) -> list[str]:
        """Return the neighbours that take no part now."""
        return [name for name, edge in self.edges.items() if not edge.epoch or edge.must_reset]

    @property
    def closed(self) -> bool:
        """Whether this site has agreed to the end, or has ended, so that nobody can join."""
        return self.agreement.agreed or self.state == "finished"

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
        """Estimate the error, and count for how long all sites have been below the target."""
        # A neighbour that has finished counts as it was: without it, this site would look closer than it is.
        apart = max((float(self.apart[edge.row]) for edge in self.edges.values() if edge.epoch), default=0.0)
        self.estimate = residual / self.convexity**2 + apart
        # A link that was dropped in this iteration is reset in the next, which moves the optimum.
        settled = not any(edge.must_reset or edge.returning for edge in self.edges.values())
        below = self.options.until is not None and self.estimate <= self.options.until and settled
        self.agreement.update(below, self.edges.values(), self.missing())

    @property
    def done(self) -> bool:
        """Whether the run has ended for this site."""
        return self.iteration >= self.options.iterations or self.agreement.ended

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
