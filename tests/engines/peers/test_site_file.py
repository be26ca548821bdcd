"""The file of a site: defaults beside it, paths relative to it, and a line for each mistake."""

import pytest
from engines.peers.made_sites import write_certificates, write_roster

from lessbits import InputError
from lessbits.engines.peers.identity import make_identity
from lessbits.engines.peers.roster import read_roster
from lessbits.engines.peers.site_file import read_site, write_site


def test_everything_is_beside_the_file_unless_it_says_otherwise(tmp_path, monkeypatch):
    written = write_site(tmp_path / "site.toml", "berlin")
    assert written == read_site(tmp_path / "site.toml")
    assert written.roster == tmp_path / "roster.toml"
    assert written.key == tmp_path / "berlin.key"
    assert written.certificate == tmp_path / "berlin.pem"
    assert written.state == tmp_path / "state"
    assert written.listen is None
    monkeypatch.chdir(tmp_path)
    assert read_site("site.toml") == written
    other = write_site("site.toml", "berlin", roster="../roster.toml", key="/etc/keys/b.key", listen="127.0.0.1:7443")
    assert other.roster == tmp_path / "../roster.toml"
    assert str(other.key) == "/etc/keys/b.key"
    assert other.listen == "127.0.0.1:7443"


def test_a_site_listens_where_the_roster_says(tmp_path):
    write_certificates(tmp_path)
    roster = read_roster(write_roster(tmp_path))
    assert write_site(tmp_path / "berlin.toml", "berlin").listen_address(roster) == "[::]:7443"
    assert write_site(tmp_path / "rome.toml", "rome").listen_address(roster) is None
    assert write_site(tmp_path / "oslo.toml", "oslo", listen="10.0.0.7:99").listen_address(roster) == "10.0.0.7:99"
    with pytest.raises(InputError, match=r"unknown site 'pariss': did you mean 'paris'"):
        write_site(tmp_path / "x.toml", "pariss").listen_address(roster)


def test_key_and_certificate_must_be_those_of_the_site(tmp_path):
    made = make_identity(tmp_path, "berlin")
    make_identity(tmp_path, "paris")
    key, certificate = write_site(tmp_path / "site.toml", "berlin").read_identity()
    assert certificate == made
    assert key == (tmp_path / "berlin.key").read_bytes()
    with pytest.raises(InputError, match="does not belong"):
        write_site(tmp_path / "site.toml", "berlin", key="paris.key").read_identity()
    with pytest.raises(InputError, match=r"paris.pem is the certificate of 'paris', but this site is 'berlin'"):
        write_site(tmp_path / "site.toml", "berlin", key="paris.key", certificate="paris.pem").read_identity()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = 'berlin'", "has no format, but .* reads format = 'lessbits-site-1'"),
        ("format = 'lessbits-site-2'\nname = 'berlin'", "has the format 'lessbits-site-2'"),
        ("format = 'lessbits-site-1'", "name in .* is None"),
        ("format = 'lessbits-site-1'\nname = 'Berlin'", "is 'Berlin', but it must be a DNS name"),
        ("format = 'lessbits-site-1'\nname = 'a'\nrooster = 'b'", "did you mean 'roster'"),
        ("format = 'lessbits-site-1'\nname = 'a'\nlisten = '7443'", "listen in .* host and a port"),
        ("format = 'lessbits-site-1'\nname = 'a'\nkey = 7", "key in .* must be a path"),
        ("format = ", "is no TOML"),
    ],
)
def test_mistakes_get_a_line(tmp_path, text, words):
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        read_site(tmp_path / "site.toml")
    assert "site.toml" in str(caught.value)


def test_what_cannot_be_read_back_is_not_written_silently(tmp_path):
    with pytest.raises(InputError, match="did you mean 'listen'"):
        write_site(tmp_path / "site.toml", "berlin", listens="a:1")
    with pytest.raises(InputError, match="DNS name"):
        write_site(tmp_path / "site.toml", "Berlin")
    assert list(tmp_path.iterdir()) == []
