"""Step sizes of runs without lockstep: one site is fifty times slower than the others, and they converge."""

import importlib.util
from pathlib import Path

import pytest

from lessbits import LeastSquares, make_network
from lessbits.config.peers import ASYNC_DELAY

FILE = Path(__file__).parents[3] / "benchmarks" / "peers" / "slow_site.py"


@pytest.fixture(scope="module")
def slow_site():
    """Return the benchmark as a module."""
    spec = importlib.util.spec_from_file_location("slow_site", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_site_that_is_much_slower_does_not_make_the_others_diverge(slow_site):
    """With the sizes for messages that are at most 2 iterations late, the error is above a thousand here."""
    problem = LeastSquares.from_parts(*slow_site.alike(), 0.001)
    network = make_network("complete", slow_site.SITES)
    turns, ends = slow_site.clock(network, 50, 4000)
    method = slow_site.suggested(problem, network, "dit-4", ASYNC_DELAY[1])
    _, error = slow_site.times_to(problem, network, method, turns, ends, 1e-6)
    assert error < 1e-2


def test_the_clock_makes_schedules_that_fit_together(slow_site):
    network = make_network("ring", 4)
    turns, ends = slow_site.clock(network, 5, 60)
    counts = {site: len(mine) for site, mine in turns.items()}
    assert counts["3"] < counts["1"] / 3  # the neighbours of the fast ones take several turns for each of the slow one
    assert all(list(times) == sorted(times) for times in ends.values())
    moments = slow_site.order(turns)
    for half in ("begin", "end"):
        assert sum(len(getattr(moment, half)) for moment in moments) == sum(counts.values())
