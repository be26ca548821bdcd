"""The numbers of the gossip rule, and how they are chosen."""

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from lessbits.errors import InputError, check_flag, check_number, check_positive, check_whole
from lessbits.networks import Network
from lessbits.training.partners import rounds

DUAL, MOST_DUAL = (
    0.3,
    0.15,
)  # a fifth to a third of what is stable, or a little more, in the linear model of lessbits.theory.intervals
NOISE_SHARE = 5.0  # how much the noise of a round counts there
ALL_AT_ONCE = 1.25  # rounds that count, if a node speaks with all neighbours at each exchange
MOST_NOISE = 0.95  # with more, memories hardly follow models, whatever the numbers
LARGEST_EIGENVALUE = 4 / 3  # of a ring; weights with a larger one need a smaller θ, with all at each exchange
MOMENTUM, TREE_MOMENTUM = 0.3, 0.6  # which did best in runs, of gossip and of sums up a tree
LIMITS = {"dual": (0.0, 1.0), "rate": (0.0, 10.0), "momentum": (0.0, 0.999), "theta": (0.0, 2.0)}

OPEN = ("dual", "momentum", "theta")  # which are chosen if they are None


class Numbers(NamedTuple):
    """w, r, μ and θ, and the factor of m before a change is added to it: μ too, or 0."""

    dual: float
    rate: float
    momentum: float
    theta: float
    kept: float

    def at(self, exchange: int, alone: int) -> "Numbers":
        """Return those of an exchange, counted from 0: after steps alone, momentum begins with the second one."""
        if not alone or exchange > 1:
            return self
        return self._replace(kept=0.0) if exchange else self._replace(kept=0.0, momentum=0.0, rate=1.0)


@dataclass(frozen=True)
class Rule:
    """How a node changes its model after an interval of local steps; the same at all nodes.

    At each node, from x_old to x by the user's optimizer:

        x ← x + w Z                  the dual, in equal parts at each local step
        q = Q(x - h);  h ← h + q     one compressed message, and a memory that both ends of a link have
        c = θ (h - h_j) / 2          what gossip takes from the difference to the neighbour j whose turn it is
        y = x - c;  Z ← Z - c        the dual learns the correction
        g = x_old - y;  m ← μ m + g
        x ← x_old - r (g + μ m)      Nesterov momentum over the whole interval

    With `turns=False` a node sends one message to all neighbours, and c = θ Σ_j w_ij (h_i - h_j).

    θ and w are chosen for the network and the quantizer unless they are given (`chosen`; docs/neural-theory.md):

        θ = (1 - ε)(1 + ε (1 - ε))/(r (1 + μ)),   w = s min(0.15, 0.3/(1 + 5 K ε/(1 - ε)))

    where ε is the mean square error of a message over what it tells, K the number of rounds until all links have had
    their turn, and s the share of rounds in which the node with the fewest links has one. Momentum multiplies a
    correction by r (1 + μ) at once, so that both ends together just meet. A message after K intervals tells of K
    changes, and its error grows with them. The dual acts in all intervals, also between two turns of a node.

    With `tree=True`, changes are added up a spanning tree, and the mean of all is sent down. All nodes then have one
    model after an exchange, and messages may be much coarser, such as `block:3.25`. All nodes must take part:

        s = e + x_old - x + Σ q_c    over the messages of the node's children
        q = Q(s) to the parent;  e ← s - q
        q = Q(s/n) from the root to all nodes;  e ← s - n q
        m ← μ m + q;  x ← x_old - r (q + μ m)

    Attributes:
        dual: w, how much of the dual acts in an interval. 0 turns it off.
        rate: r, the step along the change of an interval.
        momentum: μ, momentum of the change of intervals: 0.3, or 0.6 with `tree`, unless it is given.
        theta: θ, how much of the difference is taken.
        turns: Whether a node speaks with one neighbour at a time, in turn, or with all at each exchange.
        alone: Local steps before the first exchange. In the first few hundred steps of a network that is trained from
            scratch, exchanges cost bytes and gain nothing. The first exchange then has no momentum (x ← y, m = 0),
            which would lengthen the change of all these steps.
        tree: Whether changes are added up a spanning tree, in place of gossip. θ, w and turns are not for it.
    """

    dual: float | None = None
    rate: float = 1.0
    momentum: float | None = None
    theta: float | None = None
    turns: bool = True
    alone: int = 0
    tree: bool = False

    def __post_init__(self) -> None:
        """Check every number."""
        for name, (least, most) in LIMITS.items():
            if getattr(self, name) is not None or name not in OPEN:
                check_number(name, getattr(self, name), least, most)
        check_positive("rate", self.rate)  # with 0, every exchange would undo what was trained
        check_whole("alone", self.alone, 0)
        check_flag("turns", self.turns)
        if check_flag("tree", self.tree) and (self.theta is not None or self.dual is not None or not self.turns):
            raise InputError("with tree=True there is no gossip: leave out theta, dual and turns, or tree")

    def chosen(self, network: Network | None, noise: float) -> "Rule":
        """Return the rule with all numbers, for a network and the error ε of its messages (`noise_of`)."""
        if self.tree:
            return replace(self, momentum=TREE_MOMENTUM if self.momentum is None else self.momentum)
        noise = min(noise, MOST_NOISE)
        momentum = MOMENTUM if self.momentum is None else self.momentum
        number, share, theta = ALL_AT_ONCE, 1.0, 1 / (max(self.rate, 0.1) * (1 + momentum))
        if network and self.turns:
            number = len(rounds(network))
            share = int(network.degree.min()) / number
        elif network:
            theta *= min(1.0, LARGEST_EIGENVALUE / network.lambda_max)
        theta *= (1 - noise) * (1 + noise * (1 - noise))
        dual = share * min(MOST_DUAL, DUAL / (1 + NOISE_SHARE * number * noise / (1 - noise)))
        return replace(
            self,
            momentum=momentum,
            dual=round(dual, 3) if self.dual is None else self.dual,
            theta=round(min(theta, 1.0), 3) if self.theta is None else self.theta,
        )

    def check_gossip(self, what: str) -> None:
        """Raise if this is no gossip: sums up a tree need all nodes at the same time."""
        if self.tree:
            raise InputError(f"{what} is for gossip, but with tree=True all nodes wait for each other: leave out one")

    @property
    def numbers(self) -> Numbers:
        """The four numbers of a rule that has all of them; the dual is 0 and θ is 1 up a tree."""
        dual, theta = (0.0, 1.0) if self.tree else (self.dual, self.theta)
        if dual is None or theta is None or self.momentum is None:
            raise InputError("dual, theta or momentum is open: Rule.chosen finds them for a network and a quantizer")
        return Numbers(dual, self.rate, self.momentum, theta, self.momentum)

    def numbers_at(self, exchange: int) -> Numbers:
        """Return the numbers of an exchange, counted from 0."""
        return self.numbers.at(exchange, self.alone)

    def due(self, steps: int, every: int) -> bool:
        """Return whether an exchange follows this step."""
        return due(steps, every, self.alone)

    def words(self) -> str:
        """Return all numbers, to be compared between nodes."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        given |= {name: float(given[name]) for name in LIMITS if given[name] is not None}  # 1 and 1.0 are the same
        return " ".join(f"{name}={each!r}" for name, each in given.items())


def due(steps: int, every: int, alone: int) -> bool:
    """Return whether an exchange follows this step, every few steps after some alone.

    >>> [step for step in range(1, 20) if due(step, every=5, alone=3)]
    [8, 13, 18]
    """
    return steps >= max(alone, every) and (steps - alone) % every == 0
