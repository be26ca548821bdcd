"""How a node finds its links."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from lessbits.errors import InputError, WireError, check_path, is_whole, shown
from lessbits.training.links import Links
from lessbits.training.mpi import default_links


class GivenLinks(Links):
    """Links of a user's class that has `node`, `nodes` and `exchange` alone."""

    def __init__(self, given: Any) -> None:
        self.given, self.node, self.nodes = given, int(given.node), int(given.nodes)

    def exchange(self, frames: Mapping[int, bytes]) -> dict[int, bytes]:
        """Let the object exchange them."""
        received = self.given.exchange(frames)
        missing = [other for other in frames if not isinstance(received.get(other), bytes | bytearray | memoryview)]
        if missing:
            raise WireError(f"links.exchange returned no bytes of node {missing[0]}, to which this node has sent some")
        return {other: bytes(frame) for other, frame in received.items()}

    def close(self) -> None:
        """Close the object, if it can be."""
        if callable(close := getattr(self.given, "close", None)):
            close()


def choose_links(links: Links | None, site: str | PathLike[str] | None) -> Links:
    """Return the links that were given, those of a site, or MPI's."""
    if site is None:
        return default_links() if links is None else _checked(links)
    if links is not None:
        raise InputError("both links and site are given, but a site has links of its own: leave one out")
    file = check_path("site", site)
    from lessbits.training.peer_links import PeerLinks

    return PeerLinks(file)


def _checked(links: Any) -> Links:
    """Return links that were given, as such; raise if they cannot be used."""
    if isinstance(links, type):
        raise InputError(f"links is the class {links.__name__}, but it must be an object of it, with a node's number")
    if isinstance(links, Links):
        return links
    node, nodes = (getattr(links, name, -1) for name in ("node", "nodes"))
    if not (is_whole(nodes, 1) and is_whole(node, 0, nodes - 1) and callable(getattr(links, "exchange", None))):
        raise InputError(
            f"links is {shown(links)}, but it must be a lessbits Links, or an object with node, nodes and exchange"
        )
    return GivenLinks(links)
