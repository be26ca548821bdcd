"""Frozen dataclasses that JAX can trace through."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def pytree(cls: type[Class]) -> type[Class]:
    """Make `cls` a frozen dataclass whose fields JAX may trace, batch and change without recompiling.

    Fields made with `static()` are part of the program instead: a new value compiles a new one.

    Not by `jax.tree_util.register_dataclass`: up to jax 0.10 at least, the structures of two classes registered so
    compare equal if their fields do, and a compiled program of one was seen to be run for the other.
    """
    # A repr that a base class has written stays.
    made: Any = dataclass(frozen=True, eq=False, repr=cls.__repr__ is object.__repr__)(cls)
    traced = [entry.name for entry in fields(made) if not entry.metadata.get("static")]
    fixed = [entry.name for entry in fields(made) if entry.metadata.get("static")]

    def flatten(instance: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        children = [(jax.tree_util.GetAttrKey(name), getattr(instance, name)) for name in traced]
        return children, tuple(getattr(instance, name) for name in fixed)

    def unflatten(shape: tuple[Any, ...], children: Iterable[Any]) -> Any:
        return made(**dict(zip(traced, children, strict=True)), **dict(zip(fixed, shape, strict=True)))

    jax.tree_util.register_pytree_with_keys(made, flatten, unflatten)
    return made


def static(**options: Any) -> Any:
    """Declare a field that shapes the program."""
    return field(metadata={"static": True}, **options)


def traced(tree: Any) -> bool:
    """Tell whether JAX is tracing through `tree`, so that its numbers are not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def short(value: Any) -> str:
    """Return a number in a few digits, and of an array only its shape.

    >>> short(np.float64(0.123456789)), short(np.zeros((2, 3)))
    ('0.12346', 'array of shape (2, 3)')
    """
    return f"{float(value):.5g}" if np.ndim(value) == 0 else f"array of shape {np.shape(value)}"


def put(values: Any, dtype: Any) -> jax.Array:
    """Make an array for JAX, converted by NumPy: JAX itself would compile a program to convert, one for each shape."""
    return jax.device_put(np.array(values, dtype))


def take_rows(tree: Any, rows: Any) -> Any:
    """Pick rows of every array in `tree`, as `array[rows]` does for one."""
    return jax.tree.map(lambda array: array[rows], tree)


def on_cpu() -> bool:
    """Tell whether programs are for a CPU; a GPU, for which each loop takes time to begin, wants some other ones."""
    return jax.default_backend() == "cpu"


def computed_once(tree: Any, always: jax.Array) -> Any:
    """Return the same arrays, and have the compiler compute them before anything that reads them.

    XLA would quantize anew for each place that uses the levels, five of them in a broadcast iteration. On a CPU it sees
    through an `optimization_barrier`, but not into a condition that it cannot know to be `always` true.
    """
    if not on_cpu():
        return lax.optimization_barrier(tree)
    return lax.cond(always, lambda tree: tree, lambda tree: jax.tree.map(jnp.zeros_like, tree), tree)
