"""Rosters: what they say, which changes leave numbers and weights alone, and a line for every mistake."""

import numpy as np
import pytest
from engines.peers.made_sites import (
    ADDED,
    NAMES,
    ROSTER,
    certificate_path,
    identity,
    without,
    write_certificates,
    write_roster,
)

from lessbits import InputError, make_network
from lessbits.engines.peers.roster import read_roster
from lessbits.networks.network import Network


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the certificates of four sites, and of one that may be added."""
    place = tmp_path_factory.mktemp("roster")
    write_certificates(place, (*NAMES, "bern"))
    return place


@pytest.fixture
def read(folder):
    return lambda text: read_roster(write_roster(folder, text))


def test_a_roster_says_who_talks_to_whom(read):
    roster = read(ROSTER)
    assert roster.run == "ward-7"
    assert tuple(site.name for site in roster.sites) == NAMES
    assert [roster.number(name) for name in NAMES] == [0, 1, 2, 3]
    assert roster.site("berlin").address == "berlin.example:7443"
    assert roster.site("rome").address is None
    assert [site.certificate.name for site in roster.sites] == list(NAMES)
    assert roster.neighbors("berlin") == ("paris", "rome", "oslo")
    assert roster.neighbors("oslo") == ("berlin",)
    assert roster.settings == {"problem": "logistic", "theta": 0.1}
    with pytest.raises(InputError, match="did you mean 'oslo'"):
        roster.number("olso")


def test_one_end_of_each_link_dials(read):
    roster = read(ROSTER)
    assert roster.dials("rome", "berlin")  # rome has no address
    assert roster.dials("rome", "paris")
    assert roster.dials("paris", "berlin")  # both have one, and paris is the later
    for name in NAMES:
        for other in roster.neighbors(name):
            assert roster.dials(name, other) != roster.dials(other, name)
            assert roster.site(other if roster.dials(name, other) else name).address


def test_the_network_is_that_of_the_simulator(read):
    network = read(ROSTER).network()
    same = Network.from_edges(4, [(0, 1), (1, 2), (0, 2), (0, 3)])
    assert network.names == NAMES
    assert network.weighting == "metropolis"
    for name in ("owner", "neighbor", "weight"):
        np.testing.assert_array_equal(getattr(network, name), getattr(same, name))
    np.testing.assert_array_equal(read(ROSTER).link_ids(), np.arange(8))
    assert read(ROSTER).link_ids().dtype == np.int32
    ring = 'links = [["berlin", "paris"], ["paris", "rome"], ["rome", "oslo"], ["oslo", "berlin"]]'
    network = read(ROSTER.replace(ROSTER.splitlines()[3], ring + "\nweights = 'unit'")).network()
    np.testing.assert_array_equal(network.weight, make_network("ring", 4, weights="unit").weight)


def test_weights_may_be_given(read):
    some = read(ROSTER.replace('["paris", "rome"]', '["paris", "rome", 0.125]')).network()
    rule = read(ROSTER).network()
    given = ((some.owner == 1) & (some.neighbor == 2)) | ((some.owner == 2) & (some.neighbor == 1))
    np.testing.assert_array_equal(some.weight[given], [0.125, 0.125])
    np.testing.assert_array_equal(some.weight[~given], rule.weight[~given])
    assert some.weighting == "given"


def test_an_added_site_changes_no_weight_and_no_number_of_the_others(read):
    before, after = read(ROSTER), read(ADDED)
    assert after.number("bern") == 4
    assert after.neighbors("bern") == ("paris", "rome")
    old, new = before.network(), after.network()
    founding = (new.owner < 4) & (new.neighbor < 4)
    for name in ("owner", "neighbor", "weight"):
        np.testing.assert_array_equal(getattr(new, name)[founding], getattr(old, name))
    ids = after.link_ids()
    np.testing.assert_array_equal(ids[founding], before.link_ids())
    weights = {(i, j): w for i, j, w in zip(new.owner, new.neighbor, new.weight, strict=True)}
    assert weights[1, 4] == weights[4, 1] == 0.4
    assert weights[2, 4] == weights[4, 2] == old.weight.min()
    added = {(i, j): n for i, j, n in zip(new.owner, new.neighbor, ids, strict=True) if 4 in (i, j)}
    assert added == {(i, j): 2**30 + i * 2**15 + j for i, j in [(1, 4), (4, 1), (2, 4), (4, 2)]}
    assert len(set(ids.tolist())) == len(ids)


def test_a_withdrawn_site_keeps_its_number_and_has_no_certificate(read, folder):
    content = certificate_path(folder, "paris").read_bytes()
    certificate_path(folder, "paris").unlink()
    roster = read(without(ROSTER, "paris"))  # nobody needs the file any more
    certificate_path(folder, "paris").write_bytes(content)
    assert roster.site("paris").certificate is None
    assert roster.number("rome") == 2
    assert roster.neighbors("berlin") == ("rome", "oslo")
    assert roster.neighbors("paris") == ()
    np.testing.assert_array_equal(roster.network().weight, read(ROSTER).network().weight)


LAST_LINK = ', ["oslo", "berlin"]'
CHANGES = {
    "address": (lambda text: text.replace("paris.example:7443", "paris.example:8443"), True),
    "added": (lambda text: ADDED, True),
    "withdrawn": (lambda text: without(text, "rome"), True),
    "direction of a link": (lambda text: text.replace('["paris", "rome"]', '["rome", "paris"]'), True),
    "order of links": (lambda text: text.replace(LAST_LINK, "").replace("[[", f"[{LAST_LINK[2:]}, [", 1), True),
    "order of settings": (lambda text: text.replace("theta = 0.1", "").replace("prob", "theta = 0.1\nprob"), True),
    "run": (lambda text: text.replace("ward-7", "ward-8"), False),
    "setting": (lambda text: text.replace("theta = 0.1", "theta = 0.2"), False),
    "weight": (lambda text: text.replace('"paris"]', '"paris", 0.3]', 1), False),
    "rule": (lambda text: text.replace("links", "weights = 'unit'\nlinks", 1), False),
    "link": (lambda text: text.replace(', ["rome", "berlin"]', ""), False),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_the_digest_is_of_what_all_must_share(read, change):
    edit, same = CHANGES[change]
    assert edit(ROSTER) != ROSTER
    assert (read(edit(ROSTER)).digest() == read(ROSTER).digest()) == same
    assert len(read(ROSTER).digest()) == 16


def test_the_digest_does_not_depend_on_certificates(read, folder):
    digest = read(ROSTER).digest()
    certificate_path(folder, "rome").write_bytes(identity("rome").pem)
    assert read(ROSTER).digest() == digest


def test_both_ends_of_an_added_link_can_compare_it(read):
    roster, other = read(ADDED), read(ADDED.replace("0.4", "0.5"))
    assert roster.link_digest("bern", "paris") == roster.link_digest("paris", "bern")
    assert roster.link_digest("bern", "paris") != other.link_digest("bern", "paris")
    assert roster.link_digest("bern", "rome") == other.link_digest("bern", "rome")
    with pytest.raises(InputError, match="no link between 'oslo' and 'paris'"):
        roster.link_digest("oslo", "paris")


def edit(old, new):
    assert old in ROSTER
    return ROSTER.replace(old, new)


FIRST_LINK = '["berlin", "paris"]'
MANY = "".join(f"[sites.s{number}]\n" for number in range(1000))
MISTAKES = [
    ("", "has no format"),
    (edit("roster-1", "roster-9"), "has the format 'lessbits-roster-9'.*'lessbits-roster-1'"),
    (edit("run =", "run"), "is no TOML"),
    ("x = " + "[" * 5000, "is no TOML"),
    ("#" * 1_000_001, "more than 1000000 bytes"),
    (edit('run = "ward-7"', ""), "run in .* is None, but it must be a text"),
    (edit('"ward-7"', "7"), "run in .* is 7"),
    (edit("links =", "link ="), "unknown key .*'link': did you mean 'links'"),
    (edit("[settings]", "[setings]"), "did you mean 'settings'"),
    (edit("[settings]\n", ""), "unknown key of site 'oslo'.*'problem'"),
    (edit("run =", "settings = 3\nrun =").split("[settings]")[0], "settings in .* is 3, .* table"),
    (edit("run =", "certificates = 3\nrun ="), "certificates in .* must be a path"),
    (edit("run =", "weights = 'metropolitan'\nrun ="), "did you mean 'metropolis'"),
    (edit("run =", "weights = 'given'\nrun ="), "link berlin - paris in .* has no weight, but weights = 'given'"),
    (edit(FIRST_LINK, '["berlin", "pari"]'), "unknown site in a link.* 'pari': did you mean 'paris'"),
    (edit(FIRST_LINK, '["berlin", 3]'), "site in a link .* is 3"),
    (edit(FIRST_LINK, '["berlin", "berlin"]'), "link berlin - berlin .* to itself"),
    (edit(FIRST_LINK, FIRST_LINK + ', ["paris", "berlin"]'), "link paris - berlin .* twice"),
    (edit(FIRST_LINK, '["berlin"]'), r"is \['berlin'\], but it must be two sites"),
    (edit(FIRST_LINK, '["berlin", "paris", 0]'), "weight of the link berlin - paris .* is 0"),
    (edit(FIRST_LINK, '["berlin", "paris", nan]'), "weight of the link berlin - paris .* is nan"),
    (edit(FIRST_LINK, '["berlin", "paris", true]'), "weight of the link berlin - paris .* is True"),
    (edit("links", "linked").replace("linked = ", "links = [] #"), "needs links, above"),
    (edit('address = "paris.example:7443"', ""), "link paris - rome .* without an address"),
    (edit("paris.example:7443", "paris.example"), "address of site 'paris' .* host and a port"),
    (edit("paris.example:7443", "paris.example:70000"), "address of site 'paris' .* from 1 to 65535"),
    (edit("paris.example:7443", "https://paris.example:7443"), "address of site 'paris' .* host and a port"),
    (edit("[sites.rome]", "[sites.rome]\nadress = 'a:1'"), "site 'rome' .*'adress': did you mean 'address'"),
    (edit("[sites.rome]", "[sites.rome]\nlinks = []"), "site 'rome' .* 'links': .* above the first"),
    (edit("[sites.rome]", "[sites.rome]\nwithdrawn = 'no'"), "withdrawn of site 'rome' .* True or False"),
    (edit("[sites.rome]", "[sites.rome]\nadded = true"), "added site 'rome' before 'oslo'.* put added sites last"),
    (edit("[sites.rome]", "[sites.Rome]"), "is 'Rome', but it must be a DNS name"),
    (edit("[sites.rome]", "[sites.rome.it]"), r'needs quotes: \[sites."rome.it"\]'),
    (edit("[sites.rome]", "[sites.rom]"), "no certificate of site 'rom' .* rom.pem"),
    (edit("[sites.rome]", "[sites.berlin]"), "is no TOML"),
    (edit("[sites.rome]", "[sites.rome]\n[sites.bern]"), "site 'bern' .* has no link"),
    (edit(', ["oslo", "berlin"]', ', ["oslo", "bern"]') + "[sites.bern]\naddress='a:1'", "disconnected"),
    (ADDED.replace('["oslo", "berlin"]', '["oslo", "bern"]'), "founders of ward-7' of 4 nodes is disconnected"),
    (ROSTER.split("[sites.berlin]")[0], "at least two sites"),
    (ROSTER.split("[sites.berlin]")[0] + "sites = 3", "at least two sites"),
    (ROSTER.split("[sites.berlin]")[0] + "[sites]\nberlin = 3\nparis = 4", r"site 'berlin' .* write \[sites.berlin\]"),
    (edit("[settings]", MANY + "[settings]"), "1004 sites, but at most 1000"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_get_a_line(read, text, words):
    with pytest.raises(InputError, match=words) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_certificates_must_be_those_of_the_sites(tmp_path):
    made = write_certificates(tmp_path)
    path, rome = write_roster(tmp_path), certificate_path(tmp_path, "rome")
    rome.write_bytes(made["paris"].pem)
    with pytest.raises(InputError, match=r"rome.pem is the certificate of 'paris', but site 'rome' .*"):
        read_roster(path)
    rome.write_bytes(identity("rome", key=made["paris"].key).pem)
    with pytest.raises(InputError, match=r"sites 'paris' and 'rome' .* have the same key"):
        read_roster(path)
    rome.write_bytes(made["rome"].key)
    with pytest.raises(InputError, match=r"rome.pem holds a private key"):
        read_roster(path)
    rome.write_bytes(identity("rome", -3, -1).pem)
    assert read_roster(path).site("rome").certificate.days_left < 0  # TLS refuses it; the others go on
    with pytest.raises(InputError, match=r"nowhere.toml cannot be read: No such file"):
        read_roster(tmp_path / "nowhere.toml")
    with pytest.raises(InputError, match="is no file"):
        read_roster(tmp_path)
