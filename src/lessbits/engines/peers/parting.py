"""The last moments of a site: it stays for those who finish later, and hangs up."""

import time
from typing import TYPE_CHECKING

from lessbits.engines.peers.connections import BACKOFF
from lessbits.engines.peers.patience import BEAT
from lessbits.engines.peers.stream import CLOSE_SECONDS

if TYPE_CHECKING:
    from lessbits.engines.peers.site import Site


async def linger(site: "Site") -> None:
    """Stay reachable until the neighbours have finished, so that none takes this site for a dead one.

    Those who were turned away dial again within two seconds, and are told that the run has ended.
    """
    now = time.monotonic()
    until, soon = now + site.options.linger, now + min(site.options.linger, 2 * BACKOFF[1])

    def expected(now: float) -> bool:
        live = any(edge.live for edge in site.edges.values())
        return (live and now < until) or (bool(site.turned_away) and now < soon)

    while expected(time.monotonic()) and not site.leaving:
        site.message = "has finished; waiting for the others to finish"
        await site.changed(BEAT / 4)


async def hang_up(site: "Site") -> None:
    """Close all connections when the last packets have left."""
    until = time.monotonic() + CLOSE_SECONDS
    for edge in site.edges.values():
        if edge.outlet is not None:
            edge.outlet.close("the run has ended")
    while any(edge.outlet is not None for edge in site.edges.values()) and time.monotonic() < until:
        await site.changed(BEAT / 20)
