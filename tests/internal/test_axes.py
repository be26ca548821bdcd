"""Axes are what fields declare, at any depth, and never what the length of an array suggests."""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from lessbits._internal.axes import Axis, OnOneProcess, PerLink, PerNode, Shared, declared_axes, row_axes
from lessbits._internal.pytrees import pytree, static
from lessbits.networks import make_network
from lessbits.networks.local import LocalNetwork

ROWS = jnp.zeros(3)  # equally many everywhere: lengths say nothing


class Memory(NamedTuple):
    h: PerLink
    g: jax.Array
    lost: "Memory | None" = None


class State(NamedTuple):
    x: jax.Array
    memory: Any = None
    root: Annotated[Memory | None, Axis.ONE_PROCESS] = None


@pytree
class Base:
    rows: PerNode
    table: Shared
    flag: bool = static(default=False)


@pytree
class Derived(Base):
    table: PerLink
    maybe: PerLink | None = None
    parts: Annotated[tuple[Any, ...], Axis.SHARED] = ()


def test_undeclared_fields_have_the_default() -> None:
    assert row_axes(State(ROWS, ROWS), Axis.NODE) == State(Axis.NODE, Axis.NODE)
    assert row_axes(State(ROWS, ROWS), Axis.SHARED) == State(Axis.SHARED, Axis.SHARED)
    assert row_axes(ROWS, Axis.LINK) is Axis.LINK


def test_the_innermost_declaration_counts() -> None:
    memory = Memory(ROWS, ROWS, Memory(ROWS, ROWS))
    axes = row_axes(State(ROWS, memory, memory), Axis.NODE)
    link, node, root = Axis.LINK, Axis.NODE, Axis.ONE_PROCESS
    assert axes == State(node, Memory(link, node, Memory(link, node)), Memory(link, root, Memory(link, root)))


def test_declarations_reach_through_tuples_lists_and_dictionaries() -> None:
    parts = (ROWS, {"a": [ROWS, State(ROWS)]}, Memory(ROWS, ROWS))
    axes = row_axes([Derived(ROWS, ROWS, maybe=ROWS, parts=parts)], Axis.NODE)[0]
    assert (axes.rows, axes.table, axes.maybe) == (Axis.NODE, Axis.LINK, Axis.LINK)
    shared = Axis.SHARED
    assert axes.parts == (shared, {"a": [shared, State(shared)]}, Memory(Axis.LINK, shared))


def test_fields_may_be_redeclared_and_inherited() -> None:
    assert declared_axes(Base) == {"rows": Axis.NODE, "table": Axis.SHARED}
    assert declared_axes(Derived) == {
        "rows": Axis.NODE,
        "table": Axis.LINK,
        "maybe": Axis.LINK,
        "parts": Axis.SHARED,
    }


def test_names_that_cannot_be_found_declare_nothing_and_hide_nothing() -> None:
    class Inner(NamedTuple):
        first: "PerLink"
        unknown: "Nowhere | None"  # noqa: F821
        itself: "Inner | None"
        last: OnOneProcess

    assert declared_axes(Inner) == {"first": Axis.LINK, "last": Axis.ONE_PROCESS}


def test_annotations_without_an_axis_are_passed_over() -> None:
    class Other(NamedTuple):
        commented: Annotated[jax.Array, "of whatever"]
        both: Annotated[PerLink, "of whatever"]

    assert declared_axes(Other) == {"both": Axis.LINK}


def test_what_jax_cannot_name_keeps_the_axis_found_so_far() -> None:
    class Opaque:
        def __init__(self, inside: Any) -> None:
            self.inside = inside

    jax.tree_util.register_pytree_node(Opaque, lambda tree: ((tree.inside,), None), lambda _, inside: Opaque(*inside))
    axes = row_axes(State(ROWS, root=Opaque(Memory(ROWS, ROWS))), Axis.NODE)
    assert axes.root.inside == Memory(Axis.ONE_PROCESS, Axis.ONE_PROCESS)


def test_the_result_has_the_structure_of_the_tree() -> None:
    tree = Derived(ROWS, ROWS, parts=(State(ROWS),), flag=True)
    assert jax.tree.structure(row_axes(tree, Axis.NODE)) == jax.tree.structure(tree)
    lengths = jax.tree.map(lambda axis, rows: (axis, len(rows)), row_axes(tree, Axis.NODE), tree)
    assert lengths.table == (Axis.LINK, 3)


@pytest.mark.parametrize("name", ["ring", "star"])  # a star has groups and an order, a ring neither
def test_a_local_network_declares_all_of_its_axes(name: str) -> None:
    network = make_network(name, 12)
    axes = row_axes(LocalNetwork.of(network), Axis.ONE_PROCESS)
    assert axes.nodes is Axis.NODE
    assert {axes.links, axes.owner, axes.neighbor, axes.weight} == {Axis.LINK}
    assert set(jax.tree.leaves((axes.groups, axes.order))) == {Axis.SHARED}
