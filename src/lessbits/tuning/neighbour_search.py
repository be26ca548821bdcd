"""Search of all step sizes from the method's own: neighbours of the best, first far ones, then near ones.

A grid of nine values for each of three step sizes has 729 points. Here the values lie on the same lattice, but only
neighbours of the best candidate are run: those that differ from it in one or two step sizes, by half a decade each.
When none of them is better, nearer ones follow. Two at a time, because what one step size may be depends on another
(θ on 1/η, for example).
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product

from lessbits.tuning.grid import is_possible, number_of, value_of
from lessbits.tuning.runs import Runs, Sizes

MOST_MOVES = 8  # of the best candidate, at each distance
AT_ONCE = 2  # step sizes in which a neighbour differs

Point = tuple[int, ...]  # the number of the lattice value along each axis


def strides(per_decade: int) -> list[int]:
    """Return the distances of neighbours, in steps of the lattice: half a decade, a fifth of one, and one step.

    >>> strides(10), strides(3), strides(1)
    ([5, 2, 1], [2, 1], [1])
    """
    return sorted({max(1, round(per_decade / parts + 1e-9)) for parts in (2, 5)} | {1}, reverse=True)


class NeighbourSearch:
    """Moves from the method's own step sizes to better ones, neighbour by neighbour."""

    def __init__(self, runs: Runs, names: tuple[str, ...]) -> None:
        self.runs, self.names = runs, names
        self.per_decade = runs.options.per_decade
        self.declared = [runs.method.step_size(name) for name in names]
        self.start: Point = tuple(number_of(runs.method, name, self.per_decade) for name in names)
        self.points: dict[Point, Sizes] = {}

    def search(self) -> list[str]:
        """Run neighbours of the best until none is better, and return notes about the search."""
        # The method's own step sizes are a candidate: the result is never worse.
        own = {name: float(getattr(self.runs.method, name)) for name in self.names}
        here, more = self.start, [own]
        notes = []
        for stride in strides(self.per_decade):
            for move in range(MOST_MOVES + 1):
                more += [sizes for point in self._around(here, stride) if (sizes := self._sizes(point)) is not None]
                best = self.runs.add(more, self._distance_to(here))[0].sizes
                more = []
                better = next((point for point, sizes in self.points.items() if sizes == best), here)
                if better == here:
                    break
                if move == MOST_MOVES:
                    notes.append(f"the search has moved {MOST_MOVES} times: a better candidate may lie beyond")
                here = better
        return notes + self._edge_notes(here)

    def _around(self, here: Point, stride: int) -> Iterator[Point]:
        """Yield the point itself and its neighbours; those near the start only, if the grid may not grow."""
        yield here
        reach = strides(self.per_decade)[0]
        for count in range(1, AT_ONCE + 1):
            for axes in combinations(range(len(here)), count):
                for sides in product((-stride, stride), repeat=count):
                    shifts = dict(zip(axes, sides, strict=True))
                    point = tuple(number + shifts.get(axis, 0) for axis, number in enumerate(here))
                    inside = all(abs(number - first) <= reach for number, first in zip(point, self.start, strict=True))
                    if self.runs.options.grow or inside:
                        yield point

    def _sizes(self, point: Point) -> Sizes | None:
        """Return the step sizes of a point; None if one of them is not possible."""
        if point not in self.points:
            pairs = zip(self.declared, point, strict=True)
            values = [value_of(declared, number, self.per_decade) for declared, number in pairs]
            if not all(is_possible(*pair) for pair in zip(self.declared, values, strict=True)):
                return None
            self.points[point] = dict(zip(self.names, values, strict=True))
        return self.points[point]

    def _distance_to(self, here: Point) -> Callable[[Sizes], float]:
        """Return a function that counts the steps of the lattice between candidates and a point."""
        numbers = {tuple(sizes.values()): point for point, sizes in self.points.items()}

        def distance(sizes: Mapping[str, float]) -> float:
            point = numbers.get(tuple(sizes.values()), here)  # the method's own are next to the start
            return sum(abs(number - other) for number, other in zip(point, here, strict=True))

        return distance

    def _edge_notes(self, here: Point) -> list[str]:
        """Return notes about step sizes that may not go further."""
        if self.runs.options.grow:
            return []
        reach = strides(self.per_decade)[0]
        pairs = zip(self.names, here, self.start, strict=True)
        sides = [(name, number - first) for name, number, first in pairs if abs(number - first) >= reach]
        return [
            f"the best {name} is the {'largest' if shift > 0 else 'smallest'} tried, and the grid may not grow: a "
            "better one may lie beyond"
            for name, shift in sides
        ]
