"""The numbers of the gossip rule."""

from dataclasses import dataclass, fields

from lessbits.errors import InputError, check_number, check_whole

LIMITS = {"dual": (0.0, 1.0), "rate": (0.0, 10.0), "momentum": (0.0, 0.999), "theta": (0.0, 2.0)}


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

    Attributes:
        dual: w, how much of the dual acts in an interval. 0 turns it off; 1 diverged in all trials.
        rate: r, the step along the change of an interval.
        momentum: μ, momentum of the change of intervals.
        theta: θ, how much of the difference is taken. Coarser messages need less.
        turns: Whether a node speaks with one neighbour at a time, in turn, or with all at each exchange.
        alone: Local steps before the first exchange. In the first few hundred steps of a network that is trained from
            scratch, exchanges cost bytes and gain nothing.
    """

    dual: float = 0.1
    rate: float = 1.0
    momentum: float = 0.3
    theta: float = 0.8
    turns: bool = True
    alone: int = 0

    def __post_init__(self) -> None:
        """Check every number."""
        for name, (least, most) in LIMITS.items():
            check_number(name, getattr(self, name), least, most)
        check_whole("alone", self.alone, 0)
        if not isinstance(self.turns, bool):
            raise InputError(f"turns is {self.turns!r}, but it must be True or False")

    def due(self, steps: int, every: int) -> bool:
        """Return whether an exchange follows this step."""
        return due(steps, every, self.alone)

    def words(self) -> str:
        """Return all numbers, to be compared between nodes."""
        return " ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))


def due(steps: int, every: int, alone: int) -> bool:
    """Return whether an exchange follows this step, every few steps after some alone.

    >>> [step for step in range(1, 20) if due(step, every=5, alone=3)]
    [8, 13, 18]
    """
    return steps >= max(alone, every) and (steps - alone) % every == 0
