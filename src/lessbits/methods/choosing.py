"""What the trial runs cost that chose a method's step sizes. It is kept beside the method, as long as the method is."""

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from lessbits.methods.base import Method


class ChosenWith(NamedTuple):
    """The cost of choosing step sizes. It is not part of the bits of a run.

    Attributes:
        trials: How many trial runs were made.
        iterations: Their iterations, in all.
        bits_per_link: The bits that they sent per link, in all: encoded, with headers.
    """

    trials: int = 0
    iterations: int = 0
    bits_per_link: float = 0.0

    def plus(self, other: "ChosenWith") -> "ChosenWith":
        """Return the sum of two costs."""
        return ChosenWith(
            self.trials + other.trials,
            self.iterations + other.iterations,
            self.bits_per_link + other.bits_per_link,
        )


# By the object itself: methods are compared by identity, as `pytree` makes them.
_costs: "WeakKeyDictionary[Method, ChosenWith]" = WeakKeyDictionary()


def remember_cost(method: "Method", cost: ChosenWith) -> None:
    """Keep what choosing the step sizes of this method cost."""
    _costs[method] = cost


def known_cost(method: "Method") -> ChosenWith:
    """Return what choosing the step sizes of this method cost; nothing if they were given or proven."""
    return _costs.get(method, ChosenWith())
