"""Dataclasses that JAX traces through: what is a leaf, what is structure, and what compiles again."""

from dataclasses import FrozenInstanceError, fields, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lessbits._internal.pytrees import pytree, static, take_rows


@pytree
class Line:
    """Traced slope and offset, and a static power."""

    slope: float
    offset: float = 0.0
    power: int = static(default=1)

    def at(self, point: jax.Array) -> jax.Array:
        """Return (slope · x)^power + offset."""
        return (self.slope * point) ** self.power + self.offset


@pytree
class Negative:
    """The same fields as Line, another program."""

    slope: float
    offset: float = 0.0
    power: int = static(default=1)

    def at(self, point: jax.Array) -> jax.Array:
        """Return what Line does, negated."""
        return -((self.slope * point) ** self.power + self.offset)


@pytree
class Pair:
    """A pytree of pytrees."""

    first: Line
    second: Line | Negative


def test_two_classes_with_equal_fields_have_different_structures() -> None:
    """`jax.tree_util.register_dataclass` gets this wrong, and a compiled program of one was run for the other."""
    line, negative = jax.tree.structure(Line(2.0)), jax.tree.structure(Negative(2.0))
    assert line != negative
    assert line == jax.tree.structure(Line(3.0))

    @jax.jit
    def at_one(function: Line | Negative) -> jax.Array:
        return function.at(jnp.float32(1))

    assert float(at_one(Line(2.0))) == 2.0
    assert float(at_one(Negative(2.0))) == -2.0
    assert float(at_one(Line(2.0))) == 2.0


def test_nested_classes_are_told_apart_too() -> None:
    same, mixed = Pair(Line(1.0), Line(2.0)), Pair(Line(1.0), Negative(2.0))
    assert jax.tree.structure(same) != jax.tree.structure(mixed)

    @jax.jit
    def second_at_one(pair: Pair) -> jax.Array:
        return pair.second.at(jnp.float32(1))

    assert float(second_at_one(same)) == 2.0
    assert float(second_at_one(mixed)) == -2.0


def test_static_fields_are_structure_and_others_are_leaves() -> None:
    assert jax.tree.leaves(Line(2.0, 5.0, power=3)) == [2.0, 5.0]
    assert jax.tree.structure(Line(2.0, power=3)) != jax.tree.structure(Line(2.0, power=2))
    doubled = jax.tree.map(lambda leaf: 2 * leaf, Pair(Line(1.0, 2.0, power=3), Line(3.0)))
    assert (doubled.first.slope, doubled.first.offset, doubled.first.power, doubled.second.slope) == (2.0, 4.0, 3, 6.0)


def test_leaves_know_the_names_of_their_fields() -> None:
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(Pair(Line(1.0), Line(2.0)))]
    assert paths == [".first.slope", ".first.offset", ".second.slope", ".second.offset"]


def test_another_traced_value_compiles_nothing_and_another_static_one_does() -> None:
    traces = 0

    @jax.jit
    def evaluate(line: Line, point: jax.Array) -> jax.Array:
        nonlocal traces
        traces += 1
        return line.at(point)

    point = jnp.asarray(3.0)
    assert [float(evaluate(Line(slope), point)) for slope in (1.0, 2.0, -0.5)] == [3.0, 6.0, -1.5]
    assert float(evaluate(replace(Line(1.0), offset=4.0), point)) == 7.0
    assert traces == 1
    assert float(evaluate(Line(2.0, power=2), point)) == 36.0
    assert traces == 2
    assert float(evaluate(Line(1.0, power=2), point)) == 9.0
    assert traces == 2


def test_traced_fields_can_be_batched_and_differentiated() -> None:
    lines = Line(jnp.arange(4.0), jnp.ones(4))
    assert jax.vmap(lambda line: line.at(2.0))(lines).tolist() == [1.0, 3.0, 5.0, 7.0]
    gradient = jax.grad(lambda line: line.at(3.0))(Line(2.0, 1.0, power=2))
    assert isinstance(gradient, Line)
    assert (float(gradient.slope), float(gradient.offset), gradient.power) == (36.0, 1.0, 2)


def test_instances_are_frozen_dataclasses() -> None:
    line = Line(1.0)
    assert [field.name for field in fields(line)] == ["slope", "offset", "power"]
    with pytest.raises(FrozenInstanceError):
        line.slope = 2.0


def test_take_rows_picks_rows_of_every_array() -> None:
    tree = {"a": jnp.arange(6.0).reshape(3, 2), "b": (jnp.arange(3),), "c": ()}
    taken = take_rows(tree, np.array([2, 0, 2]))
    assert taken["a"].tolist() == [[4.0, 5.0], [0.0, 1.0], [4.0, 5.0]]
    assert taken["b"][0].tolist() == [2, 0, 2]
    assert taken["c"] == ()
