"""How a node finds its links and network, and checks with its neighbours that they train the same model."""

from collections.abc import Mapping, Sequence
from os import PathLike

from lessbits.errors import InputError, shown
from lessbits.networks import Network, make_network
from lessbits.torch.links import Links, differ
from lessbits.torch.mpi import default_links

NAMES = ("model", "start", "settings")


def choose_links(links: Links | None, site: str | PathLike[str] | None) -> Links:
    """Return the links that were given, those of a site, or MPI's."""
    if site is None:
        return default_links() if links is None else links
    if links is not None:
        raise InputError("both links and site are given, but a site has links of its own: leave one out")
    from lessbits.torch.peer_links import PeerLinks

    return PeerLinks(site)


def choose_network(network: str | Network, nodes: int) -> Network:
    """Return the network of so many nodes."""
    made = make_network(network, nodes=nodes) if isinstance(network, str) else network
    if not isinstance(made, Network):
        raise InputError(f"the network is {shown(network)}, but it must be a name such as 'ring', or a Network")
    if made.nodes != nodes:
        raise InputError(f"the network has {made.nodes} nodes, but {nodes} processes were started")
    return made


def compare(here: int, parts: Sequence[bytes], others: Mapping[int, bytes]) -> None:
    """Raise if the 8 bytes of the model, the start or the settings are not those of all neighbours."""
    for other, digest in sorted(others.items()):
        for number, name in enumerate(NAMES):
            if digest[8 * number : 8 * number + 8] != parts[number]:
                raise InputError(differ(name, f"nodes {min(here, other)} and {max(here, other)}"))
