"""Names of nodes: graphs and edge lists that use the names of the sites, and names that do not match."""

import networkx
import numpy as np
import pytest

from lessbits import InputError, make_network

SITES = ("Basel", "Bern", "Genève")
STAR = networkx.Graph([("Genève", "Bern"), ("Bern", "Basel")])


def edges(network):
    once = network.owner < network.neighbor
    return list(zip(network.owner[once].tolist(), network.neighbor[once].tolist(), strict=True))


def test_a_graph_gets_the_order_of_the_sites():
    network = make_network(STAR, names=SITES)
    assert network.names == SITES
    assert edges(network) == [(0, 1), (1, 2)]
    assert make_network(STAR).names == ("Genève", "Bern", "Basel")
    assert network.with_weights("unit").names == SITES
    weighted = networkx.Graph()
    weighted.add_weighted_edges_from([("3", "20", 0.5), ("20", "100", 0.25)])
    weighted = make_network(weighted, weights="given", names=[3, 20, 100])  # sites that are numbers
    assert weighted.names == ("3", "20", "100")
    assert weighted.weight.tolist() == [0.5, 0.5, 0.25, 0.25]


def test_named_graphs_take_their_size_from_the_sites():
    assert make_network("ring", names=SITES).nodes == 3
    assert make_network("ring", names=SITES).names is None
    assert make_network(networkx.path_graph(3)).names is None
    with pytest.raises(InputError, match="has 4 nodes, but there are 3 sites, and each is a node"):
        make_network(np.ones((4, 4)) - np.eye(4), names=SITES)


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (networkx.relabel_nodes(STAR, {"Genève": "Genf"}), "site 'Genève' is no node, node 'Genf' is no site"),
        (networkx.path_graph(3), "site 'Basel' is no node, node '0' is no site, and 4 more"),
        (networkx.Graph([*STAR.edges, ("Bern", "Chur")]), "(node 'Chur' is no site)"),
        (networkx.Graph([("Basel", "Bern")]), "(site 'Genève' is no node)"),
    ],
)
def test_names_are_never_matched_by_position(graph, says):
    with pytest.raises(InputError) as error:
        make_network(graph, names=SITES)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["Basel Bern\nBern Genève # a road\n", "Basel, Bern\n\nGenève,Bern\n", "1 0\n2\t1\n", "Bern\tBasel\nBern\tGenève"],
)
def test_edge_lists_may_use_names(tmp_path, text):
    file = tmp_path / "roads.txt"
    file.write_text(text, encoding="utf-8")
    assert edges(make_network(str(file), names=SITES)) == [(0, 1), (1, 2)]


def test_edge_lists_prefer_names_that_are_numbers(tmp_path):
    file = tmp_path / "roads.txt"
    file.write_text("1 2 0.5\n2 3 0.25\n")
    network = make_network(file, names=[1, 2, 3])
    assert edges(network) == [(0, 1), (1, 2)]
    assert network.max_weight == 0.5


def test_an_unknown_name_in_an_edge_list_gets_a_line(tmp_path):
    file = tmp_path / "roads.txt"
    file.write_text("Basel Bern\nBern Geneve\n")
    with pytest.raises(InputError, match=r"node 'Geneve', but no site has that name: did you mean 'Genève'\?"):
        make_network(str(file), names=SITES)
    with pytest.raises(InputError, match="line 1 is 'Basel Bern'"):
        make_network(str(file))
    file.write_text("Basel Bern\n")
    with pytest.raises(InputError, match=r"roads.txt' has no edge of the site 'Genève': add one"):
        make_network(str(file), names=SITES)
