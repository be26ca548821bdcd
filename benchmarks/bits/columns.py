"""The columns of the table: a problem on a network, and a target."""

from functools import cache

from lessbits import Consensus, LeastSquares, Settings, make_network
from lessbits.config.build import build_parts
from lessbits.networks.tree import spanning_tree
from lessbits.theory import consensus_bits_per_link, tree_bits_per_link, tree_round_bits_per_link

NETWORKS = {"ring-100": "ring", "star-100": "star", "torus-10x10": "torus:10x10", "4-regular-100": "random-regular:4"}
SMALL, LARGE = 250, 10_000
COARSE = 1e-3
MOST = {1e-3: 3000, 1e-6: 4000, 1e-10: 8000}  # iterations of a search, by target


def columns():
    consensus = [(f"{name} d={dim}", target) for dim in (SMALL, LARGE) for name in NETWORKS for target in (1e-3, 1e-10)]
    ridge = [(f"ridge-ring-{nodes}", target) for nodes in (16, 64) for target in (1e-3, 1e-10)]
    return [*consensus, *ridge, ("w1a-ring-16", 1e-6)]


def named(column, target):
    return f"{column}, {target:g}"


@cache
def parts(column, seed, w1a=None):
    """The problem and the network of a column."""
    name, *rest = column.split()
    if name in NETWORKS:
        dim = int(rest[0].removeprefix("d="))
        return Consensus.random(100, dim, seed=seed), make_network(NETWORKS[name], 100, seed=0)
    nodes = int(name.split("-")[-1])
    if name.startswith("ridge"):
        return LeastSquares.random(nodes, 50, condition=100.0, seed=seed), make_network("ring", nodes)
    settings = Settings(problem="logistic", data=w1a, features=300, nodes=nodes, network="ring", seed=seed)
    return build_parts(settings)[:2]


def goal_of(column):
    return "suboptimality" if column.startswith("w1a") else "error"


def bounds(column, target):
    """Bits per link that any method needs, that any needs on the spanning tree, and one ideal round there."""
    name, *rest = column.split()
    if name not in NETWORKS:
        return {}
    network, dim = make_network(NETWORKS[name], 100, seed=0), int(rest[0].removeprefix("d="))
    below = spanning_tree(network).below
    return {
        "lower bound, any method": consensus_bits_per_link(network.nodes, network.links, dim, target),
        "lower bound, any method that uses one spanning tree": tree_bits_per_link(below, network.links, dim, target),
        "one round on the tree, ideal codes": tree_round_bits_per_link(below, network.links, dim, target),
    }
