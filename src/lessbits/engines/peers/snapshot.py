"""What a running site says of itself, for its status, its live page and its log."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from lessbits.engines.peers.edge import Control
from lessbits.engines.peers.protocol import LARGEST_ESTIMATE

if TYPE_CHECKING:
    from lessbits.engines.peers.site import Site


def snapshot_of(site: "Site") -> dict[str, Any]:
    """Return what a site knows of itself and its neighbours, as plain values."""
    roster = site.membership.roster
    prints = {site.name: site.certificate.fingerprint for site in roster.sites if site.certificate}
    waiting = [edge for edge in site.edges.values() if edge.live and edge.heard.iteration < site.iteration]
    return {
        "site": site.membership.name,
        "run": roster.run,
        "mode": site.options.mode,
        "state": site.state,
        "message": site.message,
        "iteration": site.iteration,
        "iterations": site.options.iterations,
        "estimate": site.estimate if np.isfinite(site.estimate) else None,
        "until": site.options.until,
        "loss": site.loss,
        "sent_bytes": sum(edge.sent_bytes for edge in site.edges.values()),
        "received_bytes": sum(edge.received_bytes for edge in site.edges.values()),
        "seconds": round(time.monotonic() - site.started, 3),
        "neighbours": [
            {
                "site": edge.ends.theirs,
                "state": "waited for" if edge in waiting and edge.state == "connected" else edge.state,
                "why": edge.why,
                "round": edge.round,
                "epoch": edge.epoch,
                "iteration": max(edge.heard.iteration, 0),
                "estimate": _known(edge.heard),
                "sent_bytes": edge.sent_bytes,
                "received_bytes": edge.received_bytes,
                "heard_seconds": round(edge.patience.silent, 2),
                "patience_seconds": round(edge.patience.seconds, 1),
                "fingerprint": prints.get(edge.ends.theirs, ""),
            }
            for edge in site.by_row()
        ],
        "events": list(site.events),
    }


def _known(said: Control) -> float | None:
    """Return a neighbour's estimate of its error; None if it has none yet, or has not said it."""
    return said.estimate if said.iteration >= 0 and abs(said.estimate) < LARGEST_ESTIMATE else None
