"""Search for step sizes: of all combinations of given values, or of neighbours of the method's own."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

from lessbits._internal.hashing import fingerprint
from lessbits._internal.keyword_options import read_options, takes_options
from lessbits._internal.memory import memory_in_a_line
from lessbits.engines.checks import default_goal
from lessbits.engines.schedule import record_interval
from lessbits.engines.simulate.sweep import Budget
from lessbits.errors import InputError
from lessbits.methods.base import Method
from lessbits.methods.common import nominal_bits
from lessbits.networks import Network
from lessbits.problems.base import Problem
from lessbits.problems.computed import loss_marks
from lessbits.problems.origin import check_kinds
from lessbits.tuning.grid import GridSpec, check_grid, make_axes
from lessbits.tuning.grid_search import GridSearch
from lessbits.tuning.neighbour_search import NeighbourSearch
from lessbits.tuning.options import TuneKeywords, TuneOptions
from lessbits.tuning.records import Records
from lessbits.tuning.results import Tuning, TuningInterrupted
from lessbits.tuning.runs import Runs

MOST_ITERATIONS = 10_000  # of a run without a budget


@takes_options(TuneOptions)
@memory_in_a_line()
def tune(
    problem: Problem,
    network: Network,
    method: Method,
    grid: GridSpec | None = None,
    **options: Unpack[TuneKeywords],
) -> Tuning:
    """Search a method's step sizes for the fewest iterations or bits to a target, or the lowest value in a budget.

    An interrupt raises `TuningInterrupted`, which has the candidates that were run by then.

    Args:
        problem: The losses of all nodes.
        network: The links between nodes, with their weights.
        method: The method. Step sizes that are not searched are not changed.
        grid: Maps names of step sizes to the values to try, or to None. If all are None, the search starts at the
            method's own step sizes, and moves to better neighbours on a log grid, far ones first. With values, all
            combinations are run, and None stands for a log grid around the method's own value. By default all step
            sizes above zero are searched.
        **options: The fields of `TuneOptions`: aim, until, goal, budgets, seeds and so on.

    Example:
        >>> import lessbits
        >>> problem, network = lessbits.Consensus.random(nodes=10, dim=5), lessbits.make_network("star", nodes=10)
        >>> method = lessbits.primal_dual(problem, network, "exact", theta=1, eta=1)
        >>> found = lessbits.tune(problem, network, method, {"theta": [0.5, 1.0, 1.5]}, until=1e-3, grow=False)
        >>> found.best.sizes
        {'theta': 1.5}
    """
    if not isinstance(grid, Mapping | None):
        raise InputError(f"the grid is {grid!r}, but it maps names of step sizes to values, or to None")
    check_kinds(problem, network, method)
    method.check(problem, network)
    asked = read_options(TuneOptions, options, "tune").checked()
    grid = grid or dict.fromkeys(method.tunable())
    check_grid(method, grid, asked.per_decade)
    needed = _needed(method, problem, asked.epochs, asked.bits)
    iterations = asked.iterations
    if iterations is None:
        iterations = MOST_ITERATIONS if needed is None else 2 * needed
    budget = Budget(iterations, asked.epochs, asked.bits, asked.until, asked.goal or default_goal(problem))
    if asked.record_every is None:
        every = record_interval(method, problem, min(iterations, needed or iterations))
        asked = replace(asked, record_every=every)
    records = Records(asked.out, search_mark(problem, network, method, grid, budget, asked))
    runs = Runs(problem, network, method, budget, asked, records)
    given = any(values is not None for values in grid.values())
    search = (
        GridSearch(runs, make_axes(method, grid, asked.per_decade)) if given else NeighbourSearch(runs, tuple(grid))
    )
    try:
        notes = search.search()
    except KeyboardInterrupt:
        if not runs.ranked():
            raise
        raise TuningInterrupted(runs.result(["the search was interrupted"])) from None
    return runs.result(notes)


def search_mark(
    problem: Problem, network: Network, method: Method, names: Mapping[str, Any], budget: Budget, options: TuneOptions
) -> str:
    """Return the fingerprint of a search: outcomes of searches with the same one can be reused."""
    # The searched step sizes are set to one, which is the same for all candidates.
    shared = replace(method, **dict.fromkeys(names, 1.0))  # type: ignore[type-var]
    marks = loss_marks(problem)
    return fingerprint(problem, network, shared, budget, options.record_every, options.aim == "bits", *marks)


def _needed(method: Method, problem: Problem, epochs: float | None, bits: float | None) -> int | None:
    """Return about how many iterations spend a budget of epochs or bits. Return None without a budget."""
    ends = [] if epochs is None else [epochs / method.passes(problem)]
    if bits is not None:
        ends.append(bits / sum(nominal_bits(method, problem.dim)))
    return max(1, math.ceil(min(ends))) if ends else None
