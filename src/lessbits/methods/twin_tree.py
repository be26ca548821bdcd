"""Sums over a tree with two roots, the ends of its middle edge: as `tree`, in one exchange less for each round.

With one root of depth 0 in the middle, a round takes h exchanges up and h down. A longest path of odd length has an
edge in the middle. Its two ends tell each other their sums in one exchange: then both know the total, take the same
step, and pass it down on their sides, all nodes to the same point. A round takes 2h - 1 exchanges, h - 1 up and down
and one across, and as many messages as with one root: on the edge in the middle a sum goes each way, in place of a sum
and an answer. If no pair of roots is faster, there is one, and the method is `tree`.
"""

from lessbits._internal.pytrees import pytree
from lessbits.methods.tree import Tree
from lessbits.networks.network import Network
from lessbits.networks.tree import SpanningTree, twin_tree
from lessbits.problems.base import Problem


@pytree
class TwinTree(Tree):
    """Sums over a spanning tree with two roots: one exchange less for each round, if its middle is an edge.

    Attributes are those of `Tree`. The roots have depth 1, and each is the other's parent.
    """

    name = "twin-tree"
    note = "is tree with two roots, which saves an exchange in each round where the longest path is odd."

    @staticmethod
    def tree_of(network: Network) -> SpanningTree:
        """Return the tree with two roots."""
        return twin_tree(network)

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Return False: it saves time."""
        return False
