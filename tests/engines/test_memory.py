"""Runs and networks that cannot fit into memory are refused before they are tried."""

import pytest

from lessbits import Consensus, InputError, LeastSquares, PrimalDual, make_network, make_quantizer, simulate
from lessbits._internal import memory as machine
from lessbits.engines import memory
from lessbits.networks import weights
from lessbits.networks.local import LocalNetwork

GIGABYTE = 10**9


def method(dim, **options):
    return PrimalDual.make(make_quantizer("dit-4", dim), 0.5, 0.5, dim=dim, **options)


@pytest.fixture
def small_machine(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: GIGABYTE)
    monkeypatch.setattr(weights, "free_memory", lambda: GIGABYTE)


def test_a_run_too_large_is_refused_with_its_size_and_what_to_make_smaller(small_machine):
    problem, network = Consensus.random(200, 5000), make_network("complete", 200)
    with pytest.raises(InputError, match=r"39,800 links and 5,000 dimensions needs about .* GB of memory") as error:
        simulate(problem, network, method(5000, messages="edge"), iterations=1)
    assert "but 1 GB of memory are free: take fewer nodes" in str(error.value)
    assert "\n" not in str(error.value)
    # The estimate is of this run, not of the largest imaginable.
    assert memory.run_bytes(problem, LocalNetwork.of(network), method(5000, messages="broadcast")) < GIGABYTE / 3


def test_dual_gradients_need_a_matrix_per_node(small_machine):
    problem, network = LeastSquares.random(8, 40, samples=40), make_network("ring", 8)
    local = LocalNetwork.of(network)
    dual, plain = (memory.run_bytes(problem, local, method(40, option=option)) for option in "AB")
    assert dual - plain == pytest.approx(3 * 8 * 40**2 * 8, rel=0.1)


def test_a_network_too_large_is_refused_before_it_is_made(small_machine):
    with pytest.raises(InputError, match=r"a complete network of 5000 nodes needs about 1.5 GB of memory"):
        make_network("complete", 5000)


def test_small_runs_are_not_looked_at_closely(monkeypatch):
    monkeypatch.setattr(memory, "run_bytes", lambda *arguments: pytest.fail("shapes were looked up"))
    problem, network = Consensus.random(6, 4), make_network("ring", 6)
    memory.check_run_fits(problem, LocalNetwork.of(network), method(4))


def test_limits_of_containers_count(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "GROUPS", tmp_path)
    assert machine._free_in_group() is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("600\n")
    assert machine._free_in_group() is None
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 100\n")
    assert machine._free_in_group() == machine.free_memory() == 500
    older = tmp_path / "memory"
    older.mkdir()
    (tmp_path / "memory.max").unlink()
    (older / "memory.limit_in_bytes").write_text("900")
    (older / "memory.usage_in_bytes").write_text("1000")
    assert machine._free_in_group() == 0
