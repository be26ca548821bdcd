"""The run of a site, from its first connection to its farewell."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from lessbits.engines.peers.checkpoint import SiteCheckpoints, standing
from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.meeting import FINISHED, Meetings
from lessbits.engines.peers.parting import hang_up, linger
from lessbits.engines.peers.patience import BEAT
from lessbits.engines.peers.protocol import Farewell
from lessbits.engines.peers.pulse import beat
from lessbits.engines.peers.result import SiteResult
from lessbits.engines.peers.site import Site
from lessbits.errors import InputError

NOISE = 10.0  # the estimate may rise by so much between the decision to end and the end
LOSS_SECONDS = 0.25  # between two computations of the loss, which is only shown


class SiteRun:
    """The run of one site.

    Args:
        site: The site.
        method: What `run_mark` returned.
        listen: The address to listen at; None to dial only.
        checkpoints: Where to write checkpoints, and to resume from; None for none.
        watch: Called with the site after every iteration, such as for a log; it must not take long.
        doors: Connections that are open already; None to open them.
    """

    def __init__(
        self,
        site: Site,
        method: str,
        listen: str | None = None,
        checkpoints: SiteCheckpoints | None = None,
        watch: Callable[[Site], None] | None = None,
        doors: Doors | None = None,
    ) -> None:
        self.site, self.listen, self.checkpoints, self.watch = site, listen, checkpoints, watch
        self.meetings = Meetings(site, method)
        self.doors = doors or Doors(site.membership)
        self.saved_at = self.loss_at = time.monotonic()
        self.began = time.monotonic()
        self.broken: BaseException | None = None  # what ended a task that the run needs
        self.tell_end: Callable[[], Awaitable[None]] | None = None  # to the others, if this site cannot begin

    def leave(self, why: str) -> None:
        """End the run soon: a checkpoint is written, and the neighbours are told."""
        self.site.leaving = why
        self.site.news.set()

    async def run(self) -> SiteResult:
        """Run until the end, and return what the site has then."""
        async with self.open():
            if self.before.get("finished"):
                return self._again()
            await self.begin()
            while not self.site.done and not self.site.leaving:
                await self.step()
            result = await self.end()
        if self.broken is not None:
            raise self.broken
        return result

    def _again(self) -> SiteResult:
        """Return the result of a run that has ended before. The neighbours may be gone, and are not asked."""
        site, facts = self.site, self.before
        site.tell("has finished before; to start anew, remove its state folder")
        site.state, site.message = "finished", f"ended after {site.iteration} iterations"
        converged, without = bool(facts.get("converged")), tuple(facts.get("without", ()))
        estimate = float(facts.get("estimate", "inf"))
        return SiteResult(site.node.x, site.iteration, converged, False, estimate, 0, 0, 0.0, without)

    @contextlib.asynccontextmanager
    async def open(self) -> Any:
        """Open the doors, and close them at the end."""
        site, tasks = self.site, list[asyncio.Task[None]]()
        try:
            if self.listen is not None and self.doors.server is None:
                await self.doors.listen(self.listen)
            try:
                self.before = await site.compute(self._restore)
            except InputError:
                if self.tell_end is not None:
                    await self.tell_end()
                raise
            # Not sooner: the checkpoint would overwrite where a link stands that was taken up meanwhile.
            self.doors.converse = self.meetings.converse
            tasks += [asyncio.ensure_future(each) for each in (beat(site), self._follow_roster())]
            for task in tasks:
                task.add_done_callback(self._check_alive)
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.doors.close()
            site.thread.shutdown(wait=False)
            if site.schedule is not None:
                site.schedule.close()

    def _check_alive(self, task: asyncio.Task[None]) -> None:
        """End the run if a task ends that should not: without signs of life, or deaf to the roster, it is half dead."""
        if not task.cancelled():
            self.broken = task.exception() or RuntimeError("a task of the site has ended")
            self.leave("it failed")

    def _restore(self) -> dict[str, Any]:
        """Compile, and go on from a checkpoint, if there is one. Return what it says of the run."""
        site = self.site
        if site.node.state is None:
            site.node.begin()
        facts = self.checkpoints.read(site.node, site.edges) if self.checkpoints else None
        if site.schedule is not None:
            site.schedule.begin(-1 if facts is None else facts["number"])
        if facts is None:
            return {}
        site.iteration = facts["iteration"]
        site.tell(f"goes on from a checkpoint in iteration {site.iteration}")
        return facts

    async def begin(self) -> None:
        """Wait for the neighbours."""
        site, options = self.site, self.site.options
        began = time.monotonic()
        while not self.site.leaving:
            missing = [name for name, edge in site.edges.items() if not edge.epoch or edge.outlet is None]
            missing = [name for name in missing if name in site.membership.trusted]
            late = time.monotonic() - began > options.begin_after
            # Where the run is under way already, those who are in it would wait for this site.
            under_way = any(edge.heard.iteration > site.iteration for edge in site.edges.values() if edge.live)
            if not missing or under_way or (late and len(missing) < len(site.edges)):
                break
            if len(missing) == len(site.edges):
                self._check_company(began)
            site.message = f"waiting for {', '.join(missing)}"
            await site.changed(BEAT)
            await self._grow()
        site.state, site.message = "running", ""
        self.began = self.saved_at = time.monotonic()

    def _check_company(self, since: float) -> None:
        """Raise an `InputError` if this site has lost all others, for good or for too long.

        What it would find alone is no solution of the run. It comes here with the facts of all sites, so all have been
        there; before that, a site waits for the others as long as it takes.
        """
        site = self.site
        ended = [edge.ends.theirs for edge in site.edges.values() if edge.state == "finished"]
        if len(ended) == len(site.edges):
            raise InputError(
                f"the run has ended without this site: {' and '.join(ended)} finished while it was away; to take part "
                "in another, remove the state folders of all sites, and start them"
            )
        waited = time.monotonic() - since
        if waited > site.options.give_up_after:
            raise InputError(
                f"no neighbour was there for {waited:.0f} s, so this site ends: the run may have ended without it; "
                "run the same command again if the others are still there"
            )

    async def _await_company(self) -> None:
        """Pause as long as no neighbour takes part: alone, a site would leave the optimum of all for its own."""
        site, since = self.site, time.monotonic()
        while site.abandoned and not site.leaving:
            self._check_company(since)
            site.message = "waits, as no neighbour is there"
            await site.changed(BEAT)
            await self._grow()
        site.message = ""

    async def step(self) -> None:
        """Take an iteration, and write a checkpoint if one is due."""
        site = self.site
        if site.abandoned:
            await self._save_in_time()
            await self._await_company()
            if site.leaving:
                return
        await self._grow()
        await site.iterate()
        now = time.monotonic()
        if now - self.loss_at > LOSS_SECONDS:
            site.loss = await site.compute(site.node.loss)
            self.loss_at = time.monotonic()
        if self.checkpoints and now - self.saved_at > site.options.checkpoint_every:
            await self._save_in_time()
        if self.watch is not None:
            self.watch(site)

    async def _save_in_time(self) -> None:
        """Write a checkpoint in the middle of a run, which goes on if the disk is full."""
        try:
            await self.save()
        except OSError as error:
            self.saved_at = time.monotonic()
            self.site.tell(f"no checkpoint was written ({error.strerror or error}): the run goes on")

    async def save(self, finished: bool = False) -> None:
        """Write a checkpoint."""
        if self.checkpoints is None:
            return
        site = self.site
        links = {name: standing(edge) for name, edge in site.edges.items()}
        number = 0 if site.schedule is None else site.schedule.checkpoint()
        facts: dict[str, Any] = {
            "iteration": site.iteration,
            "finished": finished,
            "number": number,
            "converged": self._converged,
        }
        facts |= {"without": self._without, "estimate": str(site.estimate)}  # JSON has no infinity
        await site.compute(self.checkpoints.write, site.node, links, facts)
        self.saved_at = time.monotonic()

    @property
    def _converged(self) -> bool:
        """Whether the target was reached: all sites agreed so, and nothing that happened since has moved this one."""
        site, until = self.site, self.site.options.until
        return until is not None and site.agreement.agreed and site.estimate <= NOISE * until

    @property
    def _without(self) -> list[str]:
        return self.site.missing() if self.site.agreement.without is None else self.site.agreement.without

    async def end(self) -> SiteResult:
        """Take leave of the neighbours, and return the result."""
        site, seconds = self.site, time.monotonic() - self.began
        finished = not site.leaving
        await self.save(finished)
        site.state = "finished" if finished else site.state
        farewell = FINISHED if finished else Farewell("leaving", site.leaving)
        for edge in site.edges.values():
            if edge.outlet is not None:
                edge.announce(site.now, last=True)
                edge.outlet.put(farewell.packet())
        if finished:
            await linger(site)
        self.doors.closing = True
        await hang_up(site)
        result = SiteResult(
            site.node.x,
            site.iteration,
            self._converged,
            bool(site.leaving),
            site.estimate,
            sum(edge.sent_bytes for edge in site.edges.values()),
            sum(edge.received_bytes for edge in site.edges.values()),
            seconds,
            tuple(self._without),
        )
        site.message = f"ended after {site.iteration} iterations"
        return result

    async def _follow_roster(self) -> None:
        """Dial the neighbours that this site dials, and follow changes of the roster."""
        site, member = self.site, self.site.membership
        while True:
            for name in member.trusted:
                address = member.roster.site(name).address
                if name in site.edges and address is not None and member.roster.dials(member.name, name):
                    self.doors.dial(name, address)
            self.doors.enforce()
            for name, edge in site.edges.items():
                if name not in member.trusted and edge.state != "withdrawn":
                    site.tell(f"{name} is withdrawn from the roster")
                    self.doors.hang_up(name)
                    edge.drop("withdrawn", "its certificate is no longer accepted")
            await asyncio.sleep(BEAT)
            await asyncio.to_thread(member.refresh)

    async def _grow(self) -> None:
        """Give the node links to sites that were added to the roster, if there are such."""
        site, roster = self.site, self.site.membership.roster
        if not site.membership.trusted.keys() - site.edges.keys():
            return
        node = await site.compute(site.node.for_network, roster.network(), roster.link_ids())
        site.use(node)
        site.tell(f"the roster has new links; this site has {len(node.links)} now")
