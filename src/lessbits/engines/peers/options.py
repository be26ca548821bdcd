"""Who a site is, and how its run goes."""

from collections.abc import Callable
from dataclasses import dataclass

from lessbits._internal.hashing import fingerprint
from lessbits.engines.peers.identity import Certificate
from lessbits.engines.peers.patience import FLOOR
from lessbits.engines.peers.roster import Roster
from lessbits.errors import check_flag, check_name, check_number, check_positive, check_whole

MODES = ("lockstep", "async")


class Membership:
    """Who a site is, and the roster as it knows it.

    The roster's files are looked at by `refresh` alone. All else uses what it found: TLS asks who is trusted from a
    thread of gRPC's, at the pace of whoever connects.

    Args:
        name: Its name in the roster.
        key: Its private key, as PEM.
        certificate: Its certificate.
        read_roster: Returns the roster as its files are now.
    """

    def __init__(self, name: str, key: bytes, certificate: Certificate, read_roster: Callable[[], Roster]) -> None:
        self.name, self.key, self.certificate, self.read_roster = name, key, certificate, read_roster
        self.roster = read_roster()
        self.run_mark = self.roster.digest()
        self.refresh()

    def refresh(self) -> None:
        """Look at the roster's files."""
        self.roster = self.read_roster()
        entries = [self.roster.site(name) for name in self.roster.neighbors(self.name)]
        self.trusted = {entry.name: entry.certificate for entry in entries if entry.certificate is not None}

    def link_mark(self, other: str) -> str:
        """Return 16 hexadecimal digits for all that the two ends of a link must have in common in their rosters."""
        return fingerprint(self.run_mark, self.roster.link_digest(self.name, other))


@dataclass(frozen=True, kw_only=True)
class SiteOptions:
    """How the run of a site goes.

    Attributes:
        mode: "lockstep", in which a round waits for the neighbours that are alive, or "async", in which nobody waits.
        iterations: The run ends after this many.
        until: The run ends when the error estimates of all sites are at most this; None for no target.
        alone: Whether this site ends when its own estimate is at most `until`, whatever the others say.
        patience: Seconds that a silent neighbour is waited for at least. It is waited for longer if it was slow before.
        begin_after: Seconds after which the first iteration begins even if neighbours are missing.
        give_up_after: Seconds after which a site ends that has the facts of all sites, but no neighbour.
        linger: Seconds that a site which has finished waits for its neighbours to finish.
        checkpoint_every: Seconds between two checkpoints.
    """

    mode: str = "lockstep"
    iterations: int = 100_000
    until: float | None = None
    alone: bool = False
    patience: float = FLOOR
    begin_after: float = 60.0
    give_up_after: float = 300.0
    linger: float = 10.0
    checkpoint_every: float = 30.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_name("mode", self.mode, MODES)
        check_whole("iterations", self.iterations, 1, 2**31 - 1)
        check_flag("alone", self.alone)
        if self.until is not None:
            check_number("until", self.until, 0)
        for name in ("patience", "begin_after", "give_up_after", "linger", "checkpoint_every"):
            check_positive(name, getattr(self, name))

    @property
    def lockstep(self) -> bool:
        """Whether rounds wait for neighbours."""
        return self.mode == "lockstep"
