"""Log grids of step sizes."""

from collections.abc import Mapping, Sequence, Sized

import numpy as np

from lessbits.errors import InputError, check_name, check_whole, is_number, shown
from lessbits.methods.base import Method
from lessbits.methods.request import StepSize

GROWTH = 3  # values added each time a grid grows beyond an edge
AROUND = 4  # values on each side of the method's own step size if no values are given

GridSpec = Mapping[str, Sequence[float] | None]


def make_axes(method: Method, grid: GridSpec, per_decade: int) -> dict[str, list[float]]:
    """Return the values of each axis of the grid, in increasing order."""
    axes = {}
    for name, values in grid.items():
        declared = method.step_size(name)
        if values is None:
            middle = number_of(method, name, per_decade)
            around = [value_of(declared, middle + offset, per_decade) for offset in range(-AROUND, AROUND + 1)]
            values = [value for value in around if is_possible(declared, value)]
        axes[name] = sorted({float(value) for value in values})
    return axes


def check_grid(method: Method, grid: GridSpec, per_decade: int) -> None:
    """Raise an `InputError` for step sizes that the method does not have, and for grids that cannot be laid."""
    check_whole("per_decade", per_decade, 1)
    if not grid:
        raise InputError(f"{method.name} has no step size above 0 to search: name one, with values")
    check_values(type(method), grid)
    for name, values in grid.items():
        own = float(getattr(method, name))
        if values is None and not own > 0:
            raise InputError(
                f"{name} is {own:g}, so no grid can be laid around it: give values, as in {name}=0.001,0.01"
            )


def check_values(kind: type[Method], grid: GridSpec) -> None:
    """Raise an `InputError` for step sizes that the method does not have, and for values that they must not have."""
    for name, values in grid.items():
        check_name("step size", name, kind.step_size_names)
        if values is None:
            continue
        unsized = isinstance(values, str | bytes | Mapping) or not isinstance(values, Sized)
        if unsized or getattr(values, "shape", 1) == ():
            raise InputError(f"the grid of {name} is {shown(values)}, but it must be a list of numbers from 0 on")
        if not len(values) or not all(is_number(value) and value >= 0 for value in values):
            raise InputError(f"the grid of {name} has no values, or some that are no numbers from 0 on")
        if 0 in values and not kind.step_size(name).from_zero:
            raise InputError(f"the grid of {name} has 0, but it must be above 0")


def lattice(number: int, per_decade: int) -> float:
    """Return 10^(number/per_decade), rounded so that it does not depend on where a grid starts."""
    return float(f"{10 ** (number / per_decade):.6g}")


def number_of(method: Method, name: str, per_decade: int) -> int:
    """Return the number of the lattice value next to the method's own step size."""
    own = float(getattr(method, name))
    size = 1 - own if method.step_size(name).kind == "momentum" else own
    return round(np.log10(size) * per_decade)


def value_of(declared: StepSize, number: int, per_decade: int) -> float:
    """Return a value of the lattice. For momentum β, it is 1 - β that lies on the lattice."""
    size = lattice(number, per_decade)
    return round(1 - size, 12) if declared.kind == "momentum" else size


def is_possible(declared: StepSize, value: float) -> bool:
    """Return whether a step size may have this value."""
    if declared.kind == "momentum":
        return 0 <= value < 1
    return value <= 1 if declared.kind in ("memory", "probability") else value > 0


def extended(values: list[float], side: int) -> list[float]:
    """Return the values with more beyond an edge, in the ratio of the last two there.

    New values are on the lattice 10^(j/k) if the last two are. The ratio is at most a decade, so that no good value is
    skipped.

    >>> extended([1.0, 2.0, 4.0], 1)
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    """
    positive = [value for value in values if value > 0]
    edge = positive[-1] if side > 0 else positive[0]
    inner = edge / 10**side if len(positive) == 1 else positive[-2] if side > 0 else positive[1]
    ratio = float(np.clip(edge / inner, 0.1, 10.0))
    per_decade = max(1, round(1 / abs(np.log10(ratio))))
    number = round(np.log10(edge) * per_decade)
    if edge == lattice(number, per_decade) and np.isclose(ratio, 10 ** (side / per_decade), rtol=1e-4):
        beyond = [lattice(number + side * count, per_decade) for count in range(1, GROWTH + 1)]
    else:
        beyond = [edge * ratio**count for count in range(1, GROWTH + 1)]
    return sorted({*values, *beyond})
