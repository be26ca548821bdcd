"""What the first axis of an array counts: nodes, links, or neither.

Classes declare it on their fields, and engines read it with `row_axes` to split, gather or copy arrays. The length of
an array is not enough: a ring of 10 nodes has 20 links, and another network may have 20 nodes.
"""

import inspect
import sys
import types
import typing
from enum import Enum
from functools import cache
from typing import Annotated, Any

import jax
from jax.tree_util import DictKey, GetAttrKey, KeyPath, SequenceKey

from lessbits._internal.pytrees import choose_rows


class Axis(Enum):
    """What the rows of an array belong to."""

    NODE = "node"
    """One row per node that the process holds."""
    LINK = "link"
    """One row per outgoing link of these nodes."""
    SHARED = "shared"
    """Rows are not divided: every process and device holds the whole array."""
    ONE_PROCESS = "one process"
    """Only the process with one particular node, such as a root, has rows; other processes have none."""


# For annotations of fields that are arrays; write `Annotated[Type, Axis.LINK]` for fields of other types.
PerNode = Annotated[jax.Array, Axis.NODE]
PerLink = Annotated[jax.Array, Axis.LINK]
Shared = Annotated[jax.Array, Axis.SHARED]
OnOneProcess = Annotated[jax.Array, Axis.ONE_PROCESS]


def row_axes(tree: Any, default: Axis) -> Any:
    """Return a pytree with the structure of `tree` and an `Axis` in place of every array.

    A field of a dataclass or NamedTuple declares the axis of everything below it, unless a field further down declares
    another one. Arrays without a declaration have the default.

    >>> from typing import NamedTuple
    >>> class State(NamedTuple):
    ...     x: jax.Array
    ...     memory: PerLink
    >>> row_axes(State(1.0, 2.0), default=Axis.NODE)
    State(x=<Axis.NODE: 'node'>, memory=<Axis.LINK: 'link'>)
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return jax.tree.unflatten(structure, [_axis_at(tree, path, default) for path, _ in leaves])


def choose_by_axis(nodes: jax.Array, links: jax.Array, these: Any, others: Any) -> Any:
    """Return the rows of some nodes and links from `these`, and all other rows from `others`.

    Arrays whose rows are neither nodes nor links are those of `others`.
    """

    def choose(axis: Axis, this: jax.Array, other: jax.Array) -> Any:
        mask = {Axis.NODE: nodes, Axis.LINK: links}.get(axis)
        return other if mask is None else choose_rows(mask, this, other)

    return jax.tree.map(choose, row_axes(these, Axis.NODE), these, others)


def _axis_at(tree: Any, path: KeyPath, default: Axis) -> Axis:
    """Return the last axis declared on a path from the root of `tree`."""
    axis, here = default, tree
    for key in path:
        match key:
            case GetAttrKey(name=name):
                cls: type = type(here)
                axis = declared_axes(cls).get(name, axis)
                here = getattr(here, name)
            case SequenceKey(idx=index):
                here = here[index]
            case DictKey(key=name):
                here = here[name]
            case _:  # a container that JAX cannot name the children of, so nothing below it can be looked up
                return axis
    return axis


@cache
def declared_axes(cls: type) -> dict[str, Axis]:
    """Return the axes that the fields of a class declare, by name; fields without a declaration are left out."""
    axes: dict[str, Axis | None] = {}
    for base in reversed(cls.__mro__):
        for name, hint in inspect.get_annotations(base).items():
            axes[name] = _axis_in(_resolved(base, name, hint))
    return {name: axis for name, axis in axes.items() if axis is not None}


def _resolved(cls: type, name: str, hint: Any) -> Any:
    """Evaluate an annotation that is written as a string; None if it names something that cannot be found."""
    # One at a time, so that a failing one does not hide the others.
    field = types.SimpleNamespace(__annotations__={name: hint})
    namespace = vars(sys.modules[cls.__module__])
    try:
        return typing.get_type_hints(field, namespace, {cls.__name__: cls}, include_extras=True)[name]
    except NameError:
        return None


def _axis_in(hint: Any) -> Axis | None:
    """Return the axis in a type hint: `Annotated[X, axis]`, or a union that has such a member."""
    if typing.get_origin(hint) is Annotated:
        return next((entry for entry in hint.__metadata__ if isinstance(entry, Axis)), None)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next((axis for member in typing.get_args(hint) if (axis := _axis_in(member)) is not None), None)
    return None
