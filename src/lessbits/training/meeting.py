"""How a node finds its links."""

from os import PathLike

from lessbits.errors import InputError
from lessbits.training.links import Links
from lessbits.training.mpi import default_links


def choose_links(links: Links | None, site: str | PathLike[str] | None) -> Links:
    """Return the links that were given, those of a site, or MPI's."""
    if site is None:
        return default_links() if links is None else links
    if links is not None:
        raise InputError("both links and site are given, but a site has links of its own: leave one out")
    from lessbits.training.peer_links import PeerLinks

    return PeerLinks(site)
