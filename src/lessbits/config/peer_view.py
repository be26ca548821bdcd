"""What people see of a site: its first lines, and its status before there is a run and after."""

import time
from collections.abc import Callable
from typing import Any

from lessbits._internal.wording import human
from lessbits.config.peers import SiteSettings
from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.options import Membership
from lessbits.engines.peers.site import Site

SAY_SECONDS = 3.0  # of waiting, before the user is told
HINT_SECONDS = 20.0  # of waiting, before certificates are doubted
FIRST = "reading its data"


class PeerView:
    """What the status socket, the live page and the terminal show, before there is a site and after.

    Args:
        membership: Who the site is.
        settings: The settings of the run.
        doors: Its connections.
        say: Called with lines for the user.
    """

    def __init__(
        self, membership: Membership, settings: SiteSettings, doors: Doors, say: Callable[[str], None]
    ) -> None:
        self.member, self.doors, self.say = membership, doors, say
        self.site: Site | None = None
        self.said, self.since, self.started = set[str](), 0.0, time.monotonic()
        self.before: dict[str, Any] = {
            "site": membership.name,
            "run": membership.roster.run,
            "mode": settings.mode,
            "state": "waiting",
            "message": FIRST,
            "iteration": 0,
            "iterations": settings.settings.iterations,
            "estimate": None,
            "until": settings.settings.until,
            "loss": None,
            "sent_bytes": 0,
            "received_bytes": 0,
        }

    def begin(self, listen: str | None, data: str | None) -> None:
        """Say what the site does in its first seconds, in which nothing else is to be seen."""
        member, roster = self.member, self.member.roster
        dialled = [name for name in member.trusted if roster.dials(member.name, name)]
        does = [f"listens at {listen}"] if listen is not None else []
        does += [f"dials {', '.join(dialled)}"] if dialled else []
        does += [f"reads {data}"] if data is not None else []
        self.say(f"{member.name} of the run {roster.run!r}: {', '.join(does)}")

    def show(self, site: Site) -> None:
        """Show a site from now on. Its time began with the process: on the live page, time must not go back."""
        self.site = site
        site.started = self.started

    def snapshot(self) -> dict[str, Any]:
        """Return what is known of the site, as plain values."""
        if self.site is not None:
            return self.site.snapshot()
        seconds = round(time.monotonic() - self.started, 3)
        return {**self.before, "seconds": seconds, "neighbours": self._neighbours(), "events": []}

    def _neighbours(self) -> list[dict[str, Any]]:
        """Return the neighbours of the roster, with none of which there is a link yet."""
        counts = dict.fromkeys(("round", "epoch", "iteration", "sent_bytes", "received_bytes"), 0)
        times = dict.fromkeys(("estimate", "heard_seconds", "patience_seconds"))
        return [
            {
                "site": name,
                "state": "not yet met",
                "why": self.doors.failures.get(name, ""),
                "fingerprint": certificate.fingerprint,
                **counts,
                **times,
            }
            for name, certificate in self.member.trusted.items()
        ]

    def waiting(self, names: list[str]) -> None:
        """Note for whom the site waits before the run, and tell the user if that takes long."""
        message, now = f"waiting for {', '.join(names)} to say how many rows and features they have", time.monotonic()
        if message != self.before["message"]:
            self.before["message"], self.since = message, now
        elif now - self.since > SAY_SECONDS:  # not if they are about to answer
            self._say_once(message)
            if now - self.since > HINT_SECONDS:
                self._hint(names)

    def _hint(self, names: list[str]) -> None:
        """Say what may be wrong with neighbours that dial this site: of a handshake that fails, nobody tells it."""
        roster, mine = self.member.roster, self.member.name
        for name in names:
            if name in self.member.trusted and not roster.dials(mine, name):
                fingerprint = self.member.trusted[name].fingerprint
                self._say_once(
                    f"{name} has not come, which dials this site: is it running? Its certificate here has the "
                    f"fingerprint {fingerprint}: compare it with the one there"
                )

    def _say_once(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            self.say(text)

    def progress(self) -> str:
        """Return how the run goes, in a line."""
        facts = self.snapshot()
        estimate = "" if facts["estimate"] is None else f", error estimate {facts['estimate']:.2g}"
        return f"iteration {facts['iteration']:,}{estimate}, {human(8 * facts['sent_bytes'])} sent"
