"""Facts that sites share: kept for the next start, asked for without waiting for dead neighbours, and given up."""

import asyncio

import numpy as np
import pytest
from engines.peers.made_sites import write_certificates, write_roster

from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.facts import Facts, LeftError
from lessbits.engines.peers.options import Membership
from lessbits.engines.peers.roster import read_roster
from lessbits.engines.peers.signing import sign

HANGING = 60.0  # seconds; nothing waits that long unless it hangs
OTHERS = ("berlin", "rome", "oslo")


@pytest.fixture
def paris(tmp_path):
    made = write_certificates(tmp_path)
    path = write_roster(tmp_path)
    member = Membership("paris", made["paris"].key, made["paris"].certificate, lambda: read_roster(path))
    member.keys = {name: each.key for name, each in made.items()}  # of all sites, for the test alone
    return member


def facts_of(membership, file=None):
    doors = Doors(membership)

    async def never(name, address, packet):
        await asyncio.Event().wait()

    doors.ask = never  # all neighbours are dead
    return Facts(membership, doors, lambda names: None, file)


def told(facts, value):
    """Let the other sites say a number."""
    for name in OTHERS:
        fact = [[1], "<f8", [value]]
        signature = sign(facts.membership.keys[name], facts._message("fact 0", name, fact))
        facts.known.setdefault("fact 0", {})[name] = [*fact, signature.hex()]


def test_facts_are_kept_and_a_site_goes_on_without_neighbours(paris, tmp_path):
    async def twice():
        first = facts_of(paris, tmp_path / "facts.json")
        told(first, 2.0)
        before = await first.gather("fact 0", np.ones(1))
        again = await facts_of(paris, tmp_path / "facts.json").gather("fact 0", np.ones(1))
        assert np.array_equal(before, again)

    asyncio.run(asyncio.wait_for(twice(), HANGING))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"run": "another", "known": {}}'])
def test_a_file_of_facts_that_makes_no_sense_is_not_used(paris, tmp_path, content):
    (tmp_path / "facts.json").write_bytes(content)

    async def read():
        assert facts_of(paris, tmp_path / "facts.json").known == {}

    asyncio.run(read())


def test_a_site_that_is_told_to_leave_does_not_wait_for_a_dead_neighbour(paris):
    async def leave():
        facts = facts_of(paris)
        asyncio.get_running_loop().call_later(0.1, facts.give_up, "it was told to leave")
        with pytest.raises(LeftError):
            await facts.gather("fact 0", np.ones(1))
        facts.stop_asking()

    asyncio.run(asyncio.wait_for(leave(), HANGING))
