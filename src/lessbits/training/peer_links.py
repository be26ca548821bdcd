"""Links between sites: gRPC with mutual TLS, as in the engine of peers, with neighbours that fail and come back.

The event loop has a thread of its own, so that signs of life are sent while the model is trained. An exchange waits for
neighbours that are alive, as long as their past says that they may take, and goes on without those that are gone.
"""

import asyncio
import atexit
import threading
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from lessbits.errors import InputError, MissingPackageError, check_positive
from lessbits.networks import Network
from lessbits.training.event_loop import event_loop
from lessbits.training.links import Links

try:
    from lessbits.engines.peers.connections import Doors
    from lessbits.engines.peers.joining import join
    from lessbits.engines.peers.patience import Patience
    from lessbits.engines.peers.protocol import Farewell
    from lessbits.engines.peers.site_file import read_site
    from lessbits.training.peer_link import HEADER_BYTES, Model, PeerLink, Said, Word
    from lessbits.training.peer_talk import PeerTalk
except ImportError as error:
    raise MissingPackageError(f"sites need gRPC and cryptography ({error}): pip install 'lessbits[peers]'") from None

PATIENCE = 30.0  # seconds that a silent neighbour is waited for at least
BEGIN_AFTER = 60.0  # seconds that the first exchange waits for neighbours
CLOSE_SECONDS = 20.0


