"""The sites and the links that a roster names, read from its tables and checked one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from lessbits.engines.peers.identity import Certificate, check_site_name, read_certificate
from lessbits.engines.peers.toml_files import check_keys, split_address
from lessbits.errors import InputError, check_flag, check_name, check_number, shown
from lessbits.networks.weights import LARGEST_WEIGHT, SMALLEST_WEIGHT

MOST_SITES = 1000
TOP_KEYS = ("run", "certificates", "links", "weights", "sites", "settings")
SITE_KEYS = ("address", "added", "withdrawn")


@dataclass(frozen=True)
class SiteEntry:
    """One site of a roster.

    Attributes:
        name: Its name.
        address: The host and port where neighbours reach it; None if it dials them.
        certificate: Its certificate; None if it is withdrawn, so that nobody can accept it.
        added: Whether it was added after the run began.
        withdrawn: Whether it may no longer take part.
    """

    name: str
    address: str | None
    certificate: Certificate | None
    added: bool
    withdrawn: bool


@dataclass(frozen=True)
class EdgeEntry:
    """One link of a roster, in both directions: two node numbers, first < second, and the weight if one is given."""

    first: int
    second: int
    weight: float | None


def certificate_file(folder: Path, name: str) -> Path:
    """Return the file with the certificate of a site."""
    return folder / f"{name}.pem"


def read_sites(tables: Any, folder: Path, where: str) -> tuple[SiteEntry, ...]:
    """Return the sites in the order of the file. Raise InputError for the first mistake.

    Args:
        tables: The table `sites` of the roster.
        folder: The folder with the certificates.
        where: The roster, for messages.
    """
    if not isinstance(tables, dict) or len(tables) < 2:
        raise InputError(f"{where} needs at least two sites: add a table [sites.NAME] for each")
    if len(tables) > MOST_SITES:
        raise InputError(f"{where} has {len(tables)} sites, but at most {MOST_SITES} are allowed")
    sites = tuple(_read_site(name, table, folder, where) for name, table in tables.items())
    for earlier, later in pairwise(sites):
        if earlier.added and not later.added:
            raise InputError(
                f"{where} has the added site {earlier.name!r} before {later.name!r}, whose number would change: put "
                "added sites last, each below those that were added before"
            )
    _check_own_keys(sites, where)
    return sites


def _read_site(name: str, table: Any, folder: Path, where: str) -> SiteEntry:
    """Return one site with its certificate."""
    check_site_name(name, f"a site of {where}")
    place = f"site {name!r} in {where}"
    if not isinstance(table, dict):
        raise InputError(f"{place} is {shown(table)}, but it must be a table: write [sites.{name}]")
    hints = dict.fromkeys(TOP_KEYS, "TOML takes it for a part of this table; put it above the first [table]")
    hints |= {key: f'a name with dots needs quotes: [sites."{name}.{key}"]' for key in table if _is_table(table, key)}
    check_keys(table, SITE_KEYS, place, hints)
    address = table.get("address")
    if address is not None:
        split_address(address, f"the address of {place}")
    added = check_flag(f"added of {place}", table.get("added", False))
    withdrawn = check_flag(f"withdrawn of {place}", table.get("withdrawn", False))
    certificate = None if withdrawn else _read_own_certificate(name, folder, place)
    return SiteEntry(name, address, certificate, added, withdrawn)


def _is_table(table: dict[str, Any], key: str) -> bool:
    return key not in SITE_KEYS and isinstance(table[key], dict)


def _read_own_certificate(name: str, folder: Path, place: str) -> Certificate:
    """Return the certificate of a site, which must be in the folder under its name."""
    file = certificate_file(folder, name)
    if not file.exists():
        raise InputError(f"there is no certificate of {place}: put its {name}.pem in {folder}")
    certificate = read_certificate(file)
    if certificate.name != name:
        raise InputError(f"{file} is the certificate of {certificate.name!r}, but {place} needs that of {name!r}")
    return certificate


def _check_own_keys(sites: Sequence[SiteEntry], where: str) -> None:
    """Raise InputError if two sites have one key: either could take part as the other."""
    owners: dict[bytes, str] = {}
    for site in sites:
        if site.certificate is not None:
            other = owners.setdefault(site.certificate.public_key, site.name)
            if other != site.name:
                raise InputError(
                    f"sites {other!r} and {site.name!r} in {where} have the same key, so that each could take part as "
                    "the other: run lessbits peer init at each site"
                )


def read_edges(links: Any, sites: Sequence[SiteEntry], where: str) -> tuple[EdgeEntry, ...]:
    """Return the links in the order of node numbers. Raise InputError for the first mistake."""
    if not isinstance(links, list) or not links:
        raise InputError(f'{where} needs links, above its first [table]: links = [["berlin", "paris"], ...]')
    numbers = {site.name: number for number, site in enumerate(sites)}
    edges: dict[tuple[int, int], EdgeEntry] = {}
    for link in links:
        if not isinstance(link, list) or len(link) not in (2, 3):
            raise InputError(
                f"a link in {where} is {shown(link)}, but it must be two sites, with a weight or without: "
                '["berlin", "paris"] or ["berlin", "paris", 0.3]'
            )
        first, second = (numbers[check_name(f"site in a link of {where}:", name, numbers)] for name in link[:2])
        words = f"the link {link[0]} - {link[1]} in {where}"
        if first == second:
            raise InputError(f"{words} goes from a site to itself: remove it")
        ends = (min(first, second), max(first, second))
        if ends in edges:
            raise InputError(f"{words} is given twice: give each link once, it goes both ways")
        weight = check_number(f"the weight of {words}", link[2], SMALLEST_WEIGHT, LARGEST_WEIGHT) if link[2:] else None
        edges[ends] = EdgeEntry(*ends, None if weight is None else float(weight))
        _check_reachable(sites[first], sites[second], words)
    return tuple(edges[ends] for ends in sorted(edges))


def _check_reachable(first: SiteEntry, second: SiteEntry, words: str) -> None:
    """Raise InputError if neither end has an address, and so none can dial the other."""
    if first.withdrawn or second.withdrawn or first.address or second.address:
        return
    raise InputError(f"{words} joins two sites without an address: give one of them the address where it is reached")
