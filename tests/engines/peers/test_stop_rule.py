"""When a site stops: what it hears of the end, links that fail near it, and neighbours that are gone."""

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import pytest
from engines.peers.made_sites import identity, write_certificates, write_roster

from lessbits.engines.peers.edge import Control
from lessbits.engines.peers.options import Membership, SiteOptions
from lessbits.engines.peers.protocol import NEVER
from lessbits.engines.peers.roster import read_roster
from lessbits.engines.peers.run import SiteRun
from lessbits.engines.peers.site import Site
from lessbits.errors import InputError


class Outlet:
    """Keeps what is sent."""

    def __init__(self):
        self.announced, self.sent, self.closed = [], [], ""

    def put(self, packet):
        self.sent.append(packet)

    def announce(self, packet):
        self.announced.append(packet)

    def close(self, reason):
        self.closed = reason


@pytest.fixture
def membership(tmp_path):
    write_certificates(tmp_path)
    path = write_roster(tmp_path)
    mine = identity("paris")
    return Membership("paris", mine.key, mine.certificate, lambda: read_roster(path))


def site_of(membership, **options):
    """Return a site with two neighbours, berlin and rome, that are connected in epoch 1."""
    codec = SimpleNamespace(most_bytes=8, mark=lambda: b"")
    node = SimpleNamespace(neighbors=[0, 2], links=np.array([2, 3]), back=np.array([0, 4]), codec=codec)
    site = Site(membership, node, SiteOptions(until=1e-8, **options))
    for edge in site.edges.values():
        edge.epoch, edge.round, edge.state, edge.outlet = 1, 5, "connected", Outlet()
        edge.heard = Control(10, NEVER, 100, 0.0)
    site.iteration, site.streak, site.apart = 10, 100, np.zeros(2)
    return site


def test_a_link_that_was_dropped_just_now_puts_the_end_off(membership):
    site = site_of(membership)
    site.edges["rome"].drop("set aside", "silent")
    site._estimate(0.0)
    assert (site.streak, site.stop) == (0, NEVER)


def test_a_decided_end_is_passed_on_at_once_and_closes_the_run(membership):
    site = site_of(membership)
    site.edges["rome"].drop("set aside", "silent")
    site.edges["berlin"].heard = Control(10, 20, 100, 0.0)
    site._pass_on_the_stop()
    assert site.stop == NEVER  # this site is far from its target: the neighbour is not believed
    site.below_at = site.iteration
    site._pass_on_the_stop()
    assert site.stop == 20
    assert site.without == ["rome"]
    assert site.closed
    assert site.edges["berlin"].outlet.announced
    site.edges["berlin"].drop("set aside", "silent")  # after the decision: its data are in the solution
    assert site.without == ["rome"]


def test_a_site_that_ends_by_itself_does_not_end_because_a_neighbour_does(membership):
    site = site_of(membership, alone=True)
    site.edges["berlin"].heard = Control(10, 10, 100, 0.0)
    site._estimate(1.0)
    assert site.stop == NEVER


def test_a_site_is_abandoned_when_no_neighbour_takes_part(membership):
    site = site_of(membership)
    site.edges["rome"].drop("set aside", "silent")
    assert not site.abandoned
    site.edges["berlin"].drop("set aside", "silent")
    assert site.abandoned


def test_a_site_whose_neighbours_have_finished_with_it_goes_on(membership):
    site = site_of(membership)
    for edge in site.edges.values():
        edge.state = "finished"
    assert not site.abandoned


def test_a_site_without_neighbours_ends_with_a_line(membership):
    async def check():
        site = site_of(membership, give_up_after=5.0)
        run = SiteRun(site, "")
        for edge in site.edges.values():
            edge.drop("set aside", "silent")
        run._check_company(time.monotonic())
        with pytest.raises(InputError, match="no neighbour was there for 6 s"):
            run._check_company(time.monotonic() - 6)
        for edge in site.edges.values():
            edge.drop("finished", "the run has ended")
        with pytest.raises(InputError, match="ended without this site: berlin and rome finished"):
            run._check_company(time.monotonic())

    asyncio.run(check())


def test_the_last_word_of_a_site_goes_before_its_farewell(membership):
    edge = site_of(membership).edges["rome"]
    edge.announce(Control(11, 11, 100, 0.0), last=True)
    assert len(edge.outlet.sent) == 1
    assert edge.outlet.announced == []
