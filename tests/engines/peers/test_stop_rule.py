"""When a site stops: what it hears of the end, links that fail near it, and neighbours that are gone."""

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import pytest
from engines.peers.made_sites import identity, write_certificates, write_roster

from lessbits.engines.peers.agreement import Agreement
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
    site.iteration, site.apart = 10, np.zeros(2)
    return site


def test_a_link_that_was_dropped_just_now_puts_the_end_off(membership):
    site = site_of(membership)
    site.agreement.streak = 3  # of four sites: not agreed
    site.edges["rome"].drop("set aside", "silent")
    site._estimate(0.0)
    assert site.agreement.streak == 0
    assert not site.closed


def test_a_site_that_has_agreed_keeps_its_links_as_they_are(membership):
    site = site_of(membership)
    site.edges["rome"].drop("set aside", "silent")
    site.agreement.streak = 3
    site.edges["rome"].must_reset = False
    site.edges["rome"].state = "set aside"
    site._estimate(0.0)
    assert site.closed
    assert not site.done
    assert site.agreement.without == ["rome"]
    site.edges["berlin"].drop("set aside", "silent")  # after that: its data are in the solution
    site._estimate(1.0)
    assert site.agreement.streak == 5
    assert site.agreement.without == ["rome"]


def test_a_stop_is_believed_by_those_alone_who_have_agreed(membership):
    site = site_of(membership)
    site.edges["berlin"].heard = Control(10, 20, 100, 0.0)
    site.agreement.streak = 0
    site._estimate(1.0)
    assert not site.done  # this site is far from its target
    site.agreement.streak = 3
    site._estimate(0.0)
    assert site.done
    assert site.now.stop == site.iteration


def test_a_site_that_ends_by_itself_does_not_end_because_a_neighbour_does(membership):
    site = site_of(membership, alone=True)
    site.edges["berlin"].heard = Control(10, 10, 100, 0.0)
    site.agreement.streak = 0
    site._estimate(1.0)
    assert not site.done


def test_the_number_of_sites_is_the_most_that_any_has_heard_of(membership):
    """A site that has no link with one that was added keeps its roster, and must wait for its news all the same."""
    site = site_of(membership)
    site.edges["berlin"].heard = Control(10, NEVER, 100, 0.0, 7)
    site.agreement.streak = 5
    site._estimate(0.0)
    assert site.agreement.sites == 7
    assert not site.closed
    assert site.now.sites == 7


class Gossip:
    """Sites in lockstep that count together; `links` are pairs of sites."""

    def __init__(self, sites, links, rosters=None):
        self.links = {site: [a + b - site for a, b in links if site in (a, b)] for site in range(sites)}
        options = SiteOptions(until=1e-8)
        self.all = [Agreement(options, known) for known in rosters or [sites] * sites]

    def iterate(self, above):
        """Count an iteration, in which some sites are above the target; return who has ended."""
        said = [Control(0, NEVER, each.streak, 0.0, each.sites) for each in self.all]
        for site, agreement in enumerate(self.all):
            edges = [SimpleNamespace(heard=said[other], live=True) for other in self.links[site]]
            agreement.update(site not in above, edges, [])
        return [each.ended for each in self.all]


@pytest.mark.parametrize("when", range(25))
@pytest.mark.parametrize("who", [0, 2, 5])
def test_all_end_together_and_never_when_a_link_has_failed_at_the_last_moment(when, who):
    """A site leaves its target for good in some iteration: unless all have agreed before, nobody ends."""
    sites = Gossip(6, [(node, node + 1) for node in range(5)])  # a path, in which news takes longest
    agreed_before = False
    for iteration in range(40):
        agreed_before |= all(each.agreed for each in sites.all)
        ended = sites.iterate({who} if iteration >= when else ())
        assert len(set(ended)) == 1
        if ended[0]:
            break
    assert ended[0] == agreed_before
    assert ended[0] == (when >= 6)


def test_a_stop_that_was_taken_back_comes_again_when_the_target_is_reached():
    sites = Gossip(6, [(node, node + 1) for node in range(5)])
    for iteration in range(200):
        late = 6 <= iteration < 60  # the others agree in iteration 6, this one does not
        ended = sites.iterate({0} if late or iteration == 5 else ())
        assert len(set(ended)) == 1
        if ended[0]:
            break
    assert 60 + 6 <= iteration <= 60 + 12


def test_sites_with_old_rosters_wait_for_the_news_of_all():
    """Three of a path of six have rosters of three sites: they must not end before they have heard of the last one."""
    links = [(node, node + 1) for node in range(5)]
    sites = Gossip(6, links, [3, 3, 3, 6, 6, 6])
    for iteration in range(40):
        ended = sites.iterate({5} if iteration < 10 else ())
        assert len(set(ended)) == 1
        assert not (ended[0] and iteration < 20)
        if ended[0]:
            break
    assert ended[0]


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


def test_what_neighbours_say_of_their_error_is_shown_once_they_have_said_it(membership):
    site = site_of(membership)
    site.edges["berlin"].heard = Control(10, NEVER, 0, 0.25)
    site.edges["rome"].heard = Control(10, NEVER, 0, float("inf"))
    assert [one["estimate"] for one in site.snapshot()["neighbours"]] == [0.25, None]
    site.edges["berlin"].heard = Control(iteration=-1)
    assert site.snapshot()["neighbours"][0]["estimate"] is None
