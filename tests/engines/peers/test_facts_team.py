"""What a site shares with all others: facts before the run, and nothing that one site would collect."""

import asyncio

import numpy as np
import pytest
from engines.peers.in_process import Town

from lessbits.engines.peers.connections import Doors
from lessbits.engines.peers.facts import Facts
from lessbits.engines.peers.facts_team import FactsTeam


def test_no_site_gathers_broadcasts_or_sums_what_others_have(tmp_path):
    async def check():
        facts = Facts(town.member("berlin"), Doors(town.member("berlin")), lambda names: None)
        return FactsTeam(facts, asyncio.get_running_loop())

    town = Town(tmp_path)
    team = asyncio.run(check())
    assert (team.rank, team.size) == (0, len(town.names))
    refused = [
        lambda: team.gather(np.zeros(1)),
        lambda: team.broadcast(np.zeros(1)),
        lambda: team.chain(lambda total: total, np.zeros(1)),
        lambda: team.connect([1]),
        lambda: team.exchange([b""], [0]),
    ]
    for call in refused:
        with pytest.raises(NotImplementedError):
            call()
