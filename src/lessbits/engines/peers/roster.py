"""The roster of a run: which sites take part, where they are, who talks to whom, and with what weights.

Every site has a copy. What all copies must have in common is in `Roster.digest`: the run, its settings, and the
founders (the sites that began the run) with their links and weights. Addresses, certificates, and added or withdrawn
sites are not in it. So a site is added or withdrawn by changing the files of its neighbours, while the others run.

A site's number is its position in the file. Weights of links between founders depend on founders only, so that no
addition changes a number that two sites share.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lessbits._internal.hashing import fingerprint
from lessbits.engines.peers.roster_entries import (
    TOP_KEYS,
    EdgeEntry,
    SiteEntry,
    certificate_file,
    read_edges,
    read_sites,
)
from lessbits.engines.peers.toml_files import check_keys, check_text, read_table
from lessbits.errors import InputError, check_name, check_path, shown
from lessbits.networks.network import Network
from lessbits.networks.weights import WEIGHTINGS, check_connected, edge_weights

FORMAT = "lessbits-roster-1"
FIRST_ADDED_ID = 2**30  # above all numbers of founders' links, of which there are less than 1000²
IDS_PER_SITE = 2**15  # room for the neighbours of a site


@dataclass(frozen=True, eq=False)
class Roster:
    """The sites, links and settings of a run; `read_roster` makes and checks one.

    Attributes:
        run: The name of the run. Sites of another run are refused.
        sites: All sites in the order of the file; a site's number is its position.
        edges: All links, sorted by node numbers.
        weights: The rule for the weights of founders' links that have none.
        settings: What the sites agree on, with the names and the meaning of the settings of `lessbits run`.
    """

    run: str
    sites: tuple[SiteEntry, ...]
    edges: tuple[EdgeEntry, ...] = field(repr=False)
    weights: str
    settings: dict[str, Any]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {site.name: number for number, site in enumerate(self.sites)}

    def number(self, name: str) -> int:
        """Return the node number of a site."""
        return self._numbers[check_name("site", name, self._numbers)]

    def site(self, name: str) -> SiteEntry:
        """Return the entry of a site."""
        return self.sites[self.number(name)]

    def neighbors(self, name: str) -> tuple[str, ...]:
        """Return the neighbours of a site in the order of node numbers, without withdrawn ones.

        A site that is withdrawn itself has none.
        """
        own = self.number(name)
        if self.sites[own].withdrawn:
            return ()
        others = [edge.second for edge in self.edges if edge.first == own]
        others += [edge.first for edge in self.edges if edge.second == own]
        return tuple(self.sites[other].name for other in sorted(others) if not self.sites[other].withdrawn)

    def dials(self, name: str, other: str) -> bool:
        """Return whether a site dials a neighbour, rather than being dialled.

        The end without an address dials. If both have one, the later in the file dials the earlier.
        """
        own, peer = self.site(name), self.site(other)
        if own.address is None or peer.address is None:
            return peer.address is not None
        return self.number(name) > self.number(other)

    @property
    def founders(self) -> int:
        """The number of sites that began the run, which are the first in the file."""
        return sum(not site.added for site in self.sites)

    @cached_property
    def _founding_edges(self) -> tuple[EdgeEntry, ...]:
        return tuple(edge for edge in self.edges if edge.second < self.founders)

    @cached_property
    def _founding_weights(self) -> np.ndarray:
        """The weight of each link between founders: the one given, or that of the rule."""
        given = [edge.weight for edge in self._founding_edges]
        if None not in given:
            return np.array(given, np.float64)
        pairs = np.array([(edge.first, edge.second) for edge in self._founding_edges])
        ruled = edge_weights(self.weights, self.founders, pairs)
        return np.array([rule if own is None else own for own, rule in zip(given, ruled, strict=True)])

    def network(self) -> Network:
        """Return the network of all sites. Withdrawn ones are in it too, so that numbers stay as they are.

        A link of an added site that has no weight gets the smallest weight of a link between founders.
        """
        return self._network

    @cached_property
    def _network(self) -> Network:
        smallest = float(self._founding_weights.min())
        weights = dict(zip(self._founding_edges, self._founding_weights.tolist(), strict=True))
        values = [weights.get(edge, smallest if edge.weight is None else edge.weight) for edge in self.edges]
        pairs = [(edge.first, edge.second) for edge in self.edges]
        network = Network.from_edges(len(self.sites), pairs, values, name=self.run)
        by_rule = len(self._founding_edges) == len(self.edges) and all(edge.weight is None for edge in self.edges)
        weighting = self.weights if by_rule else network.weighting
        return replace(network, names=tuple(self._numbers), weighting=weighting)

    def link_ids(self) -> np.ndarray:
        """Return a number for each link of `network()`, int32 [links], which no addition or withdrawal changes.

        A link between founders has its number in the network of founders alone. A link of an added site has a number
        that is made of its ends.
        """
        network = self.network()
        owner, neighbor = network.owner, network.neighbor
        ids = FIRST_ADDED_ID + owner * IDS_PER_SITE + neighbor
        founding = (owner < self.founders) & (neighbor < self.founders)
        ids[founding] = np.arange(np.count_nonzero(founding))  # both networks sort links by owner and neighbor
        return ids.astype(np.int32)

    def digest(self) -> str:
        """Return 16 hexadecimal digits of what all sites must have in common."""
        names = [site.name for site in self.sites if not site.added]
        pairs = [(edge.first, edge.second) for edge in self._founding_edges]
        return fingerprint(self.run, self.settings, names, pairs, self._founding_weights)

    def summary(self) -> dict[str, str]:
        """Return what all sites must have in common as short texts, to tell in what two rosters differ."""
        names = [site.name for site in self.sites if not site.added]
        pairs = [(edge.first, edge.second) for edge in self._founding_edges]
        return {
            "run": self.run,
            "the list of sites": f"{len(names)} ({fingerprint(names)[:8]})",
            "the list of links": f"{len(pairs)} ({fingerprint(pairs)[:8]})",
            "weights": f"{self.weights} ({fingerprint(self._founding_weights)[:8]})",
            **{name: str(value) for name, value in self.settings.items()},
        }

    def link_digest(self, name: str, other: str) -> str:
        """Return 16 hexadecimal digits of what the two ends of a link must have in common beside `digest`.

        These are names, node numbers and the weight. Two sites may have different rosters of those that were added.
        """
        ends = sorted((self.number(name), self.number(other)))
        network = self.network()
        index = np.flatnonzero((network.owner == ends[0]) & (network.neighbor == ends[1]))
        if not index.size:
            raise InputError(f"there is no link between {name!r} and {other!r} in the roster of {self.run!r}")
        return fingerprint([(number, self.sites[number].name) for number in ends], network.weight[index])


def read_roster(path: str | Path) -> Roster:
    """Return the roster in a TOML file. Raise InputError for the first mistake in it or in its certificates."""
    file = check_path("the roster", path)
    return roster_from_table(read_table(file, "roster", FORMAT), file)


def certificate_files(table: dict[str, Any], file: Path) -> list[Path]:
    """Return the files of the certificates that the table of a roster asks for, whether they are there or not."""
    sites = table.get("sites", {})
    folder = file.parent / check_path("certificates", table.get("certificates", "certificates"))
    return [certificate_file(folder, name) for name in sites] if isinstance(sites, dict) else []


def roster_from_table(table: dict[str, Any], file: Path) -> Roster:
    """Return the roster that a TOML file holds, checked; `file` is for messages, and certificates are beside it."""
    where = f"the roster {file}"
    check_keys(table, TOP_KEYS, where)
    run = check_text(table.get("run"), f"run in {where}", most=100)
    folder = file.parent / check_path(f"certificates in {where}", table.get("certificates", "certificates"))
    weights = check_name(f"rule for weights in {where}:", table.get("weights", "metropolis"), WEIGHTINGS)
    settings = table.get("settings", {})
    if not isinstance(settings, dict):
        raise InputError(f"settings in {where} is {shown(settings)}, but it must be a table: write [settings]")
    sites = read_sites(table.get("sites"), folder, where)
    roster = Roster(run, sites, read_edges(table.get("links"), sites, where), weights, settings)
    _check_graph(roster, where)
    return roster


def _check_graph(roster: Roster, where: str) -> None:
    """Raise InputError if the founders are not connected, a site has no link, or a weight is missing."""
    linked = {number for edge in roster.edges for number in (edge.first, edge.second)}
    for number, site in enumerate(roster.sites):
        if number not in linked:
            raise InputError(f"site {site.name!r} in {where} has no link: add one, or remove the site")
    if roster.founders < 2:
        raise InputError(
            f"{where} has {roster.founders} founders, but a run begins with two: remove 'added' from sites"
        )
    missing = next((edge for edge in roster._founding_edges if edge.weight is None), None)
    if roster.weights == "given" and missing is not None:
        first, second = roster.sites[missing.first].name, roster.sites[missing.second].name
        raise InputError(f"the link {first} - {second} in {where} has no weight, but weights = 'given' asks for one")
    pairs = np.array([(edge.first, edge.second) for edge in roster._founding_edges], np.int64).reshape(-1, 2)
    check_connected(roster.founders, pairs, f"founders of {roster.run}")
    check_connected(len(roster.sites), np.array([(edge.first, edge.second) for edge in roster.edges]), roster.run)