class PeerLinks(PeerTalk, Links):
    """The links of one site, which its `site.toml` and roster describe, as for `lessbits peer`.

    Args:
        site_file: The file `site.toml`.
        patience: Seconds that a neighbour may be silent, or take for its local steps, before the others go on without
            it. It is waited for longer if it was slow before.
        begin_after: Seconds after which the first exchange begins even if neighbours are missing.
    """

    steady = False

    def __init__(
        self, site_file: str | PathLike[str], patience: float = PATIENCE, begin_after: float = BEGIN_AFTER
    ) -> None:
        self.begin_after = check_positive("begin_after", begin_after)
        floor = check_positive("patience", patience)
        self.site = read_site(Path(site_file))
        self.membership = join(self.site)
        self.roster = self.membership.roster
        self.node, self.nodes = self.roster.number(self.site.name), len(self.roster.sites)
        self.links = {self.roster.number(name): PeerLink(name, Patience(floor)) for name in self.membership.trusted}
        self.changed = threading.Condition()
        self.doors = Doors(self.membership)
        self.number = 0  # of the exchange that is next or under way
        self.surveyed: dict[int, int] = {}  # the epochs of the links of this exchange
        self.computing_since: float | None = time.monotonic()  # None: it waits for others
        self.about: dict[str, str] | None = None  # what neighbours must have in common; None while this site is closed
        self.most_bytes = HEADER_BYTES

    def network(self) -> Network:
        """Return the links of the roster."""
        return self.roster.network()

    def open(self, settings: str, model: str, start: str, most_bytes: int) -> None:
        """Accept neighbours and dial them, from now on.

        Args:
            settings: 16 hexadecimal digits that all sites must have in common, as `model`.
            model: The same, of the names and shapes of tensors.
            start: The same, of the values of the first model.
            most_bytes: The most bytes of a message or a model.
        """
        self.about, self.most_bytes = {"method": settings, "code": model + start}, HEADER_BYTES + most_bytes
        atexit.register(self._leave)
        self._do(self._open())

    def allow_overlap(self) -> None:
        """Refuse: a neighbour may be left out or come back between a message and what is made of it."""
        raise InputError("overlap is for links that do not fail: leave it out for sites")

    async def _open(self) -> None:
        self.doors.converse = self.converse
        if (address := self.site.listen_address(self.roster)) is not None:
            await self.doors.listen(address)
        for link in self.links.values():
            if self.roster.dials(self.site.name, link.name):
                self.doors.dial(link.name, self.roster.site(link.name).address or "")

    def close(self) -> None:
        """Tell neighbours that this site has done its part, and end all connections."""
        self._end(Farewell("finished", "the training has ended"))

    def _leave(self) -> None:
        """End all connections of a process that ends without `close`: nobody knows whether it has done its part."""
        self._end(Farewell("leaving", "the process has ended"))

    def _end(self, farewell: Farewell) -> None:
        if self.about is not None:
            self.about = None
            atexit.unregister(self._leave)
            with suppress(TimeoutError):
                self._do(self._part(farewell))

    async def _part(self, farewell: Farewell) -> None:
        for link in self.links.values():
            if link.outlet is not None:
                link.outlet.put(farewell.packet())
        await self.doors.close()

    def assemble(self) -> None:
        """Wait for all neighbours before the first exchange, unless the run has begun without this site."""

        def there() -> bool:
            links = self.links.values()
            begun = any(link.epoch and not link.fresh for link in links)
            return begun or all(link.epoch for link in links) or any(link.refused for link in links)

        self._wait(there, self.begin_after)
        for link in self.links.values():
            if link.refused:  # later, a wrong neighbour must not end those that go on
                raise InputError(link.refused)
            if not link.epoch:
                self.leave_out(link, "is not there yet")

    def survey(self) -> dict[int, tuple[int, bool]]:
        """Return the epoch of each link that takes part in the next exchange, and whether it starts without models."""
        with self.changed:
            found = {other: (link.epoch, link.fresh) for other, link in self.links.items() if link.epoch}
        self.surveyed = {other: epoch for other, (epoch, _) in found.items()}
        return found

    @property
    def finished(self) -> set[int]:
        """The neighbours that have done their part, and are gone for good."""
        return {other for other, link in self.links.items() if link.finished}

    def offer(self, other: int, body: bytes) -> None:
        """Send a model, or nothing to ask for the neighbour's."""
        self._say(other, Word.MODEL, body)

    def models(self, wait: bool) -> dict[int, Model]:
        """Return models that have come on links of this exchange; `wait` for one if any can come."""

        def here() -> dict[int, Model]:
            links = {other: self.links[other] for other, epoch in self.surveyed.items() if self._goes_on(other, epoch)}
            return {other: link.model for other, link in links.items() if link.model is not None}

        def due() -> bool:
            return any(
                self._goes_on(other, epoch) and not self.links[other].fresh for other, epoch in self.surveyed.items()
            )

        if wait:
            self._wait(lambda: bool(here()) or not due(), None)
        with self.changed:
            return here()

    def _goes_on(self, other: int, epoch: int) -> bool:
        return self.links[other].epoch == epoch

    def exchange(self, frames: Mapping[int, bytes]) -> dict[int, bytes]:
        """Send frames for this exchange, and return those of neighbours that sent one too and are not gone."""
        for other in self.surveyed:
            self._say(other, Word.MESSAGE if other in frames else Word.SKIP, frames.get(other, b""))

        def answered() -> bool:
            return all(self.links[other].answered(self.surveyed[other], self.number) for other in frames)

        self._wait(answered, None)
        received = {}
        with self.changed:
            for other, epoch in self.surveyed.items():
                body = self.links[other].pick(epoch, self.number)
                if body is not None and other in frames:
                    received[other] = body
        self.number += 1
        return received

    def _wait(self, done: Any, seconds: float | None) -> None:
        self.computing_since = None
        with self.changed:
            self.changed.wait_for(done, seconds)
        self.computing_since = time.monotonic()

    def _say(self, other: int, word: Word, body: bytes) -> None:
        epoch, link = self.surveyed[other], self.links[other]
        packet = Said(word, epoch, self.number, body).packet()

        def put() -> None:
            if link.outlet is not None and link.epoch == epoch:
                link.outlet.put(packet)

        event_loop().call_soon_threadsafe(put)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, event_loop()).result(CLOSE_SECONDS)
