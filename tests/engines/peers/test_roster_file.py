"""Rosters that change during a run: what is right is used at once, what is wrong changes nothing and is said once."""

import logging
import threading

import pytest
from engines.peers.made_sites import (
    ADDED,
    NAMES,
    ROSTER,
    certificate_path,
    identity,
    replace_file,
    without,
    write_certificates,
    write_roster,
)

from lessbits.engines.peers.roster_file import RosterFile


def test_a_file_is_read_again_when_it_changes(tmp_path, caplog):
    write_certificates(tmp_path, (*NAMES, "bern"))
    file = RosterFile(write_roster(tmp_path))
    first = file.current()
    assert file.current() is first
    write_roster(tmp_path, without(ROSTER, "rome"))
    second = file.current()
    assert second.site("rome").withdrawn
    assert file.current() is second
    renewed = identity("oslo")
    replace_file(certificate_path(tmp_path, "oslo"), renewed.pem)
    assert file.current().site("oslo").certificate == renewed.certificate
    write_roster(tmp_path, without(ADDED, "rome"))
    assert file.current().number("bern") == 4
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ROSTER + "[", "is no TOML"),
        (ROSTER.replace("theta = 0.1", "theta = 0.2"), "needs a restart of all"),
        (ROSTER, "removed or moved a site"),  # bern was added before
        (None, "cannot be read"),
    ],
)
def test_a_broken_change_leaves_the_roster_in_force(tmp_path, caplog, text, words):
    write_certificates(tmp_path, (*NAMES, "bern"))
    path = write_roster(tmp_path, ADDED)
    file = RosterFile(path)
    before = file.current()
    write_roster(tmp_path, text) if text else path.unlink()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert file.current() is before
    assert len(caplog.records) == 1  # once per change, not at every look
    assert words in caplog.text
    assert "the one before stays in force" in caplog.text
    write_roster(tmp_path, without(ADDED, "rome"))
    assert file.current().site("rome").withdrawn


def test_a_certificate_that_comes_later_completes_a_roster(tmp_path, caplog):
    write_certificates(tmp_path)
    file = RosterFile(write_roster(tmp_path))
    write_roster(tmp_path, ADDED)
    assert len(file.current().sites) == 4
    assert "no certificate of site 'bern'" in caplog.text
    bern = write_certificates(tmp_path, ["bern"])["bern"]
    assert file.current().site("bern").certificate == bern.certificate


def test_threads_share_a_file(tmp_path):
    write_certificates(tmp_path)
    file = RosterFile(write_roster(tmp_path))
    write_roster(tmp_path, without(ROSTER, "rome"))
    found = []
    threads = [threading.Thread(target=lambda: found.append(file.current())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert found[0].site("rome").withdrawn
