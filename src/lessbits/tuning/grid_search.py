"""Search of given values: all combinations, on a grid that grows while its best value is at an edge."""

from collections.abc import Mapping
from itertools import product

from lessbits.tuning.grid import extended, is_possible
from lessbits.tuning.results import Candidate
from lessbits.tuning.runs import Runs, Sizes

NEAR = 2  # values on each side of the best along the other axes when a grid grows
MOST_GROWTH = 8  # how often a grid grows in each direction


class GridSearch:
    """All combinations of the values of each axis."""

    def __init__(self, runs: Runs, axes: dict[str, list[float]]) -> None:
        self.runs, self.axes = runs, axes

    def search(self) -> list[str]:
        """Run the grid, let it grow until its best value is not at an edge, and return notes about it."""
        grow = self.runs.options.grow
        grown: dict[tuple[str, int], int] = {}
        more = [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]
        while True:
            ranked = self.runs.add(more, self._distance)
            beside = self._untried_neighbours(ranked[0].sizes)
            if grow and beside:
                more = beside
                continue
            edges = self._edges(ranked[0])
            growing = [edge for edge in edges if grow and grown.get(edge, 0) < MOST_GROWTH]
            if not growing:
                break
            more = []
            for name, side in growing:
                grown[name, side] = grown.get((name, side), 0) + 1
                more += self._grow(name, side, ranked[0].sizes)
        why = f"the grid has grown {MOST_GROWTH} times" if grow else "the grid may not grow"
        return [_edge_note(name, side, why) for name, side in edges]

    def _grow(self, name: str, side: int, best: Mapping[str, float]) -> list[Sizes]:
        """Return candidates beyond an edge, near the best along the other axes, and add the new values to the axis."""
        longer = self._longer(name, side)
        ranges = {}
        for other, values in self.axes.items():
            at = values.index(best[other])
            ranges[other] = values[max(0, at - NEAR) : at + NEAR + 1]
        ranges[name] = [value for value in longer if value not in self.axes[name]]
        self.axes[name] = longer
        return [dict(zip(ranges, values, strict=True)) for values in product(*ranges.values())]

    def _longer(self, name: str, side: int) -> list[float]:
        """Return the values of an axis with more beyond an edge, if there are any possible ones."""
        values, declared = self.axes[name], self.runs.method.step_size(name)
        return [value for value in extended(values, side) if value in values or is_possible(declared, value)]

    def _untried_neighbours(self, best: Mapping[str, float]) -> list[Sizes]:
        """Return the candidates next to the best that are not in the grid yet."""
        ranges = {}
        for name, values in self.axes.items():
            at = values.index(best[name])
            ranges[name] = values[max(0, at - 1) : at + 2]
        beside = [dict(zip(ranges, values, strict=True)) for values in product(*ranges.values())]
        return [sizes for sizes in beside if sizes not in self.runs.candidates]

    def _distance(self, sizes: Mapping[str, float]) -> float:
        """Return the distance from the middle of the grid."""
        total = 0.0
        for name, values in self.axes.items():
            total += abs(values.index(sizes[name]) - (len(values) - 1) / 2)
        return total

    def _edges(self, best: Candidate) -> list[tuple[str, int]]:
        """Return the axes and sides where the best candidate is at an edge that can move."""
        edges = []
        for name, values in self.axes.items():
            if best.diverged and values[0] > 0:
                edges.append((name, -1))  # nothing is stable: try smaller ones
            elif len(values) > 1:
                edges += [(name, side) for side, at in ((-1, 0), (1, -1)) if best.sizes[name] == values[at] > 0]
        return [(name, side) for name, side in edges if len(self._longer(name, side)) > len(self.axes[name])]


def _edge_note(name: str, side: int, why: str) -> str:
    where = "smallest" if side < 0 else "largest"
    return f"the best {name} is the {where} tried, and {why}: a better one may lie beyond"
