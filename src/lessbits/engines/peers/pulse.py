"""Signs of life: a site gives them, and sets neighbours aside that give none."""

import asyncio
import time
from typing import TYPE_CHECKING

from lessbits.engines.peers.patience import BEAT
from lessbits.engines.peers.protocol import alive

if TYPE_CHECKING:
    from lessbits.engines.peers.site import Site


async def beat(site: "Site") -> None:
    """Give signs of life, and set neighbours aside that give none."""
    last = time.monotonic()
    while True:
        await asyncio.sleep(BEAT)
        now = time.monotonic()
        if now - last > 3 * BEAT:  # this process itself was stopped or suspended: that says nothing of the others
            for edge in site.edges.values():
                edge.patience.restart()
        last = now
        busy = 0.0 if site.began_computing is None else max(now - site.began_computing, 1e-6)
        for edge in site.edges.values():
            if edge.outlet is not None:
                edge.outlet.put(alive(busy))
            why = edge.patience.exhausted() if edge.live else None
            if why is not None:
                site.tell(f"{edge.ends.theirs} is set aside: {why}")
                edge.drop("set aside", why)
