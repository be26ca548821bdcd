"""The commands that make a site's identity and show fingerprints say what to do next, and no secret."""

import stat

import pytest

from lessbits import InputError
from lessbits.cli.peer_init import fingerprint, init
from lessbits.engines.peers.identity import read_certificate, read_key
from lessbits.engines.peers.site_file import read_site


def test_init_makes_a_site_and_says_what_to_do_next(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    init("berlin", address="berlin.example:7443")
    printed = capsys.readouterr().out
    site = read_site("berlin/site.toml")
    key, certificate = site.read_identity()
    assert stat.S_IMODE(site.key.stat().st_mode) == 0o600
    assert certificate.fingerprint in printed
    assert 'address = "berlin.example:7443"' in printed
    assert "lessbits peer run berlin/site.toml" in printed
    assert key.decode().splitlines()[1] not in printed
    with pytest.raises(InputError, match="already there"):
        init("berlin")


def test_renewal_keeps_the_key_and_the_sites_own_file(tmp_path, capsys):
    init("rome", tmp_path)
    (tmp_path / "site.toml").write_text((tmp_path / "site.toml").read_text() + 'listen = "127.0.0.1:7000"\n')
    key, before = read_key(tmp_path / "rome.key"), read_certificate(tmp_path / "rome.pem")
    init("rome", tmp_path, days=9, renew=True)
    assert read_key(tmp_path / "rome.key") == key
    assert read_certificate(tmp_path / "rome.pem").der != before.der
    assert read_site(tmp_path / "site.toml").listen == "127.0.0.1:7000"
    assert "in place of the old rome.pem" in capsys.readouterr().out


def test_fingerprints_are_printed_for_comparison(tmp_path, capsys):
    init("rome", tmp_path, days=30)
    init("oslo.example", tmp_path, days=1)
    assert '[sites."oslo.example"]' in capsys.readouterr().out
    fingerprint([tmp_path / "rome.pem", tmp_path / "oslo.example.pem"])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"rome  {read_certificate(tmp_path / 'rome.pem').fingerprint}  expires ")
    assert first.endswith("in 29 days")
    assert second.startswith("oslo.example  ")
    with pytest.raises(InputError, match="private key"):
        fingerprint([tmp_path / "rome.key"])


def test_nothing_is_made_for_a_wrong_address(tmp_path):
    with pytest.raises(InputError, match="--address is 'berlin'"):
        init("berlin", tmp_path / "new", address="berlin")
    assert not (tmp_path / "new").exists()
