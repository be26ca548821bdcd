"""Who speaks with whom, and when."""

import pytest

from lessbits.errors import InputError
from lessbits.networks import make_network
from lessbits.training.links import NoLinks
from lessbits.training.partners import network_between, rounds

NETWORKS = ["ring", "path", "star", "complete", "hypercube", "torus", "random-regular:3", "random-regular:4", "barbell"]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("nodes", [8, 16])
def test_every_link_has_one_turn_and_a_node_one_partner_at_a_time(name, nodes):
    network = make_network(name, nodes=nodes)
    found = rounds(network)
    spoken = [(node, other) for pairs in found for node, other in pairs.items()]
    assert all(pairs[other] == node for pairs in found for node, other in pairs.items())
    assert sorted(spoken) == sorted(zip(network.owner.tolist(), network.neighbor.tolist(), strict=True))


@pytest.mark.parametrize("name", ["ring", "path", "star", "hypercube", "torus"])
def test_a_bipartite_network_needs_as_many_rounds_as_its_largest_degree(name):
    network = make_network(name, nodes=16)
    assert len(rounds(network)) == network.maximal_degree


def test_few_rounds_are_empty_for_a_node_of_a_random_regular_network():
    for seed in range(5):
        network = make_network("random-regular:4", nodes=32, seed=seed)
        assert len(rounds(network)) <= 5  # 7 if every link took the first free round


@pytest.mark.parametrize("network", ["rng", "rng:3", "", 3, None, b"ring", ["ring"]])
def test_a_single_process_checks_the_network_as_several_do(network):
    with pytest.raises(InputError, match=r"network") as caught:
        network_between(NoLinks(), network)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("network", ["ring", "torus:4x4", "random-regular:4", make_network("ring", nodes=4)])
def test_a_single_process_has_no_network(network):
    assert network_between(NoLinks(), network) is None
