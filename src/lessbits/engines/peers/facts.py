"""Small facts that all sites share before the first iteration: numbers of rows, features, curvatures.

Nobody collects them. Each site keeps what it has heard, by site and question, and passes it on: a site that dials a
neighbour sends all that it knows, and the neighbour answers with all that it knows. So facts reach all sites that are
connected, and a site that comes later hears them too. Once a site has said something, it does not change.

Once all is known, a site keeps it in its state folder: it goes on from there even if all others are gone.
Facts are signed by the site that they are about, so that no other can say something in its name.
"""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lessbits._internal.files import write_whole
from lessbits._internal.logging import logger
from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.fact_values import checked_fact, fact_array, plain_fact, refuse_constant
from lessbits.engines.peers.options import Membership
from lessbits.engines.peers.roster_summary import difference
from lessbits.errors import InputError, WireError

MOST_BYTES = 2**20  # of all facts together
ASK_SECONDS = 0.3
END_SECONDS = 2.0  # in which neighbours hear that this site has ended before the run
MOST_WARNINGS = 100

Known = dict[str, dict[str, list[Any]]]  # by question and site: shape, type, numbers, and the signature


class LeftError(Exception):
    """The site was told to leave before the run began."""


class Facts:
    """What sites have said of themselves.

    Args:
        membership: Who this site is.
        doors: Its connections.
        waiting: Called with the names of the sites that have not answered, now and then.
        file: Where facts are kept; None to keep none.
    """

    def __init__(
        self, membership: Membership, doors: Doors, waiting: Callable[[list[str]], None], file: Path | None = None
    ) -> None:
        self.membership, self.doors, self.waiting, self.file = membership, doors, waiting, file
        self.known: Known = {}
        self.news = asyncio.Event()
        self.given_up = ""  # why this site no longer waits for facts
        self.asking: dict[str, asyncio.Task[None]] = {}
        self.warned: set[str] = set()
        self.heard, self.told = set[str](), set[str]()  # neighbours that were there; those who know that this site ends
        self.ended = False  # whether this site ends before the run, because of a mistake
        doors.answer_facts, doors.offered_facts, doors.hear_facts = self.answer, self.packet, self.hear
        if file is not None:
            # What cannot be read, or is of another run, is learned anew; the checkpoint beside it says what is wrong.
            with suppress(OSError, WireError):
                self.merge(file.read_bytes())
        self.kept = self._count()
        self.refusals: dict[str, InputError] = {}  # what neighbours say of this site, if they do not accept it

    def answer(self, name: str, packet: bytes) -> bytes:
        """Take what a neighbour knows, and return what this site knows."""
        self.hear(name, packet)
        self.told |= {name} if self.ended else set()
        return self.packet()

    def hear(self, name: str, packet: bytes) -> None:
        """Take what a neighbour knows."""
        self.merge(packet, name)
        self.heard.add(name)

    def packet(self) -> bytes:
        """Return all that is known."""
        member = self.membership
        about: dict[str, Any] = {"run": member.run_mark, "known": self.known, "roster": member.roster.summary()}
        about |= {"ended": True} if self.ended else {}
        return json.dumps(about, separators=(",", ":"), allow_nan=False).encode()

    def merge(self, packet: bytes, name: str = "another site") -> None:
        """Add what another site knows. Raise a `WireError` if it makes no sense, or contradicts what is known."""
        try:
            said = json.loads(packet[:MOST_BYTES], parse_constant=refuse_constant)
            run, known = said["run"], said["known"]
            sites = {entry.name for entry in self.membership.roster.sites}
            checked = [
                (question, site, checked_fact(question, fact))
                for question, facts in known.items()
                for site, fact in facts.items()
                if site in sites
            ]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise WireError("facts came that make no sense") from None
        if run != self.membership.run_mark:
            differs = difference(self.membership.roster.summary(), said.get("roster"), self.membership.name, name)
            raise WireError(f"the rosters differ: {differs}; give all sites the same roster")
        self._note_end(name, said.get("ended") is True)
        before = self._count()
        for question, site, fact in checked:
            self._add(question, site, fact)
        if self._count() > before:  # else two sites that wait for a third would ask each other without a pause
            self.news.set()

    def _note_end(self, name: str, ended: bool) -> None:
        text = f"{name} has ended with a mistake, before the run: its own output says which. This site waits for it"
        if ended:
            self._warn(text)
        else:
            self.warned.discard(text)

    async def tell_end(self) -> None:
        """Tell the neighbours that are there that this site ends before the run. The mistake itself stays here.

        Those that this site dials are asked once more, and the others ask soon.
        """
        roster = self.membership.roster
        self.ended, until = True, time.monotonic() + END_SECONDS
        self.stop_asking()

        async def tell(other: str) -> None:
            with suppress(InputError):
                await self.doors.ask(other, str(roster.site(other).address), self.packet())
            self.told.add(other)

        dialled = set(self._dialled())
        telling = [asyncio.ensure_future(tell(other)) for other in dialled]
        while (self.heard | dialled) - self.told and time.monotonic() < until:
            await asyncio.sleep(ASK_SECONDS / 10)
        for task in telling:
            task.cancel()
        await asyncio.gather(*telling, return_exceptions=True)

    def _add(self, question: str, site: str, fact: list[Any]) -> None:
        before = self.known.get(question, {}).get(site)
        if before == fact:
            return
        entry = self.membership.roster.site(site)
        # A site that was withdrawn has no certificate here. What it said is needed still, by those who come later.
        if entry.certificate is not None and not self._is_signed(entry.certificate.der, question, site, fact):
            raise WireError(f"facts of {site} came that it has not signed")
        if before is not None and before[:3] != fact[:3]:
            raise WireError(
                f"what is known of {site} differs ({question}): its data or its settings have changed since the "
                "run began; start the run anew at all sites, or give it the data it had"
            )
        size = sum(len(json.dumps(facts[site])) for facts in self.known.values() if site in facts)
        if size + len(json.dumps(fact)) > self.share:
            raise WireError(f"{site} tells more than {self.share} bytes of facts")
        self.known.setdefault(question, {})[site] = fact

    @property
    def share(self) -> int:
        """The most bytes that the facts of one site may have, so that those of all fit into a packet."""
        return (MOST_BYTES - 1024) // len(self.membership.roster.sites)

    def _message(self, question: str, site: str, fact: list[Any]) -> bytes:
        return json.dumps([self.membership.run_mark, question, site, *fact[:3]], separators=(",", ":")).encode()

    def _is_signed(self, der: bytes, question: str, site: str, fact: list[Any]) -> bool:
        from lessbits.engines.peers.signing import is_signed

        return is_signed(der, bytes.fromhex(fact[3]), self._message(question, site, fact))

    def give_up(self, why: str) -> None:
        """Wait for no more facts."""
        self.given_up = why
        self.news.set()

    async def gather(self, question: str, mine: np.ndarray) -> list[np.ndarray]:
        """Tell a fact to all sites, and return those of all founders, in their order. Added sites only listen."""
        roster = self.membership.roster
        founders = [site.name for site in roster.sites if not site.added]
        facts = self.known.setdefault(question, {})
        if self.membership.name in founders:
            self._tell(question, plain_fact(mine), facts)
        while missing := [name for name in founders if name not in facts]:
            if self.given_up:
                raise LeftError(self.given_up)
            self.waiting(missing)
            self._ask_around()
            self.news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), ASK_SECONDS)
        for name in founders:
            shape, kind = facts[name][:2]
            if kind != mine.dtype.str or shape[1:] != list(mine.shape[1:]):
                raise InputError(
                    f"{name} answers another question than {question}: install the same version of lessbits"
                )
        if self.file is not None and self._count() > self.kept:
            self.kept = self._count()
            await asyncio.to_thread(write_whole, self.file, self.packet())
        return [fact_array(facts[name]) for name in founders]

    def _tell(self, question: str, fact: list[Any], facts: dict[str, list[Any]]) -> None:
        """Add what this site says of itself."""
        from lessbits.engines.peers.signing import sign

        name = self.membership.name
        if name in facts and facts[name][:3] != fact:
            raise InputError(
                f"this site once said something else of itself ({question}): its data or its settings have changed "
                "since the run began; give it the data it had, or start the run anew at all sites"
            )
        if len(json.dumps(fact)) > self.share:
            raise InputError(f"a site would tell more of its data than the {self.share} bytes that each may")
        signature = sign(self.membership.key, self._message(question, name, fact))
        facts[name] = [*fact, signature.hex()]

    def stop_asking(self) -> None:
        """Ask no more; the site still answers, and tells what it knows to those that it dials."""
        for task in self.asking.values():
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # else asyncio complains
            task.cancel()

    def _count(self) -> int:
        return sum(len(facts) for facts in self.known.values())

    def _ask_around(self) -> None:
        """Exchange facts with the neighbours that this site dials, unless they are being asked; none waits for another.

        Raise what they say if all of them refuse: one that does may be wrong itself.
        """
        roster = self.membership.roster
        for other in self._dialled():
            if (task := self.asking.get(other)) is not None and task.done():
                del self.asking[other]
                task.result()
            if other not in self.asking:
                self.asking[other] = asyncio.ensure_future(self._ask(other, str(roster.site(other).address)))
        if refusal := self._refusal_of_all():
            raise refusal

    async def _ask(self, other: str, address: str) -> None:
        try:
            packet = await self.doors.ask(other, address, self.packet())
            if packet is not None:
                self.hear(other, packet)
                self.refusals.pop(other, None)
        except WireError as error:
            self._warn(f"{other}: {error}")
        except InputError as error:
            self.refusals[other] = error
            if self._refusal_of_all() is None:  # else the site ends with it
                self._warn(str(error))

    def _dialled(self) -> list[str]:
        roster, name = self.membership.roster, self.membership.name
        return [other for other in self.membership.trusted if roster.dials(name, other)]

    def _refusal_of_all(self) -> InputError | None:
        """Return what a neighbour says, if all that this site dials refuse it."""
        asked = self._dialled()
        return self.refusals[asked[0]] if asked and all(other in self.refusals for other in asked) else None

    def _warn(self, text: str) -> None:
        if text not in self.warned and len(self.warned) < MOST_WARNINGS:
            self.warned.add(text)
            logger.warning(text)
