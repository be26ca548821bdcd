"""Schedules of graphs, and faults that are written down and replayed."""

import numpy as np
import pytest

from lessbits import (
    EdgeDual,
    Faults,
    InputError,
    LeastSquares,
    Settings,
    base_graphs,
    make_network,
    make_quantizer,
    matchings,
    one_peer_exponential,
    read_faults,
    record_faults,
    simulate,
    union_of,
    write_faults,
)
from lessbits.config.build import build

PROBLEM = LeastSquares.random(8, 4, condition=5.0)
QUANTIZER = make_quantizer("dit-4", 4)
METHOD = EdgeDual(0.3, 0.9, 1 / (1 + QUANTIZER.omega(4)), 3.0, QUANTIZER)


@pytest.mark.parametrize("spec", ["ring", "complete", "erdos-renyi:0.5", "star"])
def test_matchings_share_no_node_and_leave_no_link_out(spec):
    network = make_network(spec, 9)
    groups = matchings(network)
    assert sum(map(len, groups)) == network.edges
    for edges in groups:
        ends = [node for edge in edges for node in edge]
        assert len(ends) == len(set(ends))


def mixing(graphs, nodes):
    """Return the product of the matrices that average each node with its neighbours, graph after graph."""
    product = np.eye(nodes)
    for edges in graphs:
        matrix = np.eye(nodes)
        for first, second in edges:
            matrix[first, second] = matrix[second, first] = 1
        product = matrix / matrix.sum(axis=1, keepdims=True) @ product
    return product


@pytest.mark.parametrize(("nodes", "neighbors"), [(8, 1), (12, 2), (9, 2), (30, 4)])
def test_base_graphs_average_exactly_with_few_neighbours(nodes, neighbors):
    graphs = base_graphs(nodes, neighbors)
    np.testing.assert_allclose(mixing(graphs, nodes), 1 / nodes, rtol=0, atol=1e-12)
    degrees = [np.bincount(np.array(edges).ravel(), minlength=nodes).max() for edges in graphs]
    assert max(degrees) <= neighbors


def test_exponential_graphs_of_a_power_of_two_reach_everyone():
    assert (mixing(one_peer_exponential(16), 16) > 0).all()


def test_numbers_of_nodes_that_no_base_has_are_one_line():
    with pytest.raises(InputError, match="14 nodes have the factor 7, but with 2 neighbours factors are at most 3"):
        base_graphs(14, 2)


@pytest.mark.parametrize("graphs", [one_peer_exponential(8), base_graphs(8), matchings(make_network("ring", 8))])
def test_runs_converge_on_schedules(graphs):
    trace = simulate(
        PROBLEM, union_of(graphs, 8), METHOD, iterations=1500, record_every=100, faults=Faults(graphs=graphs)
    )
    assert trace["error"][-1] < 1e-20


def test_a_recording_replays_the_run_to_the_bit(tmp_path):
    network = make_network("erdos-renyi:0.5", 8)
    faults = Faults(drop=0.3, fail=0.1, heal=0.4, part=0.9)
    first = simulate(PROBLEM, network, METHOD, iterations=50, record_every=10, seed=7, faults=faults)
    write_faults(record_faults(faults, network, 50, seed=7), tmp_path / "replay.toml")
    again = read_faults(tmp_path / "replay.toml")
    assert again.drop == again.fail == 0
    assert again.speaking == faults.speaking  # so that step sizes are the same
    second = simulate(PROBLEM, network, METHOD, iterations=50, record_every=10, seed=7, faults=again)
    assert first.x.tobytes() == second.x.tobytes()


def test_graphs_can_be_files(tmp_path):
    (tmp_path / "even.txt").write_text("# first\n0 1\n2 3\n")
    (tmp_path / "odd.txt").write_text("1 2\n")
    (tmp_path / "faults.toml").write_text(f'graphs = ["{tmp_path}/even.txt", "{tmp_path}/odd.txt"]')
    assert read_faults(tmp_path / "faults.toml").graphs == ((("0", "1"), ("2", "3")), (("1", "2"),))
    (tmp_path / "odd.txt").write_text("1\n")
    with pytest.raises(InputError, match="an edge has two nodes"):
        read_faults(tmp_path / "faults.toml")
    (tmp_path / "odd.txt").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        read_faults(tmp_path / "faults.toml")


@pytest.mark.slow
def test_a_recording_with_a_slow_node_is_replayed_though_its_length_is_a_multiple():
    network, problem = make_network("ring", 8), LeastSquares.random(8, 4, condition=5.0)
    faults = Faults(drop=0.3, slow={3: 5})
    method = EdgeDual(0.3, 0.7, 0.5, 1.0, make_quantizer("dit-4", 4))
    runs = [
        simulate(problem, network, method, iterations=50, record_every=10, seed=3, faults=each)
        for each in (faults, record_faults(faults, network, 50, seed=3))
    ]
    assert runs[0].x.tobytes() == runs[1].x.tobytes()
    with pytest.raises(InputError, match="the link 3-4 can speak every 2 iterations only, never in its turn"):
        simulate(problem, network, method, iterations=5, faults=Faults(graphs=matchings(network), slow={3: 2}))


def test_schedules_have_names_in_files(tmp_path):
    network, file = make_network("complete", 8), tmp_path / "faults.toml"
    named = {
        "matchings": matchings(network),
        "one-peer-exponential": one_peer_exponential(8),
        "base:2": base_graphs(8),
        "base:4": base_graphs(8, 3),
    }
    for name, graphs in named.items():
        file.write_text(f'graphs = "{name}"')
        assert read_faults(file, network) == Faults(graphs=graphs)
    settings = {"problem": "least-squares", "nodes": 8, "dim": 2, "network": "complete", "faults": str(file)}
    assert len(build(Settings.read({**settings, "method": "dgd", "eta": 0.1})).faults.graphs) == 2
    with pytest.raises(InputError, match="a schedule by name: give read_faults the network"):
        read_faults(file)
    for name, line in (("base:1", "the base of graphs is 1"), ("matching", "did you mean 'matchings'")):
        file.write_text(f'graphs = "{name}"')
        with pytest.raises(InputError, match=line):
            read_faults(file, network)
