"""Arbitrary bytes for everything that takes bytes of a neighbour; benchmarks/fuzz_peers.py takes more of them."""

from engines.peers.fuzzing import fuzz


def test_nothing_but_wire_errors(tmp_path):
    taken, refused = fuzz(tmp_path, 3000, seed=1)
    assert taken > 300
    assert refused > 1000
